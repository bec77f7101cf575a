"""Beyond one machine, an extra: jobs whose items, fits or processes run on a Ray cluster.

What is done stands in :mod:`hotvae.jobs`; here is only where. Ray starts processes, finds places for them, and tries
again what was lost with a process or a machine.
"""
