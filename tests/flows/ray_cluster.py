"""A real Ray cluster of two nodes, and functions that run in its driver.

The cluster has its own network and process namespaces: other processes cannot reach it, and all
its processes end with it. Its addresses are not loopback addresses, so Ray requires a token.
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
_NODE = {
    "num_cpus": 1,
    "num_gpus": 1,
    "object_store_memory": 80_000_000,
    "include_dashboard": False,
}
_PATIENCE = 120  # seconds
_SOON_LOST = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 1000,
    "health_check_failure_threshold": 5,
}


class RayCluster:
    """Handle of the cluster for tests."""

    def __init__(self, driver: "subprocess.Popen[bytes]") -> None:
        self._driver = driver

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call a picklable function in the driver and return its result."""
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        pickle.dump((function, args), self._driver.stdin)
        self._driver.stdin.flush()
        is_done, value = pickle.load(self._driver.stdout)  # noqa: S301 - of our own process
        assert is_done, value
        return cast("T", value)


@contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    """Start the cluster: each node has a processor and, as far as Ray can tell, a GPU."""
    require("unshare", "ip")
    serve = "from tests.flows.ray_cluster import serve; serve()"
    command = [*NAMESPACE, "sh", "-c", PRIVATE_NETWORK, "sh", sys.executable, "-c", serve]
    environment = os.environ | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # the default lets all other tests go first
        "RAY_raylet_start_wait_time_s": "120",  # on a busy machine
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
    """Main loop of the driver: read functions, write their results, until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Ray prints to standard output
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
    """Kill the second node with everything that runs on it; call in the driver only."""
    cluster, node = _nodes
    cluster.remove_node(node, allow_graceful=False)
    _nodes.pop()


def add_node() -> None:
    """Start the second node; call in the main thread of the driver only."""
    (cluster,) = _nodes
    _nodes.append(
        _patiently(lambda: cluster.add_node(**_NODE, node_ip_address=_ADDRESSES[1], wait=False))
    )
    cluster.wait_for_nodes(_PATIENCE)


def _patiently(start: Callable[[], T]) -> T:
    """Retry: a busy machine may take longer than the 30 s that Ray waits."""
    for _ in range(2):
        with suppress(Exception):
            return start()
    return start()
