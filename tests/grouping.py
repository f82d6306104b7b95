"""Assign tests to groups that pytest-xdist runs in one process (`pytest -n`).

Tests that need the same real server run in one process, so that each server is started once; tests
of different servers run in parallel. The tests of a file also stay together, so that module
fixtures are created once. The longest groups run first, so that no single long group delays the
end. This needs `--no-loadscope-reorder`; otherwise xdist starts with the groups with most tests.
"""

import pytest

_SERVERS = {
    "label_studio": {"label_studio"},
    "prefect": {"prefect"},
    "vllm": {"vllm"},
    "lightly_studio": {"lightly_studio"},
}
"""The servers of each group. A test belongs to the first group whose servers it needs."""
_GROUPS = ("label_studio", "vllm", "prefect", "lightly_studio", "scenario", "kill", "restored")
"""Groups from the longest to the shortest."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests that share servers, and move the long groups to the front."""
    slow = set()
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        server = next((name for name, servers in _SERVERS.items() if servers <= marks), None)
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(server or _file(item)))
        if item.get_closest_marker("slow") is not None:
            slow.add(_group(item))
    items.sort(key=lambda item: _place(_group(item), slow))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _group(item: pytest.Item) -> str:
    group = item.get_closest_marker("xdist_group")
    assert group is not None
    return str(group.args[0])


def _place(group: str, slow: set[str]) -> tuple[int, str]:
    """Return a sort key: long groups in their order, then groups with slow tests, then others."""
    if group in _GROUPS:
        return _GROUPS.index(group), ""
    return len(_GROUPS) + (group not in slow), group


def pytest_collection_finish(session: pytest.Session) -> None:
    """Raise a usage error if pytest-xdist ignores the groups.

    Otherwise every worker would start its own servers.
    """
    spread = session.config.getoption("loadgroup", default=False) and any(
        item.get_closest_marker("xdist_group") and "@" not in item.nodeid for item in session.items
    )
    if spread:
        raise pytest.UsageError("pytest-xdist does not group tests under this version of pytest")
