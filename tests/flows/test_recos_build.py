"""`build-recos` in this process: from drawn images to three releases, without review."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from loupe.db.entities import AgentRef, StoredEntity, children_of, fetch, find, parents_of
from loupe.db.quarantine import quarantined
from loupe.db.withdrawal_graph import WithdrawalTarget
from loupe.demo.worlds.stills import StillsWorld, load_stills_truth
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.engine.unusable_models import refuse_unusable_models
from loupe.flows.recos.pipeline import recos_pipeline
from loupe.flows.recos.run import captions_of, images_of_tier
from loupe.flows.recos.validation_loop import STAGE
from loupe.flows.withdrawal.execution import carry_out
from loupe.flows.withdrawal.plan import confirm, plan_withdrawal, request_of
from loupe.release.card.markup import as_text
from loupe.release.format.manifest import read_manifest
from loupe.release.verify import verify_release
from loupe.schemas.build import RecosBuild, TaskSpec
from loupe.schemas.errors import ConfigurationError, DegenerateCriterionError, ModelError
from loupe.schemas.profile import BuiltinCaptioner, Profile
from loupe.schemas.proposals import Confusion
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image
from loupe.schemas.recos import (
    CaptionVerdict,
    ConfusionCheck,
    DiscriminabilityReport,
    DiscriminabilitySettings,
    Selection,
)
from loupe.schemas.release import EmbedderPurpose
from loupe.schemas.requests import REVISION_PURPOSE
from loupe.schemas.taxonomy import RetrievalTask
from tests.flows.drawn_stills import DrawnStills
from tests.flows.recos_world import (
    DATASET,
    SETTINGS,
    no_desks,
    small_profile,
    stills_source,
)
from tests.flows.runs import copied_run, new_run

pytestmark = pytest.mark.xdist_group("recos_build")  # the build is shared


@pytest.fixture(scope="session")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(60)


@pytest.fixture(scope="module")
def first(
    build: RecosBuild, migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunContext, BuildReport]]:
    """A finished build and its report."""
    with new_run(migrated_sqlite, tmp_path_factory.mktemp("built")) as run:
        yield run, go(run, build)


@pytest.fixture(scope="module")
def built(first: tuple[RunContext, BuildReport]) -> RunContext:
    """The finished build, read-only."""
    return first[0]


@pytest.fixture
def done(built: RunContext, tmp_path: Path) -> Iterator[RunContext]:
    """A copy of the finished build that tests may change."""
    with copied_run(built, tmp_path / "home") as run:
        yield run


@pytest.fixture(scope="module")
def build(stills: StillsWorld, tmp_path_factory: pytest.TempPathFactory) -> RecosBuild:
    firsts = [one for one in load_stills_truth(stills.folder) if one.change is None]
    names = tmp_path_factory.mktemp("names") / "colours.txt"
    colours = [one.file_name for one in firsts if one.task is RetrievalTask.COLOR]
    names.write_text("\n".join([*colours, "none-such.jpg"]), encoding="utf-8")
    return RecosBuild(
        dataset=DATASET,
        seed=3,
        neighbours=4,
        sources=(stills_source(stills),),
        tasks=(
            TaskSpec(task=RetrievalTask.COLOR, images=4, source="stills", names=names),
            TaskSpec(task=RetrievalTask.SCENE, images=4, source="stills", query="a snowy place"),
            TaskSpec(task=RetrievalTask.OBJECT, images=4, source="stills"),
            TaskSpec(task=RetrievalTask.CALCULATION, images=2, pool=12),
        ),
    )


def go(run: RunContext, build: RecosBuild, chosen: Profile | None = None) -> BuildReport:
    return run_pipeline(run, recos_pipeline(), build, chosen or small_profile(), no_desks)


def entities(run: RunContext, kind: str, *states: str) -> list[StoredEntity]:
    return list(find(run.store, DATASET, kind, states=states or None))


def rows(run: RunContext, version: str) -> list[dict[str, Any]]:
    folder = run.settings.home / "releases" / f"{DATASET}-{version}"
    published: list[dict[str, Any]] = json.loads((folder / f"{DATASET}.json").read_text())
    return published


def test_three_versions_are_released_each_contained_in_the_next(
    built: RunContext, build: RecosBuild
) -> None:
    versions = [rows(built, version) for version in ("0.1.0", "1.1.0", "2.1.0")]
    for version in ("0.1.0", "1.1.0", "2.1.0"):
        assert (
            verify_release(built.settings.home / "releases" / f"{DATASET}-{version}").problems == []
        )
    captions = [
        {(row["source"], tuple(row["captions"])) for row in release if row["captions"]}
        for release in versions
    ]
    assert captions[0] < captions[1] == captions[2]
    tiers = [Counter(row["tier"] for row in release) for release in versions]
    assert set(tiers[0]) == {"v0"}
    assert tiers[1]["v0"] == tiers[2]["v0"] == tiers[0]["v0"]
    assert tiers[2]["v2"] > tiers[2]["v1"] > 0
    assert all(not row["captions"] for row in versions[2] if row["tier"] == "v2")
    assert {row["task"] for row in versions[0]} == {one.task.value for one in build.tasks}
    assert entities(built, Selection.kind) == [], "an automatic gate creates no questions"
    states = Counter(one.state for one in images_of_tier(built.store, DATASET, "v0"))
    assert states["proposed"] == sum(one.images for one in build.tasks)
    assert set(states) <= {"proposed", "rejected"}, "those without a caption were replaced"


def test_the_manifest_names_the_embedders(built: RunContext) -> None:
    folder = built.settings.home / "releases" / f"{DATASET}-2.1.0"
    manifest = read_manifest(folder)
    chosen = {one.purpose: one for one in manifest.embedders}
    assert set(chosen) == set(get_args(EmbedderPurpose)) - {"found_images", "edited_images"}
    counted = Counter(row["tier"] for row in rows(built, "2.1.0"))
    assert chosen["candidates"].count == counted["v2"]
    assert chosen["similar_images"].count == counted["v1"]
    assert chosen["candidates"].settings["neighbours"] == 4
    validated = chosen["validated_captions"].settings
    assert (validated["k"], validated["eta"]) == (SETTINGS.k, SETTINGS.eta)
    assert validated["temperature"] > 0
    card = (folder / "README.md").read_text("utf-8")
    for one in manifest.embedders:
        assert f"| {as_text(one.embedder)} |" in card
    assert f"η {SETTINGS.eta}, k {SETTINGS.k}, rounds {SETTINGS.rounds}, temperature " in card


KINDS = (Image.kind, Caption.kind, DiscriminabilityReport.kind, Confusion.kind)


def test_released_captions_passed_validation_and_failed_ones_are_kept(
    built: RunContext, build: RecosBuild
) -> None:
    reports = [
        one.record(DiscriminabilityReport) for one in entities(built, "discriminability_report")
    ]
    measured = {
        parents[0]: report
        for report, parents in zip(
            reports,
            (parents_of(built.store, [one.id], Role.MEASURES)[one.id]
             for one in entities(built, "discriminability_report")),
            strict=True,
        )
    }  # fmt: skip
    captions = [one for one in entities(built, Caption.kind) if one.id in measured]
    assert len(captions) == len(measured)
    for caption in captions:
        if caption.state == "accepted":
            assert measured[caption.id].verdict is CaptionVerdict.PASS
    assert {report.temperature for report in reports} == {reports[0].temperature}
    assert max(report.round for report in reports) <= SETTINGS.rounds
    tried = Counter(report.round for report in reports)
    v0_images = [one for one in entities(built, Image.kind) if one.record(Image).tier == "v0"]
    assert tried[0] >= 5 * len(v0_images)
    assert tried[1] > 0


def test_unusable_revisions_are_quarantined_and_counted_on_the_card(
    first: tuple[RunContext, BuildReport],
) -> None:
    run, report = first
    revised, *further = (one for one in report.stages if one.stage == "revise captions")
    lost = [one.reason for one in quarantined(run.store, DATASET, stage=REVISION_PURPOSE)]
    assert sum((one.rejected for one in further), revised.rejected) == Counter(lost)
    refused = revised.rejected.total()
    with pytest.raises(ModelError, match=rf"^{refused} of {refused + revised.done} answers"):
        refuse_unusable_models(run.store, DATASET, [revised], 0.01)
    card = (run.settings.home / "releases" / f"{DATASET}-2.1.0" / "README.md").read_text("utf-8")
    same = lost.count("same_captions")
    assert f"| revise caption | same captions | {same} |" in card


def test_similar_images_are_distinct_images_of_the_same_source(
    built: RunContext, build: RecosBuild
) -> None:
    live = entities(built, Image.kind, "proposed", "accepted")
    similar = [one for one in live if one.record(Image).tier == "v1"]
    partners = parents_of(built.store, [one.id for one in similar], Role.SIMILAR_TO)
    images = {one.id: one.record(Image) for one in live}
    assert len(similar) > 5
    captions = captions_of(built.store, [one.id for one in similar])
    assert all(captions.get(one.id) for one in similar)
    assert len({found[0] for found in partners.values()}) == len(similar)
    pictures = Counter(image.sha256 for image in images.values())
    assert set(pictures.values()) == {1}
    for one in similar:
        other = images[partners[one.id][0]]
        assert (other.source, other.task) == (images[one.id].source, images[one.id].task)
    confusing = list(entities(built, Caption.kind, "accepted"))
    of_similar = parents_of(built.store, [one.id for one in confusing], Role.CONFUSES)
    described = parents_of(built.store, list(of_similar), Role.DESCRIBES)
    assert of_similar
    assert all(images[found[0]].tier == "v1" for found in described.values())
    checks = [one.record(ConfusionCheck) for one in entities(built, ConfusionCheck.kind)]
    chosen = [check for check in checks if check.caption_advantage > check.margin]
    assert len(chosen) > len(checks) / 2  # the others have a rendered truth


def test_file_names_missing_from_the_source_are_quarantined(
    first: tuple[RunContext, BuildReport],
) -> None:
    (taken,) = (one for one in first[1].stages if one.stage == "take color from stills")
    assert (taken.done, taken.rejected) == (4, {"unknown_name": 1})


def test_a_validated_benchmark_refuses_other_settings_or_another_draw(
    done: RunContext, build: RecosBuild
) -> None:
    states = {one.id: one.state for one in entities(done, Caption.kind)}
    with pytest.raises(ConfigurationError, match=r"validated with other settings \(seed, tasks\)"):
        go(done, build.model_copy(update={"seed": 4, "tasks": build.tasks[2:3]}))
    with pytest.raises(ConfigurationError, match=r"with other settings \(discriminability\)"):
        go(done, build, small_profile(SETTINGS.model_copy(update={"eta": 0.6})))
    assert {one.id: one.state for one in entities(done, Caption.kind)} == states


def test_captions_of_failed_runs_are_not_mixed_with_later_ones(
    run: RunContext, build: RecosBuild
) -> None:
    """The first run has too few images, the second a degenerate criterion."""
    with pytest.raises(ConfigurationError, match="compared with 20 other images each"):
        go(run, build, small_profile(DiscriminabilitySettings(k=20)))
    settings = DiscriminabilitySettings(k=6, temperature=1.0, eta=0.5)
    with pytest.raises(
        DegenerateCriterionError, match=r"no caption would pass: .* eta from about 0\.9"
    ):
        go(run, build, small_profile(settings))
    assert not (run.settings.home / "releases").exists()
    assert {one.state for one in entities(run, Caption.kind)} == {"proposed"}

    chosen = small_profile()
    model = BuiltinCaptioner(details=3)
    captioning = chosen.captioning.model_copy(update={"model": model})
    fewer = build.model_copy(update={"last": "v1", "tasks": build.tasks[:-1]})
    go(run, fewer, chosen.model_copy(update={"captioning": captioning}))
    images = parents_of(
        run.store, [one.id for one in entities(run, Caption.kind, "accepted")], Role.DESCRIBES
    )
    assert max(Counter(found[0] for found in images.values()).values()) <= 5
    lost = quarantined(run.store, DATASET, "no_similar_image")
    alone = fetch(run.store, [one.context["image"] for one in lost])
    drawn = [one for one in alone.values() if one.dataset != "stills"]
    assert drawn, "images of the task that was removed have no similar image"


def test_a_withdrawal_does_not_change_the_validation_of_other_captions(
    first: tuple[RunContext, BuildReport], done: RunContext, build: RecosBuild
) -> None:
    """The pool is smaller by one, so a new validation would give other scores."""
    before = described(done)
    reports = {one.id for one in entities(done, DiscriminabilityReport.kind)}
    image = next(iter(before))
    target = WithdrawalTarget(sort="entity", name=image)
    plan = plan_withdrawal(done.store, request_of(target, "privacy", None))
    carry_out(done, confirm(done.store, plan, "asked for", AgentRef("person", "operator")))
    again = go(done, build)
    assert described(done) == {id_: text for id_, text in before.items() if id_ != image}
    assert {one.id for one in entities(done, DiscriminabilityReport.kind)} == reports
    (validated,) = (one for one in again.stages if one.stage == STAGE)
    assert (validated.done, validated.rejected) == (0, Counter())
    assert again.release_id != first[1].release_id
    assert again.release is not None
    assert verify_release(again.release).problems == []


def described(run: RunContext) -> dict[str, dict[str, str]]:
    """For each active image of v0, the state of each of its captions."""
    captions = {one.id: one.state for one in entities(run, Caption.kind)}
    images = [one.id for one in images_of_tier(run.store, DATASET, "v0")]
    found = children_of(run.store, images, Role.DESCRIBES)
    return {image: {one: captions[one] for one in found[image]} for image in images}
