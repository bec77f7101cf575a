"""One Ray cluster for all tests: nodes of one core each on this machine, which come and go."""

import os
import warnings
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason="needs the extra ray")

STORE = 200 * 2**20
MARK = "HOTVAE_TEST_CLUSTER"


@pytest.fixture(scope="session")
def head():
    """A cluster of one node; tests add others."""
    from ray.cluster_utils import Cluster

    own = {
        "RAY_AUTH_MODE": "disabled",  # a token is for clusters that others can reach
        "RAY_worker_niceness": "0",  # Ray's 15 would let tests wait for whatever else a machine is at
        MARK: str(os.getpid()),  # tells its processes from those of any other cluster on the machine
    }
    before = {name: os.environ.get(name) for name in own}
    os.environ |= own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a library that is not ours
        found = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False},
        )
        ray.init(address=found.address, log_to_driver=False, logging_level="error")
    yield found
    ray.shutdown()
    found.shutdown()
    for name, value in before.items():
        os.environ.pop(name)
        if value is not None:
            os.environ[name] = value


@pytest.fixture
def nodes(head):
    """Ask for so many nodes of one core beside the head, at least; they stay, for each costs seconds to start."""

    def ask(n_nodes):
        for _ in range(n_nodes - len(head.worker_nodes)):
            head.add_node(num_cpus=1, object_store_memory=STORE)
        head.wait_for_nodes()
        return list(head.worker_nodes)

    return ask


def workers(words):
    """Return the numbers of this cluster's processes whose title begins with some words, as Ray names its workers."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            title, environment = (
                (entry / name).read_bytes().decode(errors="replace").split("\0") for name in ("cmdline", "environ")
            )
        except (OSError, ValueError):  # no process, or gone by now
            continue
        if title[0].startswith(words) and f"{MARK}={os.getpid()}" in environment:
            found.append(int(entry.name))
    return sorted(found)
