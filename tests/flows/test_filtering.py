"""The noise filter as a stage: results after changed thresholds, and pose models."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from loupe.db.blob_check import BlobCheck
from loupe.db.decisions import append_decisions
from loupe.db.entities import (
    ActivityRecord,
    NewDecision,
    StoredEntity,
    WorkResult,
    fetch,
    find,
    new_entity,
    parents_of,
)
from loupe.db.work import commit_chunk, register_plan
from loupe.demo.worlds.street import StreetWorld
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.software import software
from loupe.flows.engine.video_import import import_videos, take_videos
from loupe.flows.ufine6926.filter_explanation import collect, explain
from loupe.flows.ufine6926.identities import form_identities
from loupe.flows.ufine6926.noise_filter import (
    FilterPlan,
    Thresholds,
    filter_tracks,
    plan_filter,
    propose,
    proposed_tracklets,
)
from loupe.flows.ufine6926.tracking import plan_tracking, track_videos
from loupe.models.tracking.detector import Pixels, PoseModel
from loupe.schemas import tracking
from loupe.schemas.build import VideoSourceSpec
from loupe.schemas.chat import ModelRef
from loupe.schemas.proposals import Tracklet, TrackletFrame
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image
from loupe.schemas.similarity import SplitSettings
from loupe.schemas.tracking import FilterSettings, TrackingSettings
from loupe.schemas.video import Body, FilterReport, Track
from tests.db.samples import activity_of
from tests.flows.runs import copied_run, new_run
from tests.flows.street import KnownStreet
from tests.flows.withdrawals import Home
from tests.release.worlds import World

DATASET = "walkers"
SETTINGS = FilterSettings(
    least_height_px=24,
    least_width_px=8,
    least_sharpness=0,
    darkest=5,
    brightest=250,
    pose_model=None,
)
POSE = tracking.ViTPoseModel(name="every-limb", revision="1")


class TrackedRun:
    """A run with tracked videos, to be filtered with different thresholds."""

    def __init__(self, run: RunContext, street: StreetWorld) -> None:
        self.run = run
        addresses = tuple(map(str, street.videos))
        self.spec = VideoSourceSpec(name="street", videos=addresses, licence="CC0-1.0")
        settings = TrackingSettings(observations=8)
        self.tracking = plan_tracking(run, DATASET, settings, self.spec)

    def follow(self, known: KnownStreet) -> None:
        """Import the videos and track their people."""
        take_videos(self.run, DATASET, import_videos(self.run, self.spec)[0])
        track_videos(self.run, DATASET, self.spec, self.tracking, known.detector)

    def filter(self, **changes: float) -> FilterPlan:
        """Filter and propose tracklets with the thresholds in `changes`."""
        plan = plan_filter(self.run, DATASET, SETTINGS.model_copy(update=changes))
        filter_tracks(self.run, DATASET, plan)
        propose(self.run, DATASET, self.spec, self.tracking, plan)
        return plan

    def tracklets(self, plan: FilterPlan) -> set[str]:
        """Return the ids of the tracklets that `plan` proposes."""
        return proposed_tracklets(self.run.store, DATASET, self.spec, self.tracking, plan)

    def proposed(self, plan: FilterPlan) -> dict[str, StoredEntity]:
        """Return the tracklets that `plan` proposes, by id."""
        return fetch(self.run.store, self.tracklets(plan))

    def images(self, plan: FilterPlan) -> set[str]:
        """Return the ids of the images of the accepted tracklets of `plan`."""
        least = plan.settings.least_images
        return form_identities(self.run, DATASET, self.tracklets(plan), SplitSettings(), least)[1]


@pytest.fixture(scope="module")
def followed(
    street: StreetWorld, migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunContext]:
    """A run with tracked but unfiltered videos (read-only)."""
    with new_run(migrated_sqlite, tmp_path_factory.mktemp("followed")) as run:
        TrackedRun(run, street).follow(KnownStreet(street))
        yield run


@pytest.fixture
def walk(followed: RunContext, street: StreetWorld, tmp_path: Path) -> Iterator[TrackedRun]:
    with copied_run(followed, tmp_path / "home") as run:
        yield TrackedRun(run, street)


def ids(run: RunContext, kind: str) -> set[str]:
    return {one.id for one in find(run.store, DATASET, kind)}


def accept(run: RunContext, tracklets: dict[str, StoredEntity]) -> None:
    decisions = [NewDecision(one, "accept", software()) for one in tracklets]
    with run.store.write() as connection:
        append_decisions(connection, decisions)


def test_a_threshold_without_effect_keeps_reports_tracklets_and_images(walk: TrackedRun) -> None:
    before = walk.filter(merge_similarity=0.85)
    tracklets = walk.proposed(before)
    accept(walk.run, tracklets)
    images, reports = walk.images(before), ids(walk.run, FilterReport.kind)
    assert images

    after = walk.filter(merge_similarity=0.86)
    assert after.entity.id != before.entity.id
    assert ids(walk.run, FilterReport.kind) == reports
    assert walk.proposed(after).keys() == tracklets.keys()
    assert {one.state for one in walk.proposed(after).values()} == {"accepted"}
    assert walk.images(after) == images
    settings = sorted((before.entity.id, after.entity.id))
    for found, role in ((reports, Role.FILTERED_WITH), (tracklets, Role.PROPOSED_WITH)):
        named = parents_of(walk.run.store, found, role)
        assert named == dict.fromkeys(found, settings), "linked to both settings"


def test_restored_thresholds_restore_their_tracklets_and_edits(
    walk: TrackedRun,
) -> None:
    lenient = walk.filter()
    tracklets = walk.proposed(lenient)
    first = next(iter(tracklets.values()))
    edited = edit(walk.run, first, first.record(Tracklet).frames[1:])
    strict = walk.filter(most_images=3)
    few = walk.proposed(strict)
    assert few
    assert all(len(one.record(Tracklet).frames) <= 3 for one in few.values())
    walk.filter()
    assert walk.proposed(lenient).keys() == {*tracklets, edited}


def edit(run: RunContext, tracklet: StoredEntity, frames: tuple[TrackletFrame, ...]) -> str:
    """Replace the frames of a tracklet as a reviewer does; return the id of the edited one."""
    edited = tracklet.record(Tracklet).model_copy(update={"frames": frames})
    entity = new_entity(
        edited, DATASET, parents=[(Role.EDITED_FROM, tracklet.id)], group=tracklet.group
    )
    plan = register_plan(run.store, "edit", "1", {"of": tracklet.id})
    activity: ActivityRecord = activity_of(plan)
    commit_chunk(run.store, activity, [WorkResult(0, (entity,))])
    return entity.id


def test_a_tracklet_that_nobody_looked_at_needs_enough_unsuspected_frames(
    walk: TrackedRun,
) -> None:
    tracklet = next(iter(walk.proposed(walk.filter()).values()))
    first, *others = tracklet.record(Tracklet).frames
    suspected = first.model_copy(update={"suspicions": ("blurred",)})
    edited = edit(walk.run, tracklet, (suspected, *others))
    accept(walk.run, fetch(walk.run.store, [edited]))
    for least, count in ((len(others), len(others)), (len(others) + 1, 0)):
        report, images = form_identities(walk.run, DATASET, [edited], SplitSettings(), least)
        assert report.rejected["too_few_images"] == (not count)
        assert len(images) == count


def test_withdrawn_crops_do_not_come_back(walk: TrackedRun) -> None:
    """One crop is erased, and one whose file is kept would get another name."""
    run = walk.run
    plan, fewer = walk.filter(), walk.filter(most_images=3)
    accept(run, walk.proposed(plan) | walk.proposed(fewer))
    few = {image.sha256: id_ for id_, image in images_by_id(run, walk.images(fewer)).items()}
    images = images_by_id(run, walk.images(plan))
    renamed = next(id_ for id_, image in images.items() if few.get(image.sha256, id_) != id_)
    erased = next(id_ for id_, image in images.items() if image.sha256 not in few)
    home = Home(run, World(run.store, run.blobs), run.settings.home)
    home.withdraw("entity", renamed, "quality")
    home.withdraw("entity", erased, "privacy")
    assert not run.blobs.has(images[erased].sha256, images[erased].media_type)

    assert walk.images(plan) == images.keys() - {renamed, erased}
    left = images_by_id(run, walk.images(fewer)).values()
    assert {one.sha256 for one in left} == few.keys() - {images[renamed].sha256}
    settings = SETTINGS.model_copy(update={"pose_model": POSE})
    filter_tracks(run, DATASET, plan_filter(run, DATASET, settings), lambda _: ConstantPose(17))
    with BlobCheck(run.store, run.blobs) as check:
        check.run()
        assert list(check.faulty()) == []


def images_by_id(run: RunContext, ids: set[str]) -> dict[str, Image]:
    return {id_: one.record(Image) for id_, one in fetch(run.store, ids).items()}


class ConstantPose:
    """A pose model that finds the same number of keypoints on every person."""

    def __init__(self, keypoints: int) -> None:
        self.ref = ModelRef(name="every-limb", revision="1")
        self._keypoints = keypoints

    def body(self, pixels: Pixels) -> Body:
        return Body(keypoints=self._keypoints)


def test_a_pose_model_drops_crops_with_few_keypoints(followed: RunContext, tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"least_keypoints": 5, "pose_model": POSE})
    for seen, dropped in ((4, True), (17, False)):

        def make(spec: tracking.PoseModelSpec, seen: int = seen) -> PoseModel:
            assert spec == POSE
            return ConstantPose(seen)

        with copied_run(followed, tmp_path / str(seen)) as run:
            report = filter_tracks(run, DATASET, plan_filter(run, DATASET, settings), make)
            found = [
                one.record(FilterReport) for one in find(run.store, DATASET, FilterReport.kind)
            ]
            rules = {finding.rule for one in found for finding in one.findings}
            assert ("few_keypoints" in rules) is dropped
            assert (report.done == 0) is dropped
            for track in find(run.store, DATASET, Track.kind):
                explanation = explain(run.store, track.id, "builtin")
                assert explanation.agrees
                measured = explanation.judgement.measurements
                counted = {one.value for one in measured if one.rule == "few_keypoints"}
                assert counted == {seen}
            sheet = collect(run.store, DATASET, Thresholds(settings, "here"), "few_keypoints")
            (shown,) = sheet.rules
            assert (shown.counts["dropped"] == sheet.crops) is dropped
