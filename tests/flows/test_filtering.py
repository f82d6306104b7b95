"""The filter as a stage: a pose model is asked where the thresholds name one."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from db.entities import find
from db.store import Store
from flows.ufine6926.filter_explanation import collect, explain
from flows.ufine6926.noise_filter import Thresholds, filter_tracks, plan_filter
from flows.ufine6926.tracking import plan_tracking, track_videos
from flows.ufine6926.video_import import import_videos, take_videos
from models.pose import PoseModel
from models.tracking.detector import Pixels
from schemas import tracking
from schemas.build import VideoSourceSpec
from schemas.chat import ModelRef
from schemas.tracking import FilterSettings, TrackingSettings
from schemas.video import Body, FilterReport, Track
from sources.demonstration.street import StreetWorld
from tests.flows.runs import context_of
from tests.flows.street import KnownStreet

POSE = tracking.ViTPoseModel(name="every-limb", revision="1")
SETTINGS = FilterSettings(
    least_height_px=24,
    least_width_px=8,
    least_sharpness=0,
    darkest=5,
    brightest=250,
    least_keypoints=5,
    pose_model=POSE,
)


class SaysSoMany:
    """A pose model that sees as many keypoints on everybody."""

    def __init__(self, keypoints: int) -> None:
        self.ref = ModelRef(name="every-limb", revision="1")
        self._keypoints = keypoints

    def bodies(self, pixels: Pixels, boxes_xyxy: NDArray[np.floating]) -> list[Body]:
        assert boxes_xyxy.tolist() == [[0, 0, pixels.shape[1], pixels.shape[0]]]
        return [Body(keypoints=self._keypoints)] * len(boxes_xyxy)


@pytest.mark.parametrize(("seen", "dropped"), [(4, True), (17, False)])
def test_a_pose_model_decides_on_crops_that_show_too_little(
    sqlite_store: Store,
    tmp_path: Path,
    street: StreetWorld,
    known_street: KnownStreet,
    seen: int,
    dropped: bool,
) -> None:
    run = context_of(sqlite_store, tmp_path)
    spec = VideoSourceSpec(name="street", videos=(str(street.videos[0]),), licence="CC0-1.0")
    take_videos(run, "walkers", import_videos(run, spec)[0])
    plan = plan_tracking(run, "walkers", TrackingSettings(), None)
    track_videos(run, "walkers", spec, plan, known_street.detector)

    def make(spec: tracking.PoseModelSpec) -> PoseModel:
        assert spec == POSE
        return SaysSoMany(seen)

    report = filter_tracks(run, "walkers", plan_filter(run, "walkers", SETTINGS), make)
    found = [one.record(FilterReport) for one in find(run.store, "walkers", FilterReport.kind)]
    rules = {finding.rule for one in found for finding in one.findings}
    assert ("few_keypoints" in rules) is dropped
    assert (report.done == 0) is dropped
    for track in find(run.store, "walkers", Track.kind):
        explanation = explain(run.store, track.id, "builtin")
        assert explanation.agrees
        counted = [one for one in explanation.judgement.measurements if one.rule == "few_keypoints"]
        assert {one.value for one in counted} == {seen}
    sheet = collect(run.store, "walkers", Thresholds(SETTINGS, "here"), "few_keypoints")
    (shown,) = sheet.rules
    assert (shown.counts["dropped"] == sheet.crops) is dropped
