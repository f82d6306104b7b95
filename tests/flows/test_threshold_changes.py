"""Other thresholds: what they do not change stays what it was, with all that was decided on it."""

from pathlib import Path

import pytest

from db.decisions import NewDecision, append_decisions
from db.entities import StoredEntity, fetch, find, new_entity, parents_of
from db.store import Store
from db.work import ActivityRecord, WorkResult, commit_chunk, register_plan
from flows.engine.context import RunContext
from flows.ufine6926.identities import form_identities
from flows.ufine6926.noise_filter import FilterPlan, filter_tracks, plan_filter, propose
from flows.ufine6926.tracking import TrackingPlan, plan_tracking, track_videos
from flows.ufine6926.video_import import import_videos, take_videos
from schemas.build import VideoSourceSpec
from schemas.leaks import SplitSettings
from schemas.proposals import Tracklet
from schemas.provenance import Role
from schemas.records import Image
from schemas.tracking import FilterSettings, TrackingSettings
from schemas.video import FilterReport, Video
from sources.demonstration.street import StreetWorld
from tests.db.samples import activity_of
from tests.flows.runs import context_of
from tests.flows.street import KnownStreet

DATASET = "walkers"
SETTINGS = FilterSettings(
    least_height_px=24, least_width_px=8, least_sharpness=0, darkest=5, brightest=250
)


class Walk:
    """A street that was followed once, to be filtered by several thresholds."""

    def __init__(self, run: RunContext, street: StreetWorld, known: KnownStreet) -> None:
        self.run = run
        addresses = tuple(map(str, street.videos))
        self.spec = VideoSourceSpec(name="street", videos=addresses, licence="CC0-1.0")
        take_videos(run, DATASET, import_videos(run, self.spec)[0])
        settings = TrackingSettings(observations=8)
        self.tracking: TrackingPlan = plan_tracking(run, DATASET, settings, None)
        track_videos(run, DATASET, self.spec, self.tracking, known.detector)

    def filter(self, **changes: float) -> FilterPlan:
        """Filters and proposes by thresholds that differ in `changes`."""
        plan = plan_filter(self.run, DATASET, SETTINGS.model_copy(update=changes))
        filter_tracks(self.run, DATASET, plan)
        propose(self.run, DATASET, self.spec, self.tracking, plan)
        return plan

    def groups(self, plan: FilterPlan) -> set[str]:
        """The groups of what `plan` proposes."""
        videos = find(self.run.store, DATASET, Video.kind)
        return {plan.group(self.tracking.group(video.id)) for video in videos}

    def proposed(self, plan: FilterPlan) -> dict[str, StoredEntity]:
        """The tracklets that belong to `plan` now, by id."""
        groups = self.groups(plan)
        found = find(self.run.store, DATASET, Tracklet.kind)
        return {one.id: one for one in found if one.group in groups}

    def images(self, plan: FilterPlan) -> set[str]:
        """The images of the accepted tracklets of `plan`."""
        form_identities(self.run, DATASET, self.groups(plan), SplitSettings())
        live = ("proposed", "accepted")
        return {one.id for one in find(self.run.store, DATASET, Image.kind, states=live)}


@pytest.fixture
def walk(
    sqlite_store: Store, tmp_path: Path, street: StreetWorld, known_street: KnownStreet
) -> Walk:
    return Walk(context_of(sqlite_store, tmp_path), street, known_street)


def ids(run: RunContext, kind: str) -> set[str]:
    return {one.id for one in find(run.store, DATASET, kind)}


def accept(run: RunContext, tracklets: dict[str, StoredEntity]) -> None:
    decisions = [NewDecision(one, "accept", run.software) for one in tracklets]
    with run.store.write() as connection:
        append_decisions(connection, decisions)


def test_a_threshold_that_changes_no_result_keeps_reports_tracklets_and_images(walk: Walk) -> None:
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


def test_it_is_said_which_thresholds_gave_a_result(walk: Walk) -> None:
    plans = [walk.filter(merge_similarity=0.85), walk.filter(merge_similarity=0.86)]
    settings = sorted(plan.entity.id for plan in plans)
    for kind, role in (
        (FilterReport.kind, Role.FILTERED_WITH),
        (Tracklet.kind, Role.PROPOSED_WITH),
    ):
        found = ids(walk.run, kind)
        assert parents_of(walk.run.store, found, role) == dict.fromkeys(found, settings)


def test_thresholds_that_return_find_their_tracklets_and_what_people_made_of_them(
    walk: Walk,
) -> None:
    lenient = walk.filter()
    tracklets = walk.proposed(lenient)
    edited = edit(walk.run, next(iter(tracklets.values())))
    strict = walk.filter(most_images=3)
    few = walk.proposed(strict)
    assert few
    assert all(len(one.record(Tracklet).frames) <= 3 for one in few.values())
    walk.filter()
    assert walk.proposed(lenient).keys() == {*tracklets, edited}


def test_what_people_made_of_a_tracklet_follows_it(walk: Walk) -> None:
    tracklets = walk.proposed(walk.filter(merge_similarity=0.85))
    edited = edit(walk.run, next(iter(tracklets.values())))
    again = edit(walk.run, fetch(walk.run.store, [edited])[edited])
    later = walk.filter(merge_similarity=0.86)
    assert walk.proposed(later).keys() == {*tracklets, edited, again}


def edit(run: RunContext, tracklet: StoredEntity) -> str:
    """Does what people do who take a frame out; gives the id of what came of it."""
    record = tracklet.record(Tracklet)
    fewer = record.model_copy(update={"frames": record.frames[1:]})
    entity = new_entity(
        fewer, DATASET, parents=[(Role.EDITED_FROM, tracklet.id)], group=tracklet.group
    )
    plan = register_plan(run.store, "edit", "1", {"of": tracklet.id})
    activity: ActivityRecord = activity_of(plan)
    commit_chunk(run.store, activity, [WorkResult(0, (entity,))])
    return entity.id
