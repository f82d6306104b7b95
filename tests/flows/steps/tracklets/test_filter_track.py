"""The noise filter: rules find planted faults; frames are kept or dropped with a reason."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.flows.ufine6926.noise_filter import filter_track
from loupe.flows.ufine6926.noise_rules import outcome_of
from loupe.schemas.tracking import FilterSettings, ViTPoseModel
from loupe.schemas.video import FilterReport, Observation, Track
from tests.flows.steps.tracklets.samples import GOOD, hash_of, observation, person, track, walk

SETTINGS = FilterSettings()
POSE = ViTPoseModel(name="pose", revision="1")


def found(report: FilterReport, frame: int | None) -> dict[str, str]:
    """Return the outcomes of a frame by rule."""
    return {one.rule: one.outcome for one in report.findings if one.frame == frame}


def kept(report: FilterReport) -> list[int]:
    return [frame for part in report.parts for frame in part]


def test_a_good_track_is_kept_completely() -> None:
    report, rejection = filter_track(track(walk([0] * 6)), SETTINGS)
    assert report.parts == ((0, 5, 10, 15, 20, 25),)
    assert (report.findings, report.switches, rejection) == ((), (), None)


def test_an_image_rule_drops_only_its_planted_fault(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, float, float, dict[str, Any]]] = [
        ("too_small", 60.0, 64.0, {"height_px": 60.0, "width_px": 25.0}),
        ("too_small", 19.0, 20.0, {"height_px": 90.0, "width_px": 19.0}),
        ("bad_aspect", 0.1875, 0.2, {"width_px": 30.0}),
        ("bad_aspect", 0.8125, 0.8, {"width_px": 130.0}),
        ("truncated", 0.05, 0.02, {"cut_off": 0.05}),
        ("truncated", 0.0, 1.0, {"border_px": 0.0}),
        ("blurred", 150.0, 160.0, {"sharpness": 150.0}),
        ("blurred", 0.3, 0.35, {"sharpness": 120.0}),
        ("too_dark", 39.9, 40.0, {"brightness": 39.9}),
        ("too_bright", 225.1, 225.0, {"brightness": 225.1}),
        ("flat", 11.0, 12.0, {"contrast": 11.0}),
        ("unsure", 0.39, 0.4, {"score": 0.39}),
        ("occluded", 0.26, 0.25, {"overlap": 0.26}),
        ("crowded", 1.0, 0.0, {"other_people": 1}),
        ("few_keypoints", 7.0, 8.0, {"keypoints": 7}),
        ("hidden", 0.3, 0.5, {"person": 0.3}),
        ("hidden", 0.2, 0.25, {"person_share": 0.2}),
    ]
    for rule, value, threshold, fault in cases:
        with subtests.test(rule=rule, value=value, threshold=threshold, fault=fault):
            settings = FilterSettings(
                pose_model=POSE,
                least_sharpness=160 if value == 150.0 else 60,
                least_relative_sharpness=0.35,
            )
            observations = [observation(frame, keypoints=17) for frame in (0, 5, 15, 20)]
            observations.insert(2, observation(10, **{"keypoints": 17, **fault}))
            report, _ = filter_track(track(observations), settings)
            assert kept(report) == [0, 5, 15, 20]
            (finding,) = (one for one in report.findings if one.outcome == "dropped")
            assert (finding.frame, finding.rule, finding.value, finding.threshold) == (
                10,
                rule,
                value,
                threshold,
            )


def test_keypoints_are_judged_only_with_a_pose_model() -> None:
    observations = [observation(frame, keypoints=None) for frame in (0, 5, 10)]
    with_model = FilterSettings(pose_model=POSE)
    assert filter_track(track(observations), with_model)[0].findings == ()
    crippled = [observation(frame, keypoints=2) for frame in (0, 5, 10)]
    without = FilterSettings(pose_model=None)
    assert filter_track(track(crippled), without)[0].findings == ()
    assert filter_track(track(crippled), with_model)[0].parts == ()


def test_values_that_pass_near_the_threshold_are_suspected(subtests: pytest.Subtests) -> None:
    cases: list[tuple[float, float, Any, float, str]] = [
        (59.999, 60, "≥", 0, "dropped"),
        (60, 60, "≥", 0, "suspected"),
        (72, 60, "≥", 0, "passed"),
        (0.3001, 0.3, "≤", 0, "dropped"),
        (0.2401, 0.3, "≤", 0, "suspected"),
        (220, 225, "≤", 255, "suspected"),
        (0, 0, "≤", 0, "passed"),
    ]
    for value, threshold, direction, scale_end, outcome in cases:
        with subtests.test(value=value, threshold=threshold):
            assert outcome_of(value, threshold, direction, scale_end=scale_end) == outcome


def test_the_sharpest_of_near_duplicates_is_kept() -> None:
    near = f"{int(hash_of(0), 16) ^ 0b1111:016x}"
    beyond = f"{int(hash_of(0), 16) ^ 0b111110000:016x}"
    observations = [
        observation(0, sharpness=300),
        observation(5, sharpness=500, perceptual_hash=near),
        observation(10, sharpness=400, perceptual_hash=hash_of(0)),
        observation(15, sharpness=450, perceptual_hash=beyond),
        observation(20),
        observation(25),
    ]
    report, _ = filter_track(track(observations), SETTINGS)
    assert kept(report) == [5, 15, 20, 25]
    assert found(report, 0) == found(report, 10) == {"near_duplicate": "dropped"}
    values = {one.frame: one.value for one in report.findings}
    assert values == {0: 4.0, 10: 4.0}


@settings(max_examples=30, deadline=None)
@given(
    hashes=st.lists(st.integers(0, 255), min_size=1, max_size=12),
    sharpnesses=st.lists(st.integers(400, 700), min_size=12, max_size=12),
    bits=st.integers(0, 4),
)
def test_kept_frames_differ_and_dropped_duplicates_have_a_sharper_kept_one(
    hashes: list[int], sharpnesses: list[int], bits: int
) -> None:
    observations = [
        observation(frame, sharpness=sharpnesses[frame], perceptual_hash=f"{one:016x}")
        for frame, one in enumerate(hashes)
    ]
    settings = FilterSettings(duplicate_bits=bits, least_images=1, most_images=12)
    report, _ = filter_track(track(observations), settings)
    stays = set(kept(report))

    def distance(one: int, other: int) -> int:
        return (hashes[one] ^ hashes[other]).bit_count()

    assert all(distance(a, b) > bits for a in stays for b in stays if a < b)
    for frame in set(range(len(hashes))) - stays:
        sharper = [one for one in stays if sharpnesses[one] >= sharpnesses[frame]]
        assert any(distance(one, frame) <= bits for one in sharper)


def test_an_outlier_is_dropped_without_a_switch() -> None:
    people = [0, 0, 0, 0, 1, 0, 0, 0]
    report, _ = filter_track(track(walk(people)), SETTINGS)
    assert found(report, 20) == {"outlier": "dropped"}
    assert report.switches == ()
    assert kept(report) == [0, 5, 10, 15, 25, 30, 35]


def test_a_track_is_split_where_the_person_changes() -> None:
    report, _ = filter_track(track(walk([0] * 5 + [1] * 4)), SETTINGS)
    assert report.parts == ((0, 5, 10, 15, 20), (25, 30, 35, 40))
    assert report.switches == (25,)
    (finding,) = report.findings
    assert (finding.frame, finding.rule, finding.outcome) == (25, "identity_switch", "suspected")
    assert finding.value > finding.threshold


def test_a_passer_by_in_a_track_becomes_a_separate_part() -> None:
    report, _ = filter_track(track(walk([0] * 5 + [1] * 3 + [0] * 5)), SETTINGS)
    assert [len(part) for part in report.parts] == [5, 3, 5]
    assert report.switches == (25, 40)


def test_a_part_with_too_few_images_is_dropped_and_the_other_kept() -> None:
    report, rejection = filter_track(track(walk([0] * 6 + [1] * 2)), SETTINGS)
    assert report.parts == ((0, 5, 10, 15, 20, 25),)
    assert found(report, 35) == {"too_few_images": "dropped"}
    assert found(report, 30) == {"too_few_images": "dropped", "identity_switch": "suspected"}
    assert rejection is None


def test_a_gap_in_time_is_no_switch() -> None:
    early, late = walk([0] * 4, noise=0.1), walk([0] * 4, begin=900, noise=0.1)
    report, _ = filter_track(track([*early, *late]), SETTINGS)
    assert len(report.parts) == 1
    assert report.switches == ()


def test_a_slow_change_is_suspected_but_not_split() -> None:
    def turned(degrees: float) -> Any:
        angle = np.radians(degrees)
        return (np.cos(angle) * person(0) + np.sin(angle) * person(1)).astype(np.float32)

    observations = [observation(5 * place, turned(9 * place)) for place in range(14)]
    report, _ = filter_track(track(observations), FilterSettings(most_images=14))
    assert len(report.parts) == 1
    (switch,) = report.switches
    assert found(report, switch) == {"identity_switch": "suspected"}


def test_a_track_with_too_few_images_is_rejected_with_reasons() -> None:
    observations = [observation(0), observation(5), observation(10, overlap=0.8)]
    report, rejection = filter_track(track(observations, number=7), SETTINGS)
    assert report.parts == ()
    assert found(report, None) == {"too_few_images": "dropped"}
    assert rejection is not None
    assert (rejection.stage, rejection.reason) == ("filter_tracks", "too_few_images")
    assert rejection.context["dropped"] == {"too_few_images": 2, "occluded": 1}
    assert rejection.detail == (
        "Track 7 of 'street/one.mp4' has 2 usable images, of 3; needed are 3 (least_images). Other "
        "rules dropped: occluded 1."
    )


def test_without_embeddings_only_image_rules_apply() -> None:
    bare = [one.model_copy(update={"embedding": ""}) for one in walk([0] * 4 + [1] * 4)]
    report, rejection = filter_track(track(bare), SETTINGS)
    assert (len(report.parts), report.findings, rejection) == (1, (), None)


def test_of_too_many_images_the_best_and_most_varied_are_kept() -> None:
    observations = [
        observation(frame, sharpness=1000.0 if frame in (3, 50) else 200.0) for frame in range(60)
    ]
    settings = FilterSettings(most_images=4, least_relative_sharpness=0)
    report, _ = filter_track(track(observations), settings)
    frames = kept(report)
    assert len(frames) == 4
    assert {3, 50} <= set(frames)
    assert max(frames) - min(frames) >= 40
    surplus = [one for one in report.findings if one.rule == "surplus"]
    assert sorted(one.value for one in surplus) == list(range(5, 61))


measures = st.fixed_dictionaries(
    {
        "width_px": st.floats(10, 200),
        "height_px": st.floats(30, 300),
        "cut_off": st.floats(0, 0.1),
        "border_px": st.floats(0, 5),
        "sharpness": st.floats(0, 500),
        "brightness": st.floats(0, 255),
        "contrast": st.floats(0, 60),
        "overlap": st.floats(0, 1),
        "other_people": st.integers(0, 2),
        "score": st.floats(0, 1),
    }
)
faults: st.SearchStrategy[dict[str, Any]] = st.one_of(st.just({}), st.just({}), measures)


@st.composite
def tracks(draw: st.DrawFn) -> Track:
    """Generate tracks of one to four people with faults in many frames."""
    count = draw(st.integers(1, 16))
    observations: list[Observation] = []
    for place in range(count):
        who = draw(st.integers(0, 3))
        fault = draw(faults)
        values = {**GOOD, "score": 0.9, **fault}
        number = draw(st.integers(0, 40))
        observations.append(
            observation(
                3 * place,
                person(who, noise=0.1, seed=place),
                perceptual_hash=hash_of(number),
                **values,
            )
        )
    return track(observations)


@settings(max_examples=30, deadline=None)
@given(tracks())
def test_every_frame_is_kept_once_or_dropped_by_a_finding(one: Track) -> None:
    report, rejection = filter_track(one, SETTINGS)
    frames = [observation.frame for observation in one.observations]
    dropped = {finding.frame for finding in report.findings if finding.outcome == "dropped"}
    assert sorted([*kept(report), *(dropped - {None})]) == frames  # type: ignore[type-var]
    assert (rejection is None) == bool(report.parts)
    assert (None in dropped) == (rejection is not None)
    assert all(SETTINGS.least_images <= len(part) <= SETTINGS.most_images for part in report.parts)
    assert kept(report) == sorted(kept(report))
    assert set(report.switches) <= set(frames)
