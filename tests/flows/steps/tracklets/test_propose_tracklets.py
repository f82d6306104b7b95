"""Tracklets from filter reports: parts, suspicions, switches, and merge proposals."""

from collections.abc import Sequence
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.flows.ufine6926.noise_filter import FRAMES_OF_OTHERS, filter_track, propose_tracklets
from loupe.schemas.proposals import Tracklet
from loupe.schemas.tracking import FilterSettings
from loupe.schemas.video import FilterReport, Observation, Track
from tests.flows.steps.tracklets.samples import observation, track, walk

SETTINGS = FilterSettings()


def filtered(tracks: Sequence[Track]) -> list[tuple[Track, FilterReport]]:
    return [(one, filter_track(one, SETTINGS)[0]) for one in tracks]


def proposed(tracks: Sequence[Track], settings: FilterSettings = SETTINGS) -> list[Tracklet]:
    numbers = count(1)
    return propose_tracklets(filtered(tracks), settings, lambda _: f"id {next(numbers)}")


def test_a_tracklet_has_the_kept_frames_with_their_suspicions() -> None:
    doubtful = observation(15, brightness=45, contrast=13)
    (tracklet,) = proposed([track([*walk([0] * 3), doubtful, observation(20, overlap=0.9)], 6)])
    assert [frame.frame for frame in tracklet.frames] == [0, 5, 10, 15]
    assert [frame.suspicions for frame in tracklet.frames] == [(), (), (), ("too_dark", "flat")]
    assert (tracklet.track, tracklet.author, tracklet.video) == (6, "tracker@1", "street/one.mp4")
    assert (tracklet.switches, tracklet.others, tracklet.same_person_as) == ((), (), ())
    assert tracklet.frames[1].crop == walk([0] * 3)[1].crop


def test_a_suspected_switch_is_given_by_a_frame_of_the_tracklet() -> None:
    one = track(walk([0] * 6))
    for switch, shown in ((10, (10,)), (12, (15,)), (0, ()), (25, (25,))):
        report = FilterReport(
            source="street", track=1, parts=((0, 5, 10, 15, 20, 25),), switches=(switch,)
        )
        (tracklet,) = propose_tracklets([(one, report)], SETTINGS, lambda _: "id")
        assert tracklet.switches == shown


def test_merge_proposals_are_earlier_tracklets_only() -> None:
    early = track(walk([0] * 5), 1)
    other = track(walk([1] * 5, begin=30), 2)
    late = track(walk([0] * 5, begin=100), 3)
    one, two, three = proposed([late, early, other])
    assert [tracklet.track for tracklet in (one, two, three)] == [1, 2, 3]
    assert (one.others, two.others) == ((), ())
    (proposal,) = three.others
    assert proposal.tracklet_id == "id 1"
    assert proposal.similarity > 0.95
    assert len(proposal.frames) == FRAMES_OF_OTHERS
    assert {frame.frame for frame in proposal.frames} <= {frame.frame for frame in one.frames}


def test_tracklets_that_overlap_in_time_are_not_proposed_for_merging() -> None:
    one = track(walk([0] * 5), 1)
    beside = track(walk([0] * 5, begin=20), 2)
    assert [tracklet.others for tracklet in proposed([one, beside])] == [(), ()]
    unseen = track(walk([0] * 5), 1, last_frame=101)
    after = track(walk([0] * 5, begin=100), 2)
    assert proposed([unseen, after])[1].others == ()
    assert len(proposed([track(walk([0] * 5), 1), after])[1].others) == 1


def test_only_the_most_similar_tracklets_are_proposed() -> None:
    tracks = [
        track(walk([0] * 4, begin=100 * number, noise=0.1), number + 1) for number in range(6)
    ]
    tracklets = proposed(tracks)
    assert [len(one.others) for one in tracklets] == [0, 1, 2, 3, 3, 3]
    for one in tracklets:
        similarities = [other.similarity for other in one.others]
        assert similarities == sorted(similarities, reverse=True)
    assert all(not one.others for one in proposed(tracks, FilterSettings(most_merge_proposals=0)))


def test_without_embeddings_no_merge_is_proposed() -> None:
    def bare(begin: int) -> list[Observation]:
        return [one.model_copy(update={"embedding": ""}) for one in walk([0] * 4, begin=begin)]

    tracklets = proposed([track(bare(0), 1), track(bare(100), 2)])
    assert [one.others for one in tracklets] == [(), ()]


@settings(max_examples=10, deadline=None)
@given(st.permutations(range(5)))
def test_the_order_of_tracks_does_not_matter_and_ids_are_requested_in_order(
    order: list[int],
) -> None:
    tracks = [track(walk([number % 2] * 4, begin=40 * number), number + 1) for number in range(5)]
    asked: list[Tracklet] = []

    def id_of(tracklet: Tracklet) -> str:
        named = {other.tracklet_id for other in tracklet.others}
        assert named <= {f"id {place}" for place in range(len(asked))}
        asked.append(tracklet)
        return f"id {len(asked) - 1}"

    found = propose_tracklets(filtered([tracks[place] for place in order]), SETTINGS, id_of)
    numbers = count()
    in_order = propose_tracklets(filtered(tracks), SETTINGS, lambda _: f"id {next(numbers)}")
    assert found == asked == in_order
    assert [one.track for one in found] == [1, 2, 3, 4, 5]
