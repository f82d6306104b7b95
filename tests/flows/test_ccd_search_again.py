"""Results of image searches: none is a local file or another anchor, none is lost or left over."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from loupe.db.decisions import append_decisions
from loupe.db.entities import NewDecision, Verdict, fetch
from loupe.db.quarantine import quarantined
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.ccd.image_requests import request_images
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.software import software
from loupe.schemas.contrast import ImageRequest
from loupe.schemas.errors import BudgetReachedError
from loupe.schemas.proposals import Candidate, Strategy
from tests.flows.ccd_world import entities, image_pipeline
from tests.flows.drawn_stills import DrawnStills
from tests.flows.found_variants import FoundVariants, build_found
from tests.flows.still_families import Family, families
from tests.servers.counting_server import CountingServer
from tests.sources.web.adversary import answer

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(40)


@pytest.fixture
def shown_families(stills: StillsWorld) -> list[Family]:
    """Two anchors with three strategies in total."""
    return families(stills, 1, 2)


def test_a_service_cannot_point_to_a_local_file(
    run: RunContext, web: FoundVariants, model: CountingServer
) -> None:
    known = web.service.results_of
    web.service.results_of = lambda query: [
        {**one, "url": "folder:../../etc/passwd"} for one in known(query)
    ]
    build_found(run, web.build, web.profile(model), pipeline=image_pipeline)
    assert entities(run, Candidate.kind) == []
    refused = [one for one in quarantined(run.store, web.build.dataset) if "hit" in one.context]
    assert [one.reason for one in refused] == ["not_an_address"] * 3


def test_an_anchor_is_not_used_as_a_contrastive_image_of_another_anchor(
    run: RunContext, web: FoundVariants, model: CountingServer, shown_families: list[Family]
) -> None:
    known, (first, second) = web.service.results_of, shown_families
    path = f"/{second.first.file_name}"
    data = (Path(web.build.sources[0].images) / second.first.file_name).read_bytes()
    web.host.replies[path] = answer(data)
    wanted = first.variants[0].captions[0]

    def results(query: str) -> list[dict[str, Any]]:
        found = known(query)
        url = f"http://127.0.0.1:{web.host.port}{path}"
        return [{**found[0], "url": url}] if query == wanted else found

    web.service.results_of = results
    build_found(run, web.build, web.profile(model), pipeline=image_pipeline)
    (refused,) = quarantined(run.store, web.build.dataset)
    assert (refused.stage, refused.reason) == ("choose_candidates", "already_used")
    assert len(entities(run, Candidate.kind, "accepted")) == 2


def test_image_requests_of_a_rejected_strategy_are_inactive_until_it_is_accepted(
    run: RunContext, web: FoundVariants, model: CountingServer
) -> None:
    with pytest.raises(BudgetReachedError):
        build_found(run, web.build, web.profile(model, daily_budget=0), clock=lambda: NOON)
    (strategy, *_) = entities(run, Strategy.kind, "accepted")
    dataset = web.build.dataset
    verdicts: tuple[tuple[Verdict, int], ...] = (("reject", 2), ("accept", 3))
    for verdict, current in verdicts:
        with run.store.write() as connection:
            append_decisions(connection, [NewDecision(strategy.id, verdict, software(), "said")])
        request_images(run, dataset, "search")
        assert len(entities(run, ImageRequest.kind, "proposed")) == current
    assert len(entities(run, ImageRequest.kind)) == 3


def test_images_found_within_the_budget_become_candidates(
    run: RunContext, web: FoundVariants, model: CountingServer
) -> None:
    build = web.build.model_copy(update={"methods": ("search", "edit")})
    profile = web.profile(model, daily_budget=2)
    with pytest.raises(BudgetReachedError, match="the daily budget is 2"):
        build_found(run, build, profile, clock=lambda: NOON)
    accepted = entities(run, Candidate.kind, "accepted")
    assert [one.record(Candidate).origin.method for one in accepted].count("search") == 2
    assert len(accepted) == 2
    orders = [one.record(ImageRequest).method for one in entities(run, ImageRequest.kind)]
    assert orders == ["search"] * 3, "a strategy that was not searched for yet is not edited"

    build_found(run, build, profile, lambda: NOON + timedelta(days=1), image_pipeline)
    assert len(web.service.queries) == len(set(web.service.queries)) == 3
    assert len(entities(run, Candidate.kind, "accepted")) == 3
    stored = fetch(run.store, [one.id for one in accepted])
    assert all(one.state == "accepted" for one in stored.values())
