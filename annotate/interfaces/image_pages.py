"""The pages of images: drawn images, selections, duplicates, candidates, crops of a tracklet.

On the page of a tracklet, each frame on the left is a switch that drops it. On the right are the
verdict, the frames at which another person starts, and other tracklets that may show the same
person.
"""
# ruff: noqa: ARG002 - methods of all pages take the same

import math
from collections.abc import Collection, Sequence
from string import ascii_lowercase
from typing import Any, ClassVar

from loupe.annotate.answers import Parsed, ReviewAnswer, UnclearAnswer
from loupe.annotate.interfaces.page import (
    VERDICT,
    Images,
    Interface,
    Regions,
    Summary,
    choice_region,
    page_html,
    values,
    verdict_answer,
)
from loupe.db.entities import StoredEntity
from loupe.schemas.base import EntityRecord
from loupe.schemas.proposals import (
    Candidate,
    ImageQuestion,
    OtherTracklet,
    Tracklet,
    TrackletFrame,
)
from loupe.schemas.recos import DuplicateQuestion, Selection


class ImageCheck(Interface):
    """The labelling interface `image-check`: is a drawn image usable, and what its source says?"""

    name = "image-check"
    record = ImageQuestion
    image_fields: ClassVar = {"image": "picture"}
    html_parts: ClassVar = {"stated_html": "stated"}


class ImageSelection(Interface):
    """The labelling interface `image-selection`: does an image fit its task (ReCoS)?"""

    name = "image-selection"
    record = Selection
    image_fields: ClassVar = {"image": "picture"}
    html_parts: ClassVar = {"task_html": "selection"}


class DuplicateCheck(Interface):
    """The labelling interface `duplicate-check`: two possibly identical images side by side.

    People decide if hashes and embeddings are uncertain: two different images are accepted, two
    copies of the same image are rejected.
    """

    name = "duplicate-check"
    record = DuplicateQuestion
    image_fields: ClassVar = {"first": "first", "second": "second"}
    html_parts: ClassVar = {"measured_html": "duplicate"}

    def rejection(self, result: Regions) -> ReviewAnswer:
        """Return that the images are the same."""
        return verdict_answer("reject", reason="the same image")


class ImageFilter(Interface):
    """The labelling interface `image-filter`: a contrastive image beside its anchor.

    The anchor is on the left, the candidate on the right. Below them are the measurements and
    warnings, the wanted difference, the candidate's origin, and the problems to tick. Edits also
    have a map of what changed, which covers the anchor while the pointer is on it.
    """

    name = "image-filter"
    record = Candidate
    image_fields: ClassVar = {"anchor": "anchor", "candidate": "image"}
    html_parts: ClassVar = {
        "wanted_html": "wanted",
        "origin_html": "origin",
        "measured_html": "measured",
    }


DROPPED, CUTS, SAME = "dropped", "cuts", "same_person"
FACTS = "facts"
SPLIT = "split"
# Without h, u and v, which are keys of Label Studio (pan, unselect, move).
FRAME_KEYS = tuple(key for key in ascii_lowercase if key not in "huv")
OTHER_KEYS = ("4", "5", "6")
_FRAMES_OF_OTHERS = 4
_SIZES = ((8, "roomy"), (18, "middling"), (math.inf, "crowded"))
"""The size of the frames by the largest number of them."""


