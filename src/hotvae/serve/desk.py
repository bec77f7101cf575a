"""Worker threads that share one model, and the line in front of them."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

from hotvae.serve.limits import Limits


class Refusal(Exception):  # noqa: N818  # not always a mistake of anyone
    """A request that gets no answer: a status, a sentence, and perhaps when to come again."""

    def __init__(self, status: int, sentence: str, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.retry_after = status, retry_after


class Deadline:
    """Called between pieces of work: raises once nobody waits for them any more."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.is_given_up = False

    def __call__(self) -> None:
        """Go on, or end the work."""
        if self.is_given_up or time.monotonic() > self._end:
            raise TimeoutError


class Desk:
    """Hands work to threads; refuses what would wait too long.

    Parameters
    ----------
    limits : Limits
        How many work, how many wait, and for how long.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(limits.workers, thread_name_prefix="hotvae-worker")
        self._lock = Lock()
        self.n_taken = 0  # worked on or waiting; a thread that nobody waits for any more counts until it is free

    def close(self) -> None:
        """Wait for the threads to end."""
        self._pool.shutdown()

    def refuse_if_full(self) -> None:
        """Say so where the line is full, before anything else is done for a request."""
        most = self._limits.workers + self._limits.waiting
        if self.n_taken >= most:
            raise Refusal(
                429,
                f"requests under way must be at most {most}; got one more. Ask again a little later.",
                retry_after=1,
            )

    async def answer(self, work: Callable[[Deadline], bytes], client_left: Callable[[], Awaitable[object]]) -> bytes:
        """Have a thread do some work, and wait for it.

        Parameters
        ----------
        work : callable
            Is given the deadline, to be called between its pieces.
        client_left : callable
            Makes what ends when nobody waits for the answer any more.

        Raises
        ------
        Refusal
            The line is full (429), no thread had time (503), or one had begun and was not done in time (504).
        """
        self.refuse_if_full()
        deadline = Deadline(self._limits.seconds)
        with self._lock:
            self.n_taken += 1
        future: Future[bytes] = self._pool.submit(work, deadline)
        future.add_done_callback(self._give_back)
        found: asyncio.Future[Any] = asyncio.wrap_future(future)
        left: asyncio.Future[Any] = asyncio.ensure_future(client_left())
        try:
            await asyncio.wait({found, left}, timeout=self._limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            if found.done():
                answer: bytes = found.result()
                return answer
        except TimeoutError:  # the thread has looked at the clock before we have
            pass
        finally:
            deadline.is_given_up = True
            was_waiting = future.cancel()
            left.cancel()
        took = f"an answer must be ready within {self._limits.seconds:g} seconds"
        if left.done() and not left.cancelled():
            raise Refusal(499, "the client must wait for its answer; got a closed connection. Ask again.")
        if was_waiting:
            raise Refusal(503, f"{took}; got no thread for it so long. Ask again a little later.", retry_after=5)
        raise Refusal(504, f"{took}; got none. Ask for fewer rows or draws at a time.")

    def _give_back(self, _: object) -> None:
        with self._lock:
            self.n_taken -= 1
