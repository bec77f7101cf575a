"""The measurement of the service: it sees wrong, refused and lost requests, and the page shows what was stored."""

import asyncio
import json
import os
from types import SimpleNamespace

from paper import RESULTS
from paper.speed import serve
from paper.summaries import replace_marked

ANSWERS = [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"]
ANSWERS += [b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\nno", b""]


def test_arriving__right_wrong_refused_and_lost__each_counted():
    async def measure():
        n_asked = 0

        async def answer(reader, writer):
            nonlocal n_asked
            while await reader.read(65536):
                n_asked += 1
                told = ANSWERS[(n_asked - 1) % 4]
                writer.write(told)
                if not told:
                    break
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        clients = serve.Clients(server.sockets[0].getsockname()[1], [(None, None, b"{}")] * 8, [b"right"] * 8)
        found = {}
        async with server:
            for _ in range(4):  # one after the other: the answers come in their order
                part = await serve.arriving(clients, 100.0, 0.01, SimpleNamespace(pid=os.getpid()))
                found[next(iter(part["outcomes"]))] = part
            clients.close()
        return found

    found = asyncio.run(measure())
    assert list(found) == ["200", "wrong", "429", "lost (IncompleteReadError)"]
    assert found["200"]["answered_ms"]["n"] == 1
    assert found["429"]["refused_ms"]["n"] == 1
    assert found["wrong"]["answered_ms"] is None


def test_stored_result__of_the_service__none_lost_or_wrong_and_memory_flat():
    found = json.loads((RESULTS / serve.FILE).read_text(encoding="utf-8"))
    for part in (found["half"], found["tenfold"]):
        assert set(part["outcomes"]) <= {"200", "429", "503"}
        assert sum(part["outcomes"].values()) == part["sent"]
        assert part["memory_mb"]["last_third"] <= 1.05 * part["memory_mb"]["first_third"]
    assert set(found["half"]["outcomes"]) == {"200"}
    assert found["tenfold"]["seconds"] > 59  # from the first to the last request
    assert found["tenfold"]["sent_per_second"] >= 9 * found["sustained"]["per_second"]
    assert found["exit_code"] == 0


def test_page__of_the_service__shows_what_was_stored():
    found = json.loads((RESULTS / serve.FILE).read_text(encoding="utf-8"))
    page = serve.PAGE.read_text(encoding="utf-8")
    assert replace_marked(page, "load", f"\n{serve.table_of(found)}\n") == page
