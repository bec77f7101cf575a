"""Tasks on Ray that are asked, waited for and ended like processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hotvae.estimators.recipe import Workshop
from hotvae.scale.cluster import TRIES, answer_of, find_ray

_PLACES: dict[str, Any] = {"num_cpus": 1, "max_retries": TRIES, "scheduling_strategy": "SPREAD"}


class RayTask:
    """A call on a core of the cluster; after its machine is lost it is made again elsewhere.

    Parameters
    ----------
    call : callable
        What to do there, in the folder that the driver stands in.
    *arguments
        What it is called with.
    variables : mapping of str to str, optional
        Of the environment there.
    """

    def __init__(self, call: Callable[..., Any], *arguments: Any, variables: Mapping[str, str] | None = None) -> None:
        self.ray = find_ray()
        remote = self.ray.remote(**_PLACES, runtime_env={"env_vars": dict(variables or {})})(_call)
        self.reference = remote.remote(os.getcwd(), call, *arguments)
        self.words = ""

    def poll(self) -> int | None:
        """Return 0 when it is done, 1 when it failed, None before."""
        if not self.ray.wait([self.reference], timeout=0)[0]:
            return None
        try:
            self.ray.get(self.reference)
        except self.ray.exceptions.RayError as error:
            self.words = (str(error).strip().splitlines() or ["it was ended"])[-1]
            return 1
        return 0

    def last_words(self) -> str:
        """Return what one that failed has said last; nothing of any other."""
        return self.words if self.poll() == 1 else ""

    def terminate(self) -> None:
        """End it."""
        self.ray.cancel(self.reference, force=True)

    kill = terminate

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it has ended."""
        self.ray.wait([self.reference], timeout=timeout)


def _call(folder: str, call: Callable[..., Any], *arguments: Any) -> None:
    os.chdir(folder)
    call(*arguments)


def search_on_ray(told: Mapping[str, Any]) -> RayTask:
    """Do what a process of a search does, on the cluster; its journal lies on a disk that all machines share."""
    from hotvae.jobs.trials import work

    return RayTask(work, {name: value for name, value in told.items() if name != "path"})


def fits_on_ray(shop: Workshop, fit: Callable[..., Any], asked: Sequence[tuple[Any, ...]]) -> list[dict[str, float]]:
    """Fit members of a stack on the cluster, each as a task; they leave them in the workshop's folder.

    See :func:`hotvae.estimators.recipe.helped`. On a disk that not all machines share nothing is found in the folder,
    and everything is fitted here.
    """
    ray = find_ray()
    shipped = ray.put(shop)  # once for all tasks
    remote = ray.remote(**_PLACES)(_fit)
    references = [remote.remote(os.getcwd(), shipped, fit, arguments) for arguments in asked]
    seconds: list[dict[str, float]] = answer_of(ray, lambda: ray.get(references))
    return seconds


def _fit(folder: str, shop: Workshop, fit: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, float]:
    os.chdir(folder)
    shop.seconds = {}
    fit(shop, *arguments)
    return shop.seconds
