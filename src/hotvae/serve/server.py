"""The server: a socket, requests that come too slowly, and a stop that finishes what is under way."""

import asyncio
import json
import logging
import re
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hotvae.errors import ConfigError
from hotvae.serve.app import LOCAL_NAMES, make_app
from hotvae.serve.explorer import Explorer
from hotvae.serve.ledger import LOGGER, JsonLines
from hotvae.serve.limits import Limits
from hotvae.serve.questions import Served

_LEAST_TOKEN = 16
# Seconds after the last answer is due that a stop still waits.
_GRACE = 5


class PatientProtocol(H11Protocol):
    """HTTP in which a request that does not arrive in time is answered with 408; Uvicorn would wait for ever."""

    body_seconds = Limits.body_seconds
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take some bytes, and wait for the rest of the request."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_watching()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):  # it is there
            self._stop_watching()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.body_seconds, self._give_up)

    def _stop_watching(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if self.transport.is_closing():
            return
        if self.conn.our_state is h11.IDLE and self.conn.their_state is h11.IDLE:  # no application knows of it yet
            sentence = f"request must arrive within {self.body_seconds:g} seconds; got a part of it. Send it faster."
            body = json.dumps({"error": sentence}).encode()
            headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
            start = h11.Response(status_code=408, headers=list(headers.items()))
            for event in (start, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()
        elif self.conn.our_state in (h11.DONE, h11.MUST_CLOSE):  # refused long ago, and still sending
            self.transport.close()
        else:  # the application is about to say so
            self._timer = self.loop.call_later(1.0, self._give_up)


def check_token(host: str, token: str | None) -> None:
    """Refuse to be reached from elsewhere without a token, or with one that is soon guessed."""
    if token is None and host not in LOCAL_NAMES:
        raise ConfigError(
            f"host must be 127.0.0.1, ::1 or localhost where no token is set; got {host!r}. Put a token into a file "
            "and pass --token-file FILE, or set HOTVAE_TOKEN."
        )
    if token is not None and re.fullmatch(rf"[!-~]{{{_LEAST_TOKEN},}}", token) is None:
        raise ConfigError(
            f"token must be {_LEAST_TOKEN} or more letters, digits or signs without spaces; got {len(token)}. Make one "
            "with: openssl rand -hex 32"
        )


def serve(
    model_folder: str | Path,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    limits: Limits | None = None,
    started: Callable[[str, Served], None] | None = None,
    explorer: Callable[[Served], Explorer] | None = None,
) -> None:
    """Serve a model until SIGTERM or SIGINT; what is under way then is finished first.

    Parameters
    ----------
    model_folder : path
        Folder of a trained model.
    host, port : str, int
        Where to listen; port 0 takes a free one.
    token : str, optional
        What requests must show; see :func:`~hotvae.serve.app.make_app`.
    limits : Limits, optional
        What one request may ask for, and how many are worked on at once.
    started : callable, optional
        Called with the address and the model once requests can come.
    explorer : callable, optional
        Makes the page at ``/`` of the model.
    """
    check_token(host, token)
    limits = limits or Limits()
    served = Served.load(model_folder, limits)
    protocol = type("Protocol", (PatientProtocol,), {"body_seconds": limits.body_seconds})
    with _listen(host, port) as listener:
        config = uvicorn.Config(
            make_app(served, token, None if explorer is None else explorer(served)),
            http=protocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=limits.connections,
            timeout_graceful_shutdown=int(limits.body_seconds + limits.seconds) + _GRACE,
        )
        _log_lines()
        if started is not None:
            started(f"http://{_written(host)}:{listener.getsockname()[1]}", served)
        # Uvicorn takes signals while it runs, and raises them once more when all is done: that was all.
        before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise ConfigError(
            f"host and port must be free to listen at; got {host}, {port} ({error.strerror or error}). Choose another "
            "port, such as --port 8001."
        ) from error


def _written(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _log_lines() -> None:
    """Write what is logged to standard output, a JSON object a line."""
    handler: Any = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLines())
    for logger in (LOGGER, logging.getLogger("uvicorn.error")):
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
