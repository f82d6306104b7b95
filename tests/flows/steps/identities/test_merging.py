"""Who is one person: what people said, taken together, and what is refused."""

from collections.abc import Mapping, Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flows.ufine6926.identities import (
    AcceptedTracklet,
    MergedIdentities,
    crop_images,
    merge_identities,
)
from tests.flows.steps.identities.tracklets import tracklet

BUSY_MACHINE = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)


def merged(
    *tracklets: AcceptedTracklet, successors: Mapping[str, Sequence[str]] | None = None
) -> MergedIdentities:
    return merge_identities(tracklets, successors or {})


def groups(found: MergedIdentities) -> list[list[str]]:
    return [[one.id for one in identity.tracklets] for identity in found.identities]


def reasons(found: MergedIdentities) -> dict[str, str]:
    return {id_: rejection.reason for id_, rejection in found.rejections.items()}


def test_a_tracklet_that_nobody_merged_is_a_person() -> None:
    found = merged(tracklet("b", range(5), track=12), tracklet("a", range(7, 9), track=3))
    assert groups(found) == [["b"], ["a"]]
    assert [one.name.rpartition("mp4")[2] for one in found.identities] == [
        one.name for one in found.identities
    ]
    assert [one.name.split("-")[2:] for one in found.identities] == [["12", "0"], ["3", "7"]]
    assert not found.rejections


def test_the_same_person_three_times_in_order_of_time() -> None:
    found = merged(
        tracklet("late", range(90, 95), track=3, same=("middle",)),
        tracklet("middle", range(50, 55), track=2, same=("early",)),
        tracklet("early", range(10, 15)),
    )
    assert groups(found) == [["early", "middle", "late"]]
    assert found.identities[0].name.endswith("-1-10")


def test_what_was_edited_is_found_under_its_new_id() -> None:
    found = merged(
        tracklet("a2", range(10)),
        tracklet("b", range(20, 30), track=2, same=("a0",)),
        successors={"a0": ["a1"], "a1": ["a2"]},
    )
    assert groups(found) == [["a2", "b"]]


def test_two_who_are_the_same_as_one_that_was_turned_down_are_the_same() -> None:
    found = merged(
        tracklet("a", range(10), same=("blurred",)),
        tracklet("b", range(20, 30), track=2, same=("blurred",)),
        tracklet("c", range(40, 50), track=3, same=("elsewhere",)),
    )
    assert groups(found) == [["a", "b"], ["c"]]


def test_the_same_as_one_that_was_split_is_refused() -> None:
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


def test_one_person_at_two_places_at_once_is_refused() -> None:
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


def test_one_person_at_one_time_in_two_videos_is_possible() -> None:
    found = merged(
        tracklet("a", range(10)), tracklet("b", range(10), video="square.mp4", same=("a",))
    )
    assert groups(found) == [["b", "a"]]


def test_names_do_not_depend_on_what_else_there_is_and_are_unique() -> None:
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


def test_images_know_where_they_were_cut_from() -> None:
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
