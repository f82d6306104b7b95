"""Which tests run in one process where several share the work (`pytest -n`).

Tests that need the same real server run one after the other, so that each server is started once;
those of servers that have nothing to do with each other run side by side. The tests of a file stay
together, too: what they share is made once. What takes longest comes first (with
`--no-loadscope-reorder`: else xdist puts first what has most tests), so that in the end nobody
waits for a single long one.
"""

import pytest

_SERVERS = {
    "installation": {"prefect", "label_studio"},
    "label_studio": {"label_studio"},
    "prefect": {"prefect"},
    "vllm": {"vllm"},
}
"""The servers of each group; a test is in the first group all of whose servers it needs."""
_GROUPS = ("installation", "label_studio", "scenario", "vllm", "kill", "prefect", "restored")
"""From the longest to the shortest."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that share servers as a group, and puts what takes long first."""
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
    """The long groups in their order, then groups with slow tests, then the others."""
    if group in _GROUPS:
        return _GROUPS.index(group), ""
    return len(_GROUPS) + (group not in slow), group


def pytest_collection_finish(session: pytest.Session) -> None:
    """Says so where groups would not hold: every process would start servers of its own."""
    spread = session.config.getoption("loadgroup", default=False) and any(
        item.get_closest_marker("xdist_group") and "@" not in item.nodeid for item in session.items
    )
    if spread:
        raise pytest.UsageError("pytest-xdist does not group tests under this version of pytest")
