"""`build-recos` goes on after its gates until images have their captions and tasks their images."""

from pathlib import Path

import pytest

from loupe.db.entities import StoredEntity, children_of, fetch
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.recos.pipeline import recos_pipeline
from loupe.flows.recos.run import captions_of
from loupe.release.format.manifest import read_manifest
from loupe.release.verify import verify_release
from loupe.schemas.build import RecosBuild
from loupe.schemas.errors import UsageError
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption
from loupe.schemas.recos import DiscriminabilitySettings
from loupe.schemas.release import QuotaStatistics
from loupe.schemas.requests import CAPTIONS_OF_AN_IMAGE
from tests.annotate.answering import Regions, about, rejecting
from tests.annotate.interfaces.regions import ticked
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.drawn_stills import DrawnStills
from tests.flows.recos_reviewers import accept_caption, answer, build_once, of_tier, proposed, sizes
from tests.flows.recos_world import DATASET, no_desks, small_build, small_profile

NARROW = DiscriminabilitySettings(k=6, eta=0.35, rounds=0)
"""A criterion that many captions fail, and that none may try twice."""


@pytest.fixture
def build(drawn_stills: DrawnStills, tmp_path: Path) -> RecosBuild:
    """A build of v0 whose tasks take any of the stills."""
    named = small_build(drawn_stills(60), tmp_path, last="v0")
    tasks = [task.model_copy(update={"names": None}) for task in named.tasks]
    return named.model_copy(update={"tasks": tuple(tasks)})


def quotas_of(run: RunContext, build: RecosBuild) -> dict[str, QuotaStatistics]:
    folder = run.settings.home / "releases" / f"{build.dataset}-0.1.0"
    assert verify_release(folder).problems == []
    return {one.what: one for one in read_manifest(folder).statistics.quotas}


def go(run: RunContext, build: RecosBuild) -> list[str]:
    report = run_pipeline(run, recos_pipeline(), build, small_profile(NARROW), no_desks)
    assert report.as_json()["missing"] == [one._asdict() for one in report.missing]
    return [one.what for one in report.missing]


def test_images_get_further_captions_until_none_is_missing(
    run: RunContext, build: RecosBuild
) -> None:
    without = build.model_copy(update={"further_rounds": 0})
    missing = go(run, without)
    before = quotas_of(run, build)
    assert missing == [one.what for one in before.values() if one.short_by]
    captions = f"captions of v0, {CAPTIONS_OF_AN_IMAGE} an image"
    assert before[captions].short_by > 5
    card = (run.settings.home / "releases" / f"{DATASET}-0.1.0" / "README.md").read_text("utf-8")
    assert "This release lacks some of what its build asked for:" in card
    lacking = before[captions]
    assert f"| {captions} | {lacking.asked} | {lacking.reached} | {lacking.short_by} |" in card

    strict = {"further_rounds": 0, "strict": True, "revision": "1.1"}
    with pytest.raises(UsageError, match=rf"tasks 0\.1\.1 is not released.*{captions}"):
        go(run, build.model_copy(update=strict))

    completed = build.model_copy(update={"further_rounds": 6, "dataset": "completed"})
    go(run, completed)
    after = quotas_of(run, completed)
    assert after[captions].reached > before[captions].reached
    assert after[captions].short_by < before[captions].short_by / 2
    images = [what for what in after if what.startswith("images of")]
    assert [after[what].short_by for what in images] == [0] * len(images)


def test_what_was_completed_stays_when_it_is_run_again(run: RunContext, build: RecosBuild) -> None:
    first = run_pipeline(run, recos_pipeline(), build, small_profile(NARROW), no_desks)
    before = sizes(run)
    second = run_pipeline(run, recos_pipeline(), build, small_profile(NARROW), no_desks)
    assert second.release_id == first.release_id
    assert sizes(run) == before
    assert second.missing == first.missing


def test_people_decide_on_captions_and_images_in_the_place_of_those_they_reject(
    run: RunContext, build: RecosBuild
) -> None:
    """They reject one caption of an image, and all captions of another."""
    office = MemoryOffice()
    gates = {"captions_gate": "required", "selection_gate": "required"}
    asking = build.model_copy(update=gates)

    def fits(_shown: StoredEntity) -> Regions:
        return [ticked("verdict", "accept")]

    assert build_once(run, asking, office).waiting == 8  # the images of a source
    answer(run, office, fits)
    assert build_once(run, asking, office).waiting == 5 * 10
    chosen = [one.id for one in of_tier(run, "v0", "accepted")]
    few, bare = chosen[0], chosen[5]
    described = children_of(run.store, [few, bare], Role.DESCRIBES)
    refused = {described[few][0], *described[bare]}

    def opinion(shown: StoredEntity) -> Regions:
        if shown.id in refused:
            return about("caption", rejecting(shown.record(Caption).text))
        return accept_caption(shown)

    answer(run, office, opinion)
    assert build_once(run, asking, office).waiting == 1, "whether another image fits"
    answer(run, office, fits)
    assert build_once(run, asking, office).waiting == 1 + 5
    again = [one for one in proposed(run, Caption.kind) if one.group == few]
    rejected = fetch(run.store, [described[few][0]])[described[few][0]].record(Caption)
    assert again[0].record(Caption).position == rejected.position
    assert again[0].record(Caption).text != rejected.text
    answer(run, office, accept_caption)
    last = build_once(run, asking, office)
    assert (last.waiting, last.missing) == (0, [])
    assert of_tier(run, "v0", "rejected")[0].id == bare
    images = of_tier(run, "v0")
    captions = captions_of(run.store, [one.id for one in images])
    assert [len(captions[one.id]) for one in images] == [5] * 10
    assert not any(one.short_by for one in quotas_of(run, asking).values())