class TrackletSelection(Interface):
    """The labelling interface `tracklet-selection`."""

    name = "tracklet-selection"
    record = Tracklet
    html_parts: ClassVar = {"facts_html": "facts"}

    def data(self, entity: StoredEntity, images: Images, related: Any) -> dict[str, Any]:
        """Return the frames, the frames to split at, and the other tracklets, as choices."""
        tracklet = entity.record(Tracklet)
        frames = _named(tracklet.frames)
        size = next(size for most, size in _SIZES if len(frames) <= most)
        return {
            **super().data(entity, images, related),
            "frames": [
                _option(
                    str(frame.frame), page_html("frame", frame, name, size, images.address), key
                )
                for frame, key, name in frames
            ],
            "cuts": [
                _option(
                    str(frame.frame), f'<b class="loupe-cut">{name}</b>', key and f"shift+{key}"
                )
                for frame, key, name in frames[1:]
            ],
            "others": [
                _option(
                    other.tracklet_id,
                    page_html("other", other, _sampled_frames(other.frames), key, images.address),
                    key,
                )
                for other, key in _numbered(tracklet.others)
            ],
        }

    def guesses(self, record: Tracklet) -> list[dict[str, Any]]:
        """Return the suspicions of the filter as ticked frames; the verdict stays open."""
        later = {frame.frame for frame in record.frames[1:]}
        ticked = {
            DROPPED: [str(frame.frame) for frame in record.frames if frame.suspicions],
            CUTS: [str(number) for number in record.switches if number in later],
        }
        regions = [choice_region(name, FACTS, *chosen) for name, chosen in ticked.items() if chosen]
        return [{"model_version": record.author, "result": regions}] if regions else []

    def kept(self, verdict: str, result: Regions, record: Tracklet) -> Parsed:
        """Parse the answer about a tracklet.

        Cuts count only in a split; «same person» counts only without one, as it would not be clear
        which part is meant.
        """
        chosen: dict[str, tuple[str, ...]] = {}
        for control, offered in _offered(record).items():
            ticked = set(values(result, control, "choices"))
            if unknown := ticked - set(offered):
                problem = f"{control} must hold choices that the page offers; got {min(unknown)!a}"
                return UnclearAnswer(problem=problem)
            chosen[control] = tuple(option for option in offered if option in ticked)
        is_split = verdict == SPLIT
        if is_split and not chosen[CUTS]:
            return UnclearAnswer(problem="split without a frame to split at")
        chosen[SAME if is_split else CUTS] = ()
        choices = {VERDICT: (verdict,), **chosen}
        parts = _parts(record, choices)
        if not parts:
            return UnclearAnswer(problem="all frames are dropped, but the tracklet is not")
        changed = is_split or chosen[DROPPED] or chosen[SAME]
        remark = "only one part of the split is left" if is_split and len(parts) == 1 else ""
        return ReviewAnswer(verdict="edit" if changed else "accept", choices=choices, remark=remark)

    def answer_choices(self, shown: StoredEntity) -> Collection[tuple[str, str]]:
        """Return the choices of all pages, and the frames and tracklets of this one."""
        offered = _offered(shown.record(Tracklet)).items()
        own = {(control, option) for control, options in offered for option in options}
        return own.union(super().answer_choices(shown))

    def edited(
        self, record: Tracklet, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """Return the tracklet without the dropped frames, or its parts.

        A tracklet that shows the same person as others names them. The parts of a split keep all
        candidates, so that each part is reviewed with them.
        """
        same = answer.choices.get(SAME, ())
        change = {
            "same_person_as": tuple(dict.fromkeys((*record.same_person_as, *same))),
            "others": tuple(other for other in record.others if other.tracklet_id not in same),
            "switches": (),
            "author": author,
        }
        return tuple(
            record.model_copy(update={**change, "frames": part})
            for part in _parts(record, answer.choices)
        )

    def details(self, answer: ReviewAnswer, record: Tracklet) -> Summary:
        """Return the ticked frames and tracklets, named as on the page."""
        choices = answer.choices
        names = {str(frame.frame): name for frame, _, name in _named(record.frames)}
        others = {other.tracklet_id: f"[{key}]" for other, key in _numbered(record.others)}
        return [
            ("Frames dropped", ", ".join(map(names.__getitem__, choices.get(DROPPED, ())))),
            ("Another person from", ", ".join(map(names.__getitem__, choices.get(CUTS, ())))),
            ("Same person as", ", ".join(map(others.__getitem__, choices.get(SAME, ())))),
        ]


def _offered(tracklet: Tracklet) -> dict[str, list[str]]:
    """Return the choices that differ from page to page, in order, by control."""
    numbers = [str(frame.frame) for frame in tracklet.frames]
    others = [other.tracklet_id for other, _ in _numbered(tracklet.others)]
    return {DROPPED: numbers, CUTS: numbers[1:], SAME: others}


def _named(frames: Sequence[TrackletFrame]) -> list[tuple[TrackletFrame, str | None, str]]:
    """Return the frames, each with its key (None if there are no keys left) and its name."""
    named = []
    for position, frame in enumerate(frames):
        key = FRAME_KEYS[position] if position < len(FRAME_KEYS) else None
        named.append((frame, key, key.upper() if key else str(position + 1)))
    return named


def _numbered(others: Sequence[OtherTracklet]) -> list[tuple[OtherTracklet, str]]:
    """Return the other tracklets to show, the likeliest first, each with its key."""
    likeliest = sorted(others, key=lambda other: -other.similarity)
    return list(zip(likeliest, OTHER_KEYS, strict=False))


def _sampled_frames(frames: Sequence[TrackletFrame]) -> Sequence[TrackletFrame]:
    """Return a few frames, spread over the whole length."""
    step = max(1, -(-len(frames) // _FRAMES_OF_OTHERS))
    return frames[::step]


def _option(value: str, html: str, key: str | None) -> dict[str, Any]:
    return {"value": value, "html": html} | ({"hotkey": key} if key else {})


def _parts(
    tracklet: Tracklet, choices: dict[str, tuple[str, ...]]
) -> list[tuple[TrackletFrame, ...]]:
    """Return the remaining frames, split before each cut; empty parts are left out."""
    parts: list[list[TrackletFrame]] = [[]]
    for frame in tracklet.frames:
        if str(frame.frame) in choices.get(CUTS, ()):
            parts.append([])
        if str(frame.frame) not in choices.get(DROPPED, ()):
            parts[-1].append(frame)
    return [tuple(part) for part in parts if part]
