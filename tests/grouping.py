"""Which tests run in one process where several share the work (`pytest -n`).

Tests that need the same real server run one after the other, so that each server is started once;
those of servers that have nothing to do with each other run side by side. What takes longest comes
first (with `--no-loadscope-reorder`: else xdist puts first what has most tests), so that in
the end nobody waits for a single long one. All others go to whoever is free.
"""

import pytest

_SERVERS = ("label_studio", "vllm", "prefect")
"""Whoever needs several of them is in the group of the first: an installation has both Prefect and
Label Studio, and another Prefect is that of those who need nothing else."""
_GROUPS = ("label_studio", "scenario", "kill", "prefect", "vllm", "restored")
"""From the longest to the shortest."""
_SECONDS_WITH_SERVERS = 1500
"""Whichever test comes first starts the servers of all; on a busy machine that takes its time."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that share servers as a group, and puts what takes long first."""
    for item in items:
        server = next((name for name in _SERVERS if item.get_closest_marker(name)), None)
        if server is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_SECONDS_WITH_SERVERS))
        if server is not None and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(server))
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    """Groups in their order, then other groups, then single tests, the slow ones first."""
    group = item.get_closest_marker("xdist_group")
    if group is None:
        return len(_GROUPS) + (1 if item.get_closest_marker("slow") else 2)
    return _GROUPS.index(group.args[0]) if group.args[0] in _GROUPS else len(_GROUPS)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Says so where groups would not hold: every process would start servers of its own."""
    spread = session.config.getoption("loadgroup", default=False) and any(
        item.get_closest_marker("xdist_group") and "@" not in item.nodeid for item in session.items
    )
    if spread:
        raise pytest.UsageError("pytest-xdist does not group tests under this version of pytest")
