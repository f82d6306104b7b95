"""The daily budget of a search service stops a build; the next day's run continues it."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from loupe.db.calls import requests_since
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.schemas.contrast import ImageRequest
from loupe.schemas.errors import BudgetReachedError
from loupe.schemas.profile import Profile
from loupe.schemas.proposals import Candidate
from tests.flows.ccd_world import entities, write_contrast_profile
from tests.flows.command_line import Loupe
from tests.flows.drawn_stills import DrawnStills
from tests.flows.found_variants import FoundVariants, build_found
from tests.flows.recos_world import write_build
from tests.flows.still_families import Family, families
from tests.servers.counting_server import CountingServer
from tests.servers.search_server import Reply, SearchServer

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAILY_BUDGET = 2


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(40)


@pytest.fixture
def shown_families(stills: StillsWorld) -> list[Family]:
    """Three anchors with five strategies in total."""
    return families(stills, 1, 2, 2)


@pytest.fixture
def service(web: FoundVariants) -> SearchServer:
    return web.service


@pytest.fixture
def profile(web: FoundVariants, model: CountingServer) -> Profile:
    return web.profile(model, daily_budget=DAILY_BUDGET, max_retries=3)


@pytest.fixture
def run_at(
    run: RunContext, web: FoundVariants, profile: Profile
) -> Callable[[datetime], BuildReport]:
    """Runs the build at a given time."""
    return lambda now: build_found(run, web.build, profile, clock=lambda: now)


def test_each_day_spends_its_budget_and_no_query_is_sent_twice(
    run_at: Callable[[datetime], BuildReport],
    run: RunContext,
    profile: Profile,
    service: SearchServer,
    model: CountingServer,
) -> None:
    search = profile.contrast.search
    assert search is not None
    for hours, asked in ((0, DAILY_BUDGET), (11, DAILY_BUDGET), (24, 2 * DAILY_BUDGET)):
        now = NOON + timedelta(hours=hours)
        with pytest.raises(BudgetReachedError) as stopped:
            run_at(now)
        assert "the daily budget is 2" in str(stopped.value)
        tomorrow = (now + timedelta(days=1)).date()
        assert f"its next day begins at {tomorrow}T00:00:00+00:00" in str(stopped.value)
        assert len(service.seen) == asked
        assert requests_since(run.store, search.ref, now.replace(hour=0)) == DAILY_BUDGET
    before = Counter(model.ledger.counts)
    assert len(before) == 3, "one request for strategies for each anchor"

    report = run_at(NOON + timedelta(days=2))
    assert Counter(service.queries) == Counter(set(service.queries))
    assert len(service.queries) == len(entities(run, ImageRequest.kind)) == 5
    assert len(entities(run, Candidate.kind, "accepted")) == 5
    assert report.release is not None
    assert set(model.ledger.counts.values()) == {1}


def test_failed_requests_count_toward_the_budget(
    run_at: Callable[[datetime], BuildReport], service: SearchServer
) -> None:
    service.faults = [Reply(500, {"detail": "try again"})]
    with pytest.raises(BudgetReachedError):
        run_at(NOON)
    assert len(service.seen) == DAILY_BUDGET
    assert len(set(service.queries)) == 1, "both requests were for the first query"
    with pytest.raises(BudgetReachedError):
        run_at(NOON + timedelta(days=1))
    assert len(service.seen) == 2 * DAILY_BUDGET
    assert Counter(service.queries).most_common(2)[1][1] == 1, "it is not sent again"


def test_the_command_exits_with_the_budget_exit_code(
    loupe: Loupe,
    home: Path,
    tmp_path: Path,
    web: FoundVariants,
    model: CountingServer,
    service: SearchServer,
) -> None:
    counted = {"provider": "openai", "name": "counting", "revision": "1"}
    counted |= {"base_url": model.base_url}
    search = {"provider": "openverse", "base_url": service.base_url, "daily_budget": DAILY_BUDGET}
    profile = write_contrast_profile(
        tmp_path / "profile.toml", {"strategist": counted, "refiner": counted, "search": search}
    )
    config = write_build(web.build, tmp_path / "build.toml")
    for _ in range(2):
        done = loupe("run", "build-ccd", "--in-process", "--config", config, "--profile", profile)
        assert done.exit_code == BudgetReachedError.exit_code
        message = " ".join(done.err.split())
        assert "openverse was sent 2 requests today and the daily budget is 2" in message
        assert "run again then to continue" in message
        assert "Traceback" not in message
        assert len(service.seen) == DAILY_BUDGET
    assert not (home / "releases").exists()
