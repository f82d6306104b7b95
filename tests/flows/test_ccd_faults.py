"""Faults of search services and image hosts during `build-ccd`."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from loupe.db.calls import requests_since
from loupe.db.decisions import append_decisions
from loupe.db.entities import AgentRef, NewDecision
from loupe.db.quarantine import put_back, quarantined
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.ccd.downloading import is_transient
from loupe.flows.ccd.image_requests import request_images, waiting_strategies
from loupe.flows.ccd.pipeline import ccd_pipeline
from loupe.flows.ccd.searching import RecordedSearch, RequestSearches
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.models.adapter import always
from loupe.schemas.chat import ModelRef
from loupe.schemas.contrast import (
    ChoiceCalibration,
    FoundHit,
    FoundPicture,
    ImageRequest,
    ResultsConsidered,
)
from loupe.schemas.errors import BudgetReachedError, ModelError, ServiceError, UsageError
from loupe.schemas.image_search import OpenverseSearch, SearchFailure, SearchOutcome
from loupe.schemas.profile import Profile
from loupe.schemas.proposals import Candidate
from loupe.schemas.records import Rejection
from tests.flows.ccd_world import DATASET, entities, image_pipeline
from tests.flows.drawn_stills import DrawnStills
from tests.flows.found_variants import FoundVariants, build_found
from tests.flows.still_families import Family, families
from tests.servers.counting_server import CountingServer
from tests.servers.search_server import Reply, SearchServer
from tests.sources.web.adversary import Reply as HostReply
from tests.sources.web.adversary import answer, hang_up

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
PERSON = AgentRef("person", "annotator-1")
UNAVAILABLE = answer(status="503 Service Unavailable")
WRONG_KEY = Reply(401, {"detail": "Authentication credentials were not provided."})


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


RunBuild = Callable[..., BuildReport]


@pytest.fixture
def run_build(run: RunContext, web: FoundVariants, model: CountingServer) -> RunBuild:
    """Runs the build at a time, with these settings of search and downloads.

    Without `released`, it ends when the images are chosen.
    """

    def build(
        now: datetime = NOON,
        version: str = "0.1.0",
        download: dict[str, Any] | None = None,
        choice: dict[str, Any] | None = None,
        *,
        released: bool = False,
        **search: Any,
    ) -> BuildReport:
        profile = web.profile(model, **{"max_retries": 0, **search})
        changed = with_contrast(profile, download=download or {}, choice=choice or {})
        of_version = web.build.model_copy(update={"version": version})
        steps = ccd_pipeline if released else image_pipeline
        return build_found(run, of_version, changed, lambda: now, steps)

    return build


def with_contrast(profile: Profile, **changed: dict[str, Any]) -> Profile:
    settings = {
        name: getattr(profile.contrast, name).model_copy(update=values)
        for name, values in changed.items()
    }
    return profile.model_copy(update={"contrast": profile.contrast.model_copy(update=settings)})


def accepted(run: RunContext) -> int:
    return len(entities(run, Candidate.kind, "accepted"))


def reasons(run: RunContext, stage: str) -> list[str]:
    return [one.reason for one in quarantined(run.store, DATASET) if one.stage == stage]


def requests(run: RunContext) -> int:
    return requests_since(run.store, OpenverseSearch(provider="openverse").ref, NOON - HOUR)


def test_a_wrong_key_is_reported_after_one_request_that_does_not_count(
    run_build: RunBuild, run: RunContext, service: SearchServer
) -> None:
    service.faults = [WRONG_KEY] * 9
    for asked in (1, 2):
        with pytest.raises(ModelError) as stopped:
            run_build(daily_budget=5)
        assert "answered with status 401" in str(stopped.value)
        assert "fix the settings and run again" in str(stopped.value)
        assert len(service.seen) == asked
    assert requests(run) == 0


def test_an_unreadable_answer_affects_no_other_request(
    run_build: RunBuild, run: RunContext, service: SearchServer
) -> None:
    service.faults = [Reply(body={"results": "none"})]
    assert run_build(max_retries=4, released=True).release is not None
    assert accepted(run) == 4
    assert len(service.seen) == 5
    (rejected,) = quarantined(run.store, DATASET, "unreadable_answer")
    assert rejected.context["raw"] == '{"results": "none"}'
    run_build(max_retries=4)
    assert len(service.seen) == 5
    assert put_back(run.store, DATASET, "unreadable_answer") == 1
    run_build(max_retries=4)
    assert len(service.seen) == 6
    assert accepted(run) == 5


def test_results_without_an_image_address_are_rejected_with_a_count(
    run_build: RunBuild, run: RunContext, service: SearchServer
) -> None:
    service.results_of = lambda _: [{"title": "no address"}, None, {"url": 3}]
    with pytest.raises(UsageError, match="nothing of"):
        run_build(released=True)
    rejected = list(quarantined(run.store, DATASET, "no_readable_results"))
    assert len(rejected) == 5
    assert "returned 3 results" in rejected[0].detail
    assert "none of them readable" in rejected[0].detail
    unusable = [one["reason"] for one in rejected[0].context["results"]]
    assert sorted(unusable) == ["no_address", "no_address", "no_object"]


class Ended:
    """A search service that was shut down for good."""

    ref = ModelRef(name="ended-search", revision="1")
    parameters: dict[str, Any] = {}  # noqa: RUF012

    def search(
        self, query: str, count: int, may_retry: Callable[[], bool] = always
    ) -> SearchOutcome:
        return SearchFailure(reason="service_ended", detail="it ended", retriable=True)


def test_strategies_left_by_a_service_that_shut_down_are_edited_instead(
    run_build: RunBuild, run: RunContext
) -> None:
    with pytest.raises(BudgetReachedError):
        run_build(daily_budget=2)
    assert accepted(run) == 2
    request_images(run, DATASET, "search")
    ended = RecordedSearch(Ended(), run.store, DATASET, None)
    searched, stopped = RequestSearches(run, DATASET, ended, 5).run()
    assert stopped is None
    assert reasons(run, "search_images") == ["service_ended"] * 3
    waiting = waiting_strategies(run.store, DATASET, searched)
    request_images(run, DATASET, "edit", waiting)
    edits = [one for one in entities(run, ImageRequest.kind) if one.group == "edit"]
    assert len(edits) == 3


def set_replies(web: FoundVariants, reply: HostReply) -> dict[str, Any]:
    """Make the host give this reply to all requests; return its former replies."""
    before = dict(web.host.replies)
    web.host.replies |= dict.fromkeys(before, reply)
    return before


def test_images_of_an_unavailable_host_are_downloaded_by_a_later_run(
    run_build: RunBuild, run: RunContext, web: FoundVariants
) -> None:
    before = set_replies(web, UNAVAILABLE)
    with pytest.raises(ServiceError, match=r"5 http_status\).*status 503.*run again later"):
        run_build()
    assert list(quarantined(run.store, DATASET)) == []
    web.host.replies |= before
    run_build()
    assert accepted(run) == 5


def test_downloads_of_a_host_are_given_up_after_hours_and_can_be_put_back(
    run_build: RunBuild, run: RunContext, web: FoundVariants
) -> None:
    before = set_replies(web, UNAVAILABLE)
    for hours in (0, 0, 1):
        with pytest.raises(ServiceError):
            run_build(NOON + hours * HOUR)
    run_build(NOON + 2 * HOUR)
    assert reasons(run, "download_image") == ["http_status"] * 5
    rejected = list(quarantined(run.store, DATASET, "no_download"))
    assert [one.detail for one in rejected] == [
        "none of 1 results could be downloaded (1 http_status)"
    ] * 5
    web.host.replies |= before
    assert put_back(run.store, DATASET, "http_status") == 5
    run_build(NOON + 3 * HOUR)
    assert accepted(run) == 5
    assert list(quarantined(run.store, DATASET)) == []


def test_downloads_are_not_given_up_while_no_host_answers(
    run_build: RunBuild, run: RunContext, web: FoundVariants
) -> None:
    set_replies(web, hang_up())
    for hours in range(4):
        with pytest.raises(ServiceError, match="5 interrupted"):
            run_build(NOON + hours * HOUR)
    assert list(quarantined(run.store, DATASET)) == []


def test_a_hit_counts_once_with_the_picture_of_the_current_settings(
    run_build: RunBuild, run: RunContext, web: FoundVariants
) -> None:
    for download in ({}, {"resize_longest_px": 100}):
        run_build(choice={"floor": 0.999, "ceiling": 1.0}, download=download)
    assert accepted(run) == 0, "no image is similar enough"
    pictures = [one.record(FoundPicture).picture for one in entities(run, FoundPicture.kind)]
    assert sorted(one.width_px <= 100 for one in pictures) == [False] * 5 + [True] * 5
    considered = [one.record(ResultsConsidered) for one in entities(run, ResultsConsidered.kind)]
    assert [len(one.results) for one in considered] == [1] * 10
    assert len({one.picture_ids for one in considered}) == 10

    def calibrated() -> tuple[int, int]:
        found = entities(run, ChoiceCalibration.kind)[-1].record(ChoiceCalibration)
        return found.results, found.judged

    assert calibrated() == (5, 0)
    run_build()
    with run.store.write() as connection:
        candidate = entities(run, Candidate.kind, "accepted")[0].id
        append_decisions(connection, [NewDecision(candidate, "reject", PERSON, "wrong")])
    run_build()
    assert calibrated() == (5, 1)


def test_changed_settings_do_not_repeat_searches_and_downloads_of_accepted_images(
    run_build: RunBuild, run: RunContext, web: FoundVariants
) -> None:
    first = run_build(released=True)
    asked, downloaded = len(web.service.seen), len(web.host.paths())
    before = {one.id for one in entities(run, Candidate.kind)}
    changes: dict[str, dict[str, Any]] = {
        "politeness": {
            "download": {
                "requests_per_second": 50,
                "in_flight": 8,
                "user_agent": "me/1",
                "timeout_seconds": 11,
            }
        },
        "search": {"include_mature": True},
        "pictures": {"download": {"resize_longest_px": 100}},
    }
    for name, changed in changes.items():
        report = run_build(**changed, released=name == "pictures")
        assert (len(web.service.seen), len(web.host.paths())) == (asked, downloaded), name
        assert {one.id for one in entities(run, Candidate.kind)} == before, name
    assert report.release_id == first.release_id


def test_a_changed_search_is_run_only_for_strategies_without_an_image(
    run_build: RunBuild, run: RunContext, web: FoundVariants, service: SearchServer
) -> None:
    known = service.results_of
    empty: Sequence[str] = list[str]()

    def first_unknown(query: str) -> list[dict[str, Any]]:
        nonlocal empty
        empty = empty or [query]
        return [] if query in empty else known(query)

    service.results_of = first_unknown
    run_build()
    assert accepted(run) == 4
    service.results_of = known
    hits = len(entities(run, FoundHit.kind))
    run_build(include_mature=True, version="0.2.0")
    assert service.queries[5:] == list(empty)
    assert len(entities(run, FoundHit.kind)) == hits + 1
    assert accepted(run) == 5


def test_transient_download_faults_are_distinguished_from_final_ones() -> None:
    def refused(reason: str, **context: Any) -> Rejection:
        return Rejection(stage="download_image", reason=reason, detail="", context=context)

    passing = [refused(one) for one in ("unreachable", "timed_out", "interrupted", "asked_to_wait")]
    passing += [refused("http_status", status=status) for status in (429, 500, 503)]
    passing.append(refused("forbidden_by_robots", status=503))
    final = [refused(one) for one in ("private_address", "not_an_image", "forbidden_by_robots")]
    final += [refused("http_status", status=status) for status in (403, 404, 410)]
    assert [is_transient(one) for one in passing + final] == [True] * len(passing) + [False] * len(
        final
    )
