"""The service: one model in memory answers programs over HTTP. An extra: ``pip install 'hotvae[serve]'``.

From the wire to the model: ``server`` (sockets, slow senders, a graceful stop), ``app`` (paths, tokens, what is
refused), ``ledger`` (a line of log and the counts of each request), ``desk`` (worker threads and the line in front of
them), ``questions`` (what may be asked, and the answers).
"""
