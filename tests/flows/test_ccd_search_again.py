"""Searching again with another service or folder, or on the next day, keeps results apart."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from db.decisions import append_decisions
from db.entities import NewDecision, Verdict, fetch, parents_of
from db.quarantine import quarantined
from flows.ccd.image_requests import request_images
from flows.engine.context import RunContext
from flows.engine.report import BuildReport
from schemas.build import CcdBuild
from schemas.contrast import FoundHit, ImageRequest
from schemas.errors import BudgetReachedError, UsageError
from schemas.profile import Profile
from schemas.proposals import Candidate, Strategy
from schemas.provenance import Role
from sources.demonstration.stills import StillsWorld
from tests.flows.ccd_world import (
    contrast_profile,
    counted_model,
    entities,
    image_pipeline,
    searched_folder,
)
from tests.flows.drawn_stills import DrawnStills
from tests.flows.found_variants import FoundVariants, build_found
from tests.flows.still_families import Family, families
from tests.servers.counting_server import CountingServer
from tests.sources.web.adversary import answer

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(80)


@pytest.fixture
def shown_families(stills: StillsWorld) -> list[Family]:
    """Two anchors with three strategies in total."""
    return families(stills, 1, 2)


def folder_profile(model: CountingServer) -> Profile:
    counted = counted_model(model.base_url)
    return contrast_profile(strategist=counted, refiner=counted)


def folder_of(stills: StillsWorld, names: list[str], folder: Path) -> Path:
    """Create a folder with these stills only."""
    whole = searched_folder(stills, folder)
    listed = (whole / "licences.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in listed if any(f'"{name}"' in line for name in names)]
    assert len(kept) == len(names)
    (whole / "licences.jsonl").write_text("".join(kept))
    return whole


def stage(report: BuildReport, name: str) -> int:
    """Return the number of inputs that a stage has processed in a run."""
    (found,) = (one.done for one in report.stages if one.stage == name)
    return found


def with_folder(build: CcdBuild, folder: Path) -> CcdBuild:
    return build.model_copy(update={"search_folder": folder, "version": f"0.{len(folder.name)}.0"})


def test_results_of_a_service_replace_those_of_a_folder(
    run: RunContext,
    web: FoundVariants,
    model: CountingServer,
    stills: StillsWorld,
    shown_families: list[Family],
    tmp_path: Path,
) -> None:
    folder = folder_of(stills, [shown_families[0].first.file_name], tmp_path / "pictures")
    message = r"nothing of .contrasts. can be released: it has 2 images, none of them with a"
    with pytest.raises(UsageError, match=message):
        build_found(run, with_folder(web.build, folder), folder_profile(model))
    of_folder = entities(run, FoundHit.kind)
    assert of_folder
    report = build_found(run, web.build, web.profile(model), pipeline=image_pipeline)
    of_web = [one for one in entities(run, FoundHit.kind) if one not in of_folder]
    assert {one.record(FoundHit).engine for one in of_web} == {"openverse@v1"}
    assert stage(report, "download images") == len(of_web) == 3
    found = entities(run, Candidate.kind, "accepted")
    assert len(found) == 3
    pictures = {one.id: parents_of(run.store, [one.id], Role.FOUND_AS)[one.id][0] for one in found}
    hits = parents_of(run.store, pictures.values(), Role.DOWNLOADED_FROM)
    assert {hit for parents in hits.values() for hit in parents} <= {one.id for one in of_web}


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


def test_candidates_are_chosen_again_from_a_folder_with_other_images(
    run: RunContext,
    web: FoundVariants,
    model: CountingServer,
    stills: StillsWorld,
    shown_families: list[Family],
    tmp_path: Path,
) -> None:
    variants = [one.file_name for family in shown_families for one in family.variants]
    first = folder_of(stills, variants[:2], tmp_path / "one")
    profile = folder_profile(model)
    build_found(run, with_folder(web.build, first), profile, pipeline=image_pipeline)
    before = {one.id for one in entities(run, Candidate.kind)}
    second = folder_of(stills, variants[2:], tmp_path / "others")
    report = build_found(run, with_folder(web.build, second), profile, pipeline=image_pipeline)
    assert stage(report, "choose candidates") > 0
    new = [one for one in entities(run, Candidate.kind) if one.id not in before]
    assert new
    pages = {one.record(Candidate).origin.page for one in new}  # type: ignore[union-attr]
    assert pages <= {f"folder:{name}" for name in variants[2:]}


def test_an_anchor_is_not_used_as_a_contrastive_image_of_another_anchor(
    run: RunContext, web: FoundVariants, model: CountingServer, shown_families: list[Family]
) -> None:
    known, (first, second) = web.service.results_of, shown_families
    path = f"/{second.first.file_name}"
    data = (web.build.sources[0].images / second.first.file_name).read_bytes()
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
            append_decisions(connection, [NewDecision(strategy.id, verdict, run.software, "said")])
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

    report = build_found(run, build, profile, clock=lambda: NOON + timedelta(days=1))
    assert report.release is not None
    assert len(web.service.queries) == len(set(web.service.queries)) == 3
    assert len(entities(run, Candidate.kind, "accepted")) == 3
    stored = fetch(run.store, [one.id for one in accepted])
    assert all(one.state == "accepted" for one in stored.values())
