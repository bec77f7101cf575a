"""The one door to Ray: a cluster that is there, or one of this machine's cores for the time of a job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hotvae.config import require_module
from hotvae.errors import ConfigError, HotVAEError, TrainingError

LOCAL = "local"
"""The address of a cluster that is made of this machine, and ends with the job."""

# Nothing large goes through the object store: Ray's own default would take a third of the memory.
_STORE_BYTES = 200 * 2**20
# Times that a process, or what it was at, is begun anew.
TRIES = 8


def find_ray() -> Any:
    """Import Ray, or say how to get it."""
    return require_module("ray", "work on a cluster", "ray")


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Connect to a cluster for the time of a block.

    Parameters
    ----------
    address : str or None
        ``"local"`` or None makes a cluster of this machine's cores; ``"auto"`` finds the one that this machine is part
        of; else that of ``HOST:PORT``. A process that is connected already stays so.

    Yields
    ------
    module
        ``ray``.

    Raises
    ------
    ConfigError
        Ray that is not installed, or no cluster at the address.
    """
    if address in (None, LOCAL):
        # Since 2.59 clusters ask for a token; one that only this process knows of needs none.
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    ray = find_ray()
    if ray.is_initialized():
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    try:
        if address in (None, LOCAL):
            ray.init(object_store_memory=_STORE_BYTES, include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        words = " ".join(str(error).split())
        raise ConfigError(
            f"--ray must be the address of a cluster that runs, or stand alone for this machine; got {address!r} "
            f"({words}). Start one with ray start --head, or leave the address out."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def n_cores(ray: Any) -> int:
    """Return how many cores the cluster has."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def answer_of(ray: Any, ask: Callable[[], Any]) -> Any:
    """Wait for something; what went wrong elsewhere is told as if it had gone wrong here.

    Raises
    ------
    HotVAEError
        As it was raised, or a sentence for a process that was lost for good.
    """
    try:
        return ask()
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, HotVAEError):
            raise error.cause from None
        raise
    except ray.exceptions.RayActorError as error:
        raise TrainingError(
            f"a worker must come back after it was lost; got one that was lost {TRIES} times ({error}). Give each "
            "more memory, and repeat the command: what is done is kept."
        ) from error
