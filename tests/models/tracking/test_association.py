"""The association compared with recorded runs of the reference, and its invariants."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from loupe.models.tracking.association import (
    Association,
    TrackedPerson,
    _remove_duplicate_tracks,
    overlaps,
    track_type,
)
from loupe.models.tracking.detector import Detections
from loupe.schemas.errors import ModelError, UsageError
from loupe.schemas.tracking import AssociationSettings
from tests.models.tracking.scenes import (
    PUBLISHED,
    SCENES,
    Scene,
    scene,
    tlwh,
    units,
    without_embeddings,
)


def test_results_equal_the_recorded_scenes(subtests: pytest.Subtests) -> None:
    for name in SCENES:
        with subtests.test(name=name):
            recorded = scene(name)
            association = recorded.association()
            for frame, detections in enumerate(recorded.detections, 1):
                people = association.update(detections)
                wanted = recorded.output(frame)
                assert [person.number for person in people] == wanted["id"].tolist(), frame
                np.testing.assert_allclose(tlwh(people), wanted["tlwh"], rtol=0, atol=1e-6)
                scores = [person.score for person in people]
                np.testing.assert_allclose(scores, wanted["score"], rtol=0, atol=1e-6)
                check_lists(association, recorded, frame)


def test_of_two_tracks_of_one_person_the_older_stays_and_of_equal_age_the_lost_one() -> None:
    for followed, lost, left in ((5, 6, False), (7, 6, True), (6, 6, False)):
        tracks = np.zeros(2, track_type(0))
        tracks["number"], tracks["lost"] = (1, 2), (False, True)
        tracks["started"], tracks["seen"] = (20 - followed, 10 - lost), (20, 10)
        tracks["motion"][:, 0] = (50, 50, 0.5, 40)
        (stays,) = _remove_duplicate_tracks(tracks, 0.15)["number"].tolist()
        assert (stays == 1) == left, (followed, lost)


def check_lists(association: Association, recorded: Scene, frame: int) -> None:
    tracks = association.tracks
    lost = tracks["lost"]
    assert (tracks["number"][lost].tolist(), tracks["expired"][lost].tolist()) == (
        recorded.lost(frame)
    )
    assert (~lost).sum() == recorded.arrays["n_tracked"][frame - 1]
    assert lost.tolist() == sorted(lost.tolist())
    assert association.alive == set(tracks["number"].tolist())


def same(first: tuple[TrackedPerson, ...], second: tuple[TrackedPerson, ...]) -> bool:
    """Whether the people are identical, bit for bit."""
    return len(first) == len(second) and all(
        (a.number, a.score) == (b.number, b.score)
        and np.array_equal(a.box_xyxy, b.box_xyxy)
        and np.array_equal(embedding_of(a), embedding_of(b))
        for a, b in zip(first, second, strict=True)
    )


def embedding_of(person: TrackedPerson) -> NDArray[np.float32]:
    return np.empty(0, np.float32) if person.embedding is None else person.embedding


@cache
def uninterrupted(name: str, *, embeddings: bool) -> tuple[tuple[TrackedPerson, ...], ...]:
    return tuple(map(scene(name).association().update, frames(name, embeddings=embeddings)))


def frames(name: str, *, embeddings: bool) -> list[Detections]:
    given = scene(name).detections
    return list(given if embeddings else map(without_embeddings, given))


@given(name=st.sampled_from(SCENES), embeddings=st.booleans(), data=st.data())
@settings(max_examples=3)
def test_a_restored_association_continues_identically(
    name: str, embeddings: bool, data: st.DataObject
) -> None:
    given_frames, wanted = (
        frames(name, embeddings=embeddings),
        uninterrupted(name, embeddings=embeddings),
    )
    cut = data.draw(st.integers(0, len(given_frames)))
    first, second = scene(name).association(), scene(name).association()
    for detections in given_frames[:cut]:
        first.update(detections)
    second.restore(first.state())
    assert second.alive == first.alive
    assert second.state() == first.state()
    until = min(cut + 40, len(given_frames))
    for detections, people in zip(given_frames[cut:until], wanted[cut:until], strict=True):
        assert same(second.update(detections), people)


def test_people_have_the_embedding_of_the_current_frame() -> None:
    recorded = scene("synthetic")
    association = recorded.association()
    for detections in recorded.detections[:20]:
        assert detections.embeddings is not None
        for person in association.update(detections):
            nearest = np.abs(detections.boxes_xyxy - person.box_xyxy).sum(axis=1).argmin()
            assert person.embedding is not None
            assert np.array_equal(person.embedding, detections.embeddings[nearest])


def test_without_embeddings_boxes_equal_those_of_the_detections() -> None:
    association = scene("synthetic").association()
    for detections in frames("synthetic", embeddings=False)[:20]:
        for person in association.update(detections):
            assert person.embedding is None
            assert person.box_xyxy.tolist() in detections.boxes_xyxy.astype(float).tolist()


BOX = (100.0, 100.0, 140.0, 220.0)


def detected(*boxes: tuple[float, ...], score: float = 0.9) -> Detections:
    """Return detections without embeddings."""
    count = len(boxes)
    corners = np.array(boxes, np.float32).reshape(count, 4)
    return Detections(corners, np.full(count, score, np.float32), None)


def numbers(people: tuple[TrackedPerson, ...]) -> list[int]:
    return [person.number for person in people]


def test_tiny_and_wide_boxes_are_tracked_but_not_reported() -> None:
    tiny, wide = (10.0, 10.0, 18.0, 22.0), (300.0, 100.0, 500.0, 200.0)
    association = Association(AssociationSettings(), 30)
    assert numbers(association.update(detected(BOX, tiny, wide))) == [1]
    assert association.alive == {1, 2, 3}
    generous = Association(PUBLISHED, 30)
    assert numbers(generous.update(detected(BOX, tiny, wide))) == [1, 2, 3]


def test_a_box_without_width_or_height_is_ignored() -> None:
    association = Association(PUBLISHED, 30)
    turned, line = (50.0, 50.0, 40.0, 90.0), (5.0, 5.0, 5.0, 9.0)
    assert numbers(association.update(detected(turned, BOX, line))) == [1]


def test_the_lifetime_of_lost_tracks_depends_on_the_frame_rate(
    subtests: pytest.Subtests,
) -> None:
    for frame_rate, remembered in [(30, 30), (10, 10), (59.94, 59)]:
        with subtests.test(frame_rate=frame_rate, remembered=remembered):
            association = Association(PUBLISHED, frame_rate)
            association.update(detected(BOX))
            frames_without = 0
            while association.alive:
                association.update(detected())
                frames_without += 1
            assert frames_without == remembered + 2


@given(
    st.lists(
        arrays(
            np.float32,
            st.tuples(st.integers(0, 4), st.just(4)),
            elements=st.integers(-5, 60).map(lambda quarter: 4.0 * quarter),
        ),
        max_size=12,
    ),
    st.integers(1, 5),
)
@settings(max_examples=15)
def test_numbers_are_never_reused(boxes: list[NDArray[np.float32]], buffer: int) -> None:
    association = Association(AssociationSettings(buffer_frames=buffer), 30)
    ever_alive: set[int] = set()
    ended: set[int] = set()
    for corners in boxes:
        people = association.update(Detections(corners, np.ones(len(corners), np.float32), None))
        found = numbers(people)
        assert len(set(found)) == len(found) <= len(corners)
        assert association.alive >= set(found)
        assert not association.alive & ended
        ended |= ever_alive - association.alive
        ever_alive |= association.alive


def test_an_invalid_frame_rate_is_refused(subtests: pytest.Subtests) -> None:
    for frame_rate in (0, -25.0, float("nan"), float("inf")):
        with (
            subtests.test(frame_rate=frame_rate),
            pytest.raises(UsageError, match="must be a number above 0"),
        ):
            Association(PUBLISHED, frame_rate)


def test_invalid_detections_are_refused_and_change_nothing() -> None:
    association = Association(PUBLISHED, 30)
    association.update(detected(BOX))
    before = association.state()
    wrong = [
        detected((np.nan, 0, 1, 1)),
        detected(BOX)._replace(scores=np.array([np.inf], np.float32)),
        detected(BOX)._replace(boxes_xyxy=np.zeros((2, 4), np.float32)),
        detected(BOX)._replace(embeddings=np.zeros((3, 8), np.float32)),
        detected(BOX)._replace(embeddings=np.ones((1, 8), np.float32)),
    ]
    for detections in wrong:
        with pytest.raises(ModelError):
            association.update(detections)
    assert association.state() == before


def test_a_person_who_appears_near_a_lost_one_gets_a_new_number() -> None:
    """Motion alone does not join boxes that overlap little."""
    association = Association(AssociationSettings(), 30)
    walk = [np.array([[100 + 2 * step, 100, 140 + 2 * step, 220]], np.float32) for step in range(9)]
    for box in walk[:-1]:
        (lost,) = association.update(Detections(box, np.ones(1, np.float32), None))
    near = walk[-1] + np.array(
        [26, 0, 26, 0], np.float32
    )  # IoU 0.2 with the position of the first person
    for _ in range(2):
        people = association.update(Detections(near, np.ones(1, np.float32), None))
    assert [one.number for one in people] != [lost.number]
    assert len(people) == 1


def test_overlaps_equal_the_recorded_ones() -> None:
    recorded = units()
    found = overlaps(recorded["iou_a_tlbr"], recorded["iou_b_tlbr"])
    np.testing.assert_allclose(found, recorded["iou"], rtol=1e-12, atol=0)
