"""Merging tracklets into identities by the claims of annotators, and rejections."""

from collections.abc import Mapping, Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loupe.flows.ufine6926.identities import (
    AcceptedTracklet,
    MergedIdentities,
    crop_images,
    merge_identities,
)
from tests.flows.steps.identities.tracklets import tracklet

BUSY_MACHINE = settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)


def merged(
    *tracklets: AcceptedTracklet, successors: Mapping[str, Sequence[str]] | None = None
) -> MergedIdentities:
    return merge_identities(tracklets, successors or {})


def groups(found: MergedIdentities) -> list[list[str]]:
    return [[one.id for one in identity.tracklets] for identity in found.identities]


def reasons(found: MergedIdentities) -> dict[str, str]:
    return {id_: rejection.reason for id_, rejection in found.rejections.items()}


def test_three_tracklets_of_a_person_are_merged_in_order_of_time() -> None:
    found = merged(
        tracklet("late", range(90, 95), track=3, same=("middle",)),
        tracklet("middle", range(50, 55), track=2, same=("early",)),
        tracklet("early", range(10, 15)),
    )
    assert groups(found) == [["early", "middle", "late"]]
    assert found.identities[0].name.endswith("-1-10")


def test_a_claim_about_an_edited_tracklet_follows_its_successor() -> None:
    found = merged(
        tracklet("a2", range(10)),
        tracklet("b", range(20, 30), track=2, same=("a0",)),
        successors={"a0": ["a1"], "a1": ["a2"]},
    )
    assert groups(found) == [["a2", "b"]]


def test_a_claim_about_a_split_tracklet_is_ambiguous() -> None:
    found = merged(
        tracklet("part1", range(5)),
        tracklet("part2", range(5, 10)),
        tracklet("b", range(20, 30), track=2, same=("whole",)),
        tracklet("c", range(40, 50), track=3, same=("b",)),
        successors={"whole": ["part1", "part2"]},
    )
    assert groups(found) == [["part1"], ["part2"]]
    assert reasons(found) == {"b": "ambiguous_merge", "c": "ambiguous_merge"}
    assert "the same person as whole" in found.rejections["c"].detail


def test_a_person_in_two_places_at_once_is_rejected() -> None:
    found = merged(
        tracklet("a", range(0, 20, 2)),
        tracklet("b", range(11, 30, 2), track=2),
        tracklet("c", range(40, 50), track=3, same=("a", "b")),
        tracklet("d", range(11, 30, 2), track=4),
    )
    assert groups(found) == [["d"]]
    assert reasons(found) == dict.fromkeys("abc", "seen_at_once")
    assert "frame 11 to 18" in found.rejections["a"].detail
    assert found.rejections["c"].context["together_with"] == ["a", "b", "c"]


def test_identity_names_are_unique_and_independent_of_other_identities() -> None:
    one = tracklet("a", range(10))
    others = [
        tracklet("b", range(10), video="elsewhere/street.mp4"),
        tracklet("c", range(10), video="street.avi"),
        tracklet("d", range(20, 30)),
        tracklet("e", range(10), track=11),
    ]
    (alone,) = merged(one).identities
    names = [identity.name for identity in merged(one, *others).identities]
    assert alone.name in names
    assert len(set(names)) == 5


@BUSY_MACHINE
@given(
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=20),
    st.randoms(use_true_random=False),
)
def test_every_tracklet_is_in_one_identity_or_rejected(
    claims: list[tuple[int, int]], chance: object
) -> None:
    tracklets = [
        tracklet(
            f"t{number}",
            range(number // 2 * 10, number // 2 * 10 + 5),
            track=number,
            same=tuple(f"t{other}" for one, other in claims if one == number and other != one),
        )
        for number in range(12)
    ]
    found = merged(*tracklets)
    together = groups(found)
    placed = [id_ for group in together for id_ in group]
    assert sorted([*placed, *found.rejections]) == sorted(one.id for one in tracklets)
    place = {id_: number for number, group in enumerate(together) for id_ in group}
    for one, other in claims:
        assert place.get(f"t{one}") == place.get(f"t{other}")
    for group in together:
        starts = [int(id_[1:]) // 2 for id_ in group]
        assert len(set(starts)) == len(starts)
    chance.shuffle(tracklets)  # type: ignore[attr-defined]
    assert merged(*tracklets) == found


def test_images_record_the_video_and_frame_they_were_cropped_from() -> None:
    (identity,) = merged(
        tracklet("a", range(3)), tracklet("b", range(20, 22), track=2, same=("a",))
    ).identities
    images = crop_images(identity, "test")
    assert [one.id for _, one in images] == ["a", "a", "a", "b", "b"]
    records = [record for record, _ in images]
    assert records[3].file_path == "street.mp4/2-20.jpg"
    assert {one.identity for one in records} == {identity.name}
    assert {one.split for one in records} == {"test"}
    assert len({one.file_path for one in records}) == 5
    assert records[0].sha256 == identity.tracklets[0].record.frames[0].crop.sha256
