"""Which tests run in one process where several share the work (`pytest -n`).

Tests that need a real server run one after the other, so that each server is started once; they
come first, since they take longest. All others go to whoever is free.
"""

import pytest

_SERVERS = ("label_studio", "vllm", "prefect")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that share servers as a group, and puts them first."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None and _needs_server(item):
            item.add_marker(pytest.mark.xdist_group("servers"))
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def _needs_server(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in _SERVERS)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Says so where groups would not hold: every process would start servers of its own."""
    spread = session.config.getoption("loadgroup", default=False) and any(
        item.get_closest_marker("xdist_group") and "@" not in item.nodeid for item in session.items
    )
    if spread:
        raise pytest.UsageError("pytest-xdist does not group tests under this version of pytest")
