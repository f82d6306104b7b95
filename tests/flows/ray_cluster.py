"""A real Ray cluster of two nodes, and functions that run in its driver.

It has a network and process ids of its own: nobody else reaches it, and all of it ends with it. Its
addresses are not loopback ones, so that it must ask for a token, and does.
"""

import os
import pickle
import secrets
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from tests.separation import OWN_NAMESPACE, require

T = TypeVar("T")
_ROOT = Path(__file__).parents[2]
_ADDRESSES = ("10.77.0.1", "10.77.0.2")
NAMESPACE = (*OWN_NAMESPACE, "--net")
PRIVATE_NETWORK = (
    f"ip link set lo up; for one in {' '.join(_ADDRESSES)}; do ip address add $one dev lo; done; "
    f'ip route add default dev lo src {_ADDRESSES[0]}; "$@"; exit'
)
_NODE = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
_PATIENCE = 120  # seconds
_SOON_LOST = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 1000,
    "health_check_failure_threshold": 5,
}


class RayCluster:
    """The cluster, seen from the tests."""

    def __init__(self, driver: "subprocess.Popen[bytes]") -> None:
        self._driver = driver

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """What a function of a module gives in the driver, with arguments that can be pickled."""
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        pickle.dump((function, args), self._driver.stdin)
        self._driver.stdin.flush()
        is_done, value = pickle.load(self._driver.stdout)  # noqa: S301 - of our own process
        assert is_done, value
        return cast("T", value)


@contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    """The cluster, with a processor on each node."""
    require("unshare", "ip")
    serve = "from tests.flows.ray_cluster import serve; serve()"
    command = [*NAMESPACE, "sh", "-c", PRIVATE_NETWORK, "sh", sys.executable, "-c", serve]
    environment = os.environ | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # not behind all other tests
    }
    with subprocess.Popen(
        command, cwd=_ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as driver:
        cluster = RayCluster(driver)
        try:
            cluster.run(os.getpid)
            yield cluster
        finally:
            driver.kill()


_nodes: list[Any] = []  # in the driver: the cluster, and its second node


def serve() -> None:
    """The life of the driver: functions come in, results go out, until the tests are over."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what Ray prints
    from ray.cluster_utils import Cluster

    head = {**_NODE, "node_ip_address": _ADDRESSES[0], "_system_config": _SOON_LOST}
    cluster = _patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
    _nodes.append(cluster)
    add_node()
    os.environ["LOUPE_RAY_ADDRESS"] = cluster.address
    while True:
        try:
            function, args = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own process
        except EOFError:
            return
        try:
            answer = True, function(*args)
        except BaseException:  # noqa: BLE001 - raised again by the test
            answer = False, traceback.format_exc()
        pickle.dump(answer, answers)
        answers.flush()


def lose_node() -> None:
    """Kills the second node with all that runs on it; in the driver alone."""
    cluster, node = _nodes
    cluster.remove_node(node, allow_graceful=False)
    _nodes.pop()


def add_node() -> None:
    """Starts the second node; in the main thread of the driver alone."""
    (cluster,) = _nodes
    _nodes.append(
        _patiently(lambda: cluster.add_node(**_NODE, node_ip_address=_ADDRESSES[1], wait=False))
    )
    cluster.wait_for_nodes(_PATIENCE)


def _patiently(start: Callable[[], T]) -> T:
    """Tries again where a busy machine takes longer than the 30 s that Ray waits."""
    for _ in range(2):
        with suppress(Exception):
            return start()
    return start()
