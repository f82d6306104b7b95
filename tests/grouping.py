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
