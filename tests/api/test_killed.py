"""A pipeline of one's own that is killed goes on, pays for nothing twice, and ends the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from loupe.api.reading import open_release
from tests.api.shop import Shop, shop
from tests.flows.killing import calls_in
from tests.flows.worlds import loupe

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("kill")]


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Shop]:
    with shop(tmp_path / "shop") as one:
        yield one


def test_kill_9_and_again(killed: Shop, tmp_path: Path) -> None:
    script = str(killed.folder / "products.py")
    whole = loupe(tmp_path / "whole", "run", script, "--profile", killed.profile)
    assert whole.wait() == 0, whole.output
    asked = killed.server.ledger.counts.total()
    killed.server.ledger.reset()
    killed.server.delay_seconds = 0.1
    home = tmp_path / "home"
    run = loupe(home, "run", script, "--profile", killed.profile)
    while killed.server.ledger.counts.total() < asked // 2:
        assert not run.ended_within(0.01), run.output
    run.kill()
    sent, stored = killed.server.ledger.counts.total(), calls_in(home)
    again = loupe(home, "run", script, "--profile", killed.profile)
    assert again.wait() == 0, again.output
    first, second = (
        open_release(folder / "releases" / "shop-0.1.0") for folder in (tmp_path / "whole", home)
    )
    assert first.id == second.id
    assert killed.server.ledger.counts.total() - sent == asked - stored
