"""The line in front of the worker threads: who waits, who is refused, and who gives a place back when."""

import asyncio
from threading import Event

import pytest

from hotvae.serve.desk import Desk, Refusal
from hotvae.serve.limits import Limits


async def never():
    await asyncio.Event().wait()


async def until(holds):
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


def at_desk(check, **limits):
    """Run a check at a desk of its own."""
    desk = Desk(Limits(**limits))
    try:
        asyncio.run(check(desk))
    finally:
        desk.close()
    assert desk.n_taken == 0


def test_answer__line_is_full__429_and_the_others_are_answered():
    go = Event()

    async def check(desk):
        first = [asyncio.ensure_future(desk.answer(lambda _: go.wait(60) and b"done", never)) for _ in range(3)]
        await until(lambda: desk.n_taken == 3)
        with pytest.raises(Refusal, match="requests under way must be at most 3; got one more") as caught:
            await desk.answer(lambda _: b"", never)
        assert (caught.value.status, caught.value.retry_after) == (429, 1)
        go.set()
        assert await asyncio.gather(*first) == [b"done"] * 3

    at_desk(check, workers=1, waiting=2)


def test_answer__no_thread_in_time__503_and_never_begun():
    go, begun = Event(), []

    async def check(desk):
        busy = asyncio.ensure_future(desk.answer(lambda _: go.wait(60) and b"late", never))
        await until(lambda: desk.n_taken == 1)
        with pytest.raises(Refusal, match="got no thread for it so long") as caught:
            await desk.answer(lambda _: begun.append(1) or b"", never)
        assert caught.value.status == 503
        with pytest.raises(Refusal, match="Ask for fewer rows or draws at a time") as caught:
            await busy
        assert caught.value.status == 504
        assert desk.n_taken == 1  # its thread is still busy, and counts
        go.set()
        await until(lambda: desk.n_taken == 0)
        assert begun == []

    at_desk(check, workers=1, waiting=2, seconds=0.2)


def test_answer__work_that_looks_at_the_clock__ends_after_its_time():
    ended = Event()

    def work(deadline):
        try:
            while True:
                deadline()
        finally:
            ended.set()

    async def check(desk):
        with pytest.raises(Refusal) as caught:
            await desk.answer(work, never)
        assert caught.value.status == 504
        assert await asyncio.to_thread(ended.wait, 60)

    at_desk(check, workers=1, seconds=0.2)


def test_answer__client_left__work_is_given_up():
    ended = Event()

    def work(deadline):
        try:
            while True:
                deadline()
        finally:
            ended.set()

    async def check(desk):
        with pytest.raises(Refusal, match="client must wait") as caught:
            await desk.answer(work, lambda: asyncio.sleep(0.05))
        assert caught.value.status == 499
        assert await asyncio.to_thread(ended.wait, 60)

    at_desk(check, workers=1, seconds=600)


def test_answer__error_in_the_thread__is_the_caller_s_and_the_place_is_free():
    def work(_):
        raise ValueError("of its own")

    async def check(desk):
        for _ in range(5):
            with pytest.raises(ValueError, match="of its own"):
                await desk.answer(work, never)
        assert await desk.answer(lambda _: b"fine", never) == b"fine"

    at_desk(check, workers=1, waiting=0)
