"""A service of its own process, over a socket: slow and endless senders, a stop that finishes what is under way."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx2
import numpy as np
import pytest

from tests.serve.conftest import records, table_of_plots

pytestmark = pytest.mark.slow

ROW = {"depth": 0.5, "soil": "clay"}
HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

START = """
import sys
from hotvae.serve.limits import Limits
from hotvae.serve.server import serve
limits = Limits(body_seconds=1.0, body=100_000, workers=2, waiting=4, rows=100_000, cells=10**9)
serve(sys.argv[1], port=0, limits=limits, started=lambda address, _: print(address, file=sys.stderr, flush=True))
"""


@contextmanager
def running(folder):
    """Start a service, and end it if the test has not."""
    process = subprocess.Popen(
        [sys.executable, "-c", START, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        address = process.stderr.readline().strip()
        assert address.startswith("http://127.0.0.1:"), address + process.stderr.read()
        yield process, address
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def address(folder):
    with running(folder) as (_, address):
        yield address


def raw(address, *pieces, pause=0.0):
    """Send bytes, some time apart, and return all that comes back."""
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(pause)
        told = b""
        while part := connection.recv(65536):
            told += part
    return told


def test_slow_head__408_and_closed(address):
    told = raw(address, b"POST /predict HTTP/1.1\r\nHost: local")
    assert told.startswith(b"HTTP/1.1 408 ")
    assert b"request must arrive within 1 seconds; got a part of it" in told


def test_slow_body__408_and_closed(address):
    told = raw(address, HEAD + b"Content-Length: 50\r\n\r\n", b'{"rows"')
    assert told.startswith(b"HTTP/1.1 408 ")
    assert b"body must arrive within 1 seconds; got a part of it" in told


def test_silent_connection__does_not_stay_open(address):
    assert raw(address).startswith(b"HTTP/1.1 408 ")


def test_second_request_of_a_connection__slow_head__408(address):
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    told = raw(address, whole, b"GET /hea", pause=0.2)
    assert told.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in told


def test_long_body__said_to_be_long_or_without_end__413_before_it_is_there(address):
    assert raw(address, HEAD + b"Content-Length: 100001\r\n\r\n").startswith(b"HTTP/1.1 413 ")
    chunk = b"8000\r\n" + b"[" * 0x8000 + b"\r\n"
    assert raw(address, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 4).startswith(b"HTTP/1.1 413 ")


def test_bytes_that_are_no_http__400(address):
    assert raw(address, b"\x16\x03\x01\x02\x00 hello\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    long_head = b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n"
    assert raw(address, long_head).startswith(b"HTTP/1.1 400 ")


def test_many_at_once__each_right_or_told_to_come_again(address, model):
    plots = table_of_plots(40, 3)
    expected = model.predict(plots[list(model.feature_names_in_)], objective="f1", n_draws=100)
    question = {"rows": records(plots), "n_draws": 100}
    with httpx2.Client(base_url=address, timeout=60, limits=httpx2.Limits(max_connections=40)) as client:
        with ThreadPoolExecutor(40) as pool:
            answers = list(pool.map(lambda _: client.post("/decide", json=question), range(80)))
        statuses = {answer.status_code for answer in answers}
        assert statuses == {200, 429}
        right = [[f"{model.label_names_[i]}" for i in np.flatnonzero(row)] for row in expected]
        assert all(answer.json()["lists"] == right for answer in answers if answer.status_code == 200)
        assert all(answer.headers["retry-after"] == "1" for answer in answers if answer.status_code == 429)
        assert client.get("/metrics").text.count("hotvae_under_way 0.0") == 1


def test_sigterm__while_a_request_is_worked_on__it_is_answered_and_the_log_is_json(folder):
    plots = table_of_plots(600, 4)
    with running(folder) as (process, address), httpx2.Client(base_url=address, timeout=120) as client:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(client.post, "/decide", json={"rows": records(plots), "n_draws": 2000})
            under_way = 0.0
            while not under_way and not asked.done():
                text = httpx2.get(f"{address}/metrics").text
                under_way = float(re.search(r"^hotvae_under_way (.*)$", text, re.MULTILINE)[1])
            process.send_signal(signal.SIGTERM)
            answer = asked.result()
        assert under_way == 1
        assert answer.status_code == 200
        assert len(answer.json()["lists"]) == 600
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        lines = [json.loads(line) for line in out.splitlines()]
        last = [line for line in lines if line.get("path") == "/decide"]
        assert [(line["status"], line["rows"]) for line in last] == [(200, 600)]
        assert lines.index(last[0]) > [line.get("message") for line in lines].index("Shutting down")
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"{address}/health")


def test_import__of_the_command_line__does_not_wait_for_the_extra():
    check = "import hotvae.cli, sys; assert not {'fastapi', 'uvicorn', 'pydantic', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True, env=os.environ)
