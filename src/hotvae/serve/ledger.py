"""A line of log and the counts of every request."""

import json
import logging
import time
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOGGER = logging.getLogger("hotvae.serve")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class JsonLines(logging.Formatter):
    """Each record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        said = record.msg if isinstance(record.msg, dict) else {"message": record.getMessage()}
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": when, "level": record.levelname.lower(), **said}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class Counts:
    """What ``/metrics`` tells, of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        own: Any = {"namespace": "hotvae", "registry": self.registry}
        self.requests = Counter("requests", "Requests by what became of them.", ["path", "status"], **own)
        self.seconds = Histogram("request_seconds", "From a request to its answer.", ["path"], buckets=_SECONDS, **own)
        self.rows = Counter("rows", "Rows that were answered.", **own)
        self.under_way = Gauge("under_way", "Requests that are worked on or wait in line.", **own)


class Ledger:
    """Middleware that writes a line for each request and counts it.

    Parameters
    ----------
    app : ASGI application
        What answers.
    counts : Counts
        Where to count.
    paths : collection of str
        Paths that are counted by name; all others together, since anyone may invent them.
    """

    def __init__(self, app: ASGIApp, counts: Counts, paths: frozenset[str]) -> None:
        self._app, self._counts, self._paths = app, counts, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and write down what became of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, n_bytes = time.perf_counter(), {"in": 0, "out": 0}
        note: dict[str, Any] = {"status": 500}
        scope["note"] = note

        async def counted_receive() -> Message:
            message = await receive()
            n_bytes["in"] += len(message.get("body", b""))
            return message

        async def counted_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                note["status"] = message["status"]
            n_bytes["out"] += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, counted_receive, counted_send)
        finally:
            seconds = time.perf_counter() - started
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._counts.requests.labels(path, note["status"]).inc()
            self._counts.seconds.labels(path).observe(seconds)
            self._counts.rows.inc(note.get("rows", 0))
            LOGGER.info(
                {
                    "event": "request",
                    "client": scope["client"][0] if scope.get("client") else None,
                    "method": scope["method"],
                    "path": scope["path"][:200],
                    "seconds": round(seconds, 6),
                    "bytes_in": n_bytes["in"],
                    "bytes_out": n_bytes["out"],
                    **note,
                }
            )
