"""Items of an order on Ray: actors that load the model once, and write their own files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hotvae.jobs.items import Each, Made, Order
from hotvae.scale.cluster import TRIES, answer_of, cluster, find_ray, n_cores


class _Worker:
    """Opens an order when its first item comes."""

    def __init__(self, order: Order, folder: str) -> None:
        self.order, self.folder = order, folder
        self.make: Callable[[Any], Made] | None = None

    def answer(self, item: Any) -> Made:
        if self.make is None:
            os.chdir(self.folder)  # names of files may begin where the driver stands
            self.make = self.order.open()
        return self.make(item)


def each_on_ray(order: Order, items: Sequence[Any]) -> Iterator[Made]:
    """Do all items of an order on the cluster that this process is connected to.

    An actor has one core. One that dies, with its machine or without, is started again elsewhere, and what it was at is
    done again; all else that it had done is there.

    Parameters
    ----------
    order : Order
        The work.
    items : sequence
        What there is to do.

    Yields
    ------
    Made
        Path and checksum of each item's file, which was found there.

    Raises
    ------
    HotVAEError
        What went wrong in an item, or a file that cannot be seen from here.
    """
    if not items:
        return
    ray = find_ray()
    places = {"num_cpus": 1, "scheduling_strategy": "SPREAD", "max_restarts": TRIES, "max_task_retries": TRIES}
    worker = ray.remote(**places)(_Worker)
    pool = ray.util.ActorPool([worker.remote(order, os.getcwd()) for _ in range(min(len(items), n_cores(ray)))])
    for item in items:
        pool.submit(lambda actor, item: actor.answer.remote(item), item)
    while pool.has_next():
        made: Made = answer_of(ray, pool.get_next_unordered)
        # Who has nothing more to do leaves its core to one whose machine was lost.
        while pool.has_free():
            pool.pop_idle()
        made.check()
        yield made


@contextmanager
def items_on(address: str | None) -> Iterator[Each | None]:
    """Yield what does items on a cluster; None, for here, without an address."""
    if address is None:
        yield None
        return
    with cluster(address):
        yield each_on_ray
