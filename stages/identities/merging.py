"""Which accepted tracklets are one person: what people said, taken together."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

from schemas.proposals import Tracklet
from schemas.records import Rejection

STAGE = "form_identities"
VERSION = "1"
_DIGEST_CHARACTERS = 8


class AcceptedTracklet(NamedTuple):
    """A tracklet that people (or a policy) accepted, and its entity id."""

    id: str
    record: Tracklet


class Identity(NamedTuple):
    """A person: all tracklets that show them, in order of time."""

    name: str
    tracklets: tuple[AcceptedTracklet, ...]


class MergedIdentities(NamedTuple):
    """Every tracklet is in one identity or has a rejection, by its id."""

    identities: tuple[Identity, ...]
    rejections: dict[str, Rejection]


def merge_identities(
    tracklets: Sequence[AcceptedTracklet], successors: Mapping[str, Sequence[str]]
) -> MergedIdentities:
    """Persons, in the order of their names; every tracklet that nobody merged is one of its own.

    What people said of tracklets that were turned down since still counts between the others: who
    is the same as one and the same third person is the same. What does not fit together is refused
    with all tracklets concerned: it would be one person under two names, or two under one.

    Args:
        tracklets: what was accepted.
        successors: for the id of each tracklet that was edited, the ids of what took its place:
            one, or the parts of a split.
    """
    by_id = {tracklet.id: tracklet for tracklet in tracklets}
    groups, unclear = _grouped(by_id, successors)
    identities = []
    rejections: dict[str, Rejection] = {}
    for group in groups:
        refusal = _ambiguity(group, unclear) or _contradiction(group)
        if refusal:
            rejections.update((one.id, _rejection(one, group, *refusal)) for one in group)
        else:
            identities.append(Identity(identity_name(group[0].record), tuple(group)))
    return MergedIdentities(tuple(sorted(identities, key=_by_name)), rejections)


def identity_name(earliest: Tracklet) -> str:
    """The name of a person after their earliest tracklet.

    It tells the video (its digest too: files are called alike), the track and, as the parts of a
    split have one track, the first frame. It does not depend on what else is in the dataset.
    """
    stem = PurePosixPath(earliest.video).stem
    digest = earliest.video_sha256[:_DIGEST_CHARACTERS]
    return f"{stem}-{digest}-{earliest.track}-{earliest.frames[0].frame}"


def _grouped(
    by_id: Mapping[str, AcceptedTracklet], successors: Mapping[str, Sequence[str]]
) -> tuple[list[list[AcceptedTracklet]], dict[str, str]]:
    """Tracklets that are one person, and for those that named a split tracklet, which."""
    from scipy.cluster.hierarchy import DisjointSet

    persons = DisjointSet(sorted(by_id))
    unclear: dict[str, str] = {}
    for tracklet in by_id.values():
        for named in tracklet.record.same_person_as:
            latest = _latest(named, by_id, successors)
            if latest is None:
                unclear[tracklet.id] = named
                continue
            persons.add(latest)
            persons.merge(tracklet.id, latest)
    groups = [[by_id[id_] for id_ in one if id_ in by_id] for one in persons.subsets()]
    return [sorted(group, key=_by_time) for group in groups if group], unclear


def _latest(
    named: str, accepted: Mapping[str, object], successors: Mapping[str, Sequence[str]]
) -> str | None:
    """What a tracklet became; None where it became several."""
    while named not in accepted and successors.get(named):
        followers = successors[named]
        if len(followers) > 1:
            return None
        named = followers[0]
    return named


def _ambiguity(
    group: Iterable[AcceptedTracklet], unclear: Mapping[str, str]
) -> tuple[str, str] | None:
    for tracklet in group:
        if tracklet.id in unclear:
            return "ambiguous_merge", (
                f"tracklet {tracklet.id} is said to show the same person as "
                f"{unclear[tracklet.id]}, which was split since: nobody said which part"
            )
    return None


def _contradiction(group: Sequence[AcceptedTracklet]) -> tuple[str, str] | None:
    """Two tracklets of a video that show at one time, neighbours in order of time."""
    for earlier, later in pairwise(group):
        same_video = earlier.record.video_sha256 == later.record.video_sha256
        last, first = earlier.record.frames[-1].frame, later.record.frames[0].frame
        if same_video and first <= last:
            return "seen_at_once", (
                f"tracklets {earlier.id} and {later.id} are said to show one person, but both show "
                f"at one time in {earlier.record.video!r}: frame {first} to {last}"
            )
    return None


def _rejection(
    tracklet: AcceptedTracklet, group: Sequence[AcceptedTracklet], reason: str, detail: str
) -> Rejection:
    together = [one.id for one in group]
    context = {"tracklet_id": tracklet.id, "together_with": together}
    return Rejection(stage=STAGE, reason=reason, detail=detail, context=context)


def _by_time(tracklet: AcceptedTracklet) -> tuple[str, str, int, int, str]:
    record = tracklet.record
    return record.video, record.video_sha256, record.frames[0].frame, record.track, tracklet.id


def _by_name(identity: Identity) -> str:
    return identity.name
