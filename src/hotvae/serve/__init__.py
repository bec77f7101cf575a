"""The service: one model in memory answers programs over HTTP. It needs the extra ``serve``.

From the wire to the model: ``server`` (sockets, slow senders, a graceful stop), ``app`` (paths, tokens, what is
refused), ``ledger`` (a line of log and the counts of each request), ``desk`` (worker threads and the line in front of
them), ``questions`` (what may be asked, and the answers).
"""
