"""The page on which a tracklet is kept, thinned out, split or dropped.

The frames are on the left, each a switch that drops it. On the right are the verdict, the frames at
which another person starts, and other tracklets that may show the same person.
"""

from collections.abc import Sequence
from html import escape
from string import ascii_lowercase
from typing import Any

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.page import (
    VERDICT,
    LabellingPage,
    Summary,
    TaskContent,
    choice_region,
    only_choice,
    picture_tag,
    read_rejection,
    shown_image,
    values,
)
from db.entities import StoredEntity
from db.reviews import ShownImage
from schemas.base import EntityRecord
from schemas.proposals import OtherTracklet, Tracklet, TrackletFrame

DROPPED, CUTS, SAME = "dropped", "cuts", "same_person"
FACTS = "facts"
KEEP, SPLIT = "keep", "split"
# Without h, u and v: Label Studio's own (pan, unselect, move).
FRAME_KEYS = tuple(key for key in ascii_lowercase if key not in "huv")
OTHER_KEYS = ("4", "5", "6")
_FRAMES_OF_OTHERS = 4
_ROOMY = 8
_CROWDED = 18


class TrackletSelection(LabellingPage):
    """The labelling interface `tracklet-selection`."""

    name = "tracklet-selection"

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """The page of one tracklet."""
        return _content(entity.record(Tracklet), images_url)

    def read_annotation(
        self, result: Sequence[dict[str, Any]], shown: StoredEntity
    ) -> ReviewAnswer | UnclearAnswer:
        """What the regions of an annotation say about the tracklet that was shown.

        Cuts count only in a split; «same person» counts only without one, as it would not be clear
        which part is meant.
        """
        tracklet = shown.record(Tracklet)
        for control, options in _offered(tracklet).items():
            if unknown := set(values(result, control, "choices")) - set(options):
                problem = f"{control} must hold choices that the page offers; got {min(unknown)!a}"
                return UnclearAnswer(problem=problem)
        verdict = only_choice(result, VERDICT)
        if verdict == "reject":
            return read_rejection(result)
        if verdict not in (KEEP, SPLIT):
            return UnclearAnswer(problem="no verdict was chosen")
        return _selection(result, tracklet, verdict)

    def successors(
        self, shown: StoredEntity, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """The tracklet without the dropped frames, or its parts; nothing if nothing changed.

        A tracklet that shows the same person as others names them. The parts of a split keep all
        candidates, so that each part is asked about them.
        """
        if answer.verdict != "edit":
            return ()
        tracklet = shown.record(Tracklet)
        same = answer.choices.get(SAME, ())
        change = {
            "same_person_as": tuple(dict.fromkeys((*tracklet.same_person_as, *same))),
            "others": tuple(other for other in tracklet.others if other.tracklet_id not in same),
            "switches": (),
            "author": author,
        }
        return tuple(
            tracklet.model_copy(update={**change, "frames": part})
            for part in _parts(tracklet, answer.choices)
        )

    def summary(self, answer: ReviewAnswer, shown: StoredEntity) -> Summary:
        """The answer in words."""
        choices = answer.choices
        tracklet = shown.record(Tracklet)
        names = _letters(tracklet.frames)
        others = {other.tracklet_id: f"[{key}]" for other, key in _numbered(tracklet.others)}
        return [
            ("Verdict", self.labels(VERDICT, choices.get(VERDICT, (answer.verdict,)))),
            ("Frames dropped", ", ".join(names[int(n)] for n in choices.get(DROPPED, ()))),
            ("Another person from", ", ".join(names[int(n)] for n in choices.get(CUTS, ()))),
            ("Same person as", ", ".join(others[other] for other in choices.get(SAME, ()))),
            ("Reason", answer.reason),
        ]


def _content(tracklet: Tracklet, images_url: str) -> TaskContent:
    data = {
        "facts_html": _facts(tracklet),
        "frames": [
            _frame_switch(frame, key, name, len(tracklet.frames), images_url)
            for frame, key, name in _named(tracklet.frames)
        ],
        "cuts": [_cut(frame, key, name) for frame, key, name in _named(tracklet.frames)][1:],
        "others": [
            _other_switch(other, key, images_url) for other, key in _numbered(tracklet.others)
        ],
    }
    return TaskContent(data, _predictions(tracklet), _images(tracklet))


def _images(tracklet: Tracklet) -> tuple[ShownImage, ...]:
    crops = [frame.crop for frame in tracklet.frames]
    others = [other for other, _ in _numbered(tracklet.others)]
    crops += [frame.crop for other in others for frame in _few(other.frames)]
    return tuple(dict.fromkeys(map(shown_image, crops)))


def _named(frames: Sequence[TrackletFrame]) -> list[tuple[TrackletFrame, str | None, str]]:
    """The frames, each with its key (None when keys run out) and its name."""
    keys: list[str | None] = [*FRAME_KEYS[: len(frames)]]
    keys += [None] * (len(frames) - len(keys))
    return [
        (frame, key, key.upper() if key else str(position))
        for position, (frame, key) in enumerate(zip(frames, keys, strict=True), start=1)
    ]


def _letters(frames: Sequence[TrackletFrame]) -> dict[int, str]:
    return {frame.frame: name for frame, _, name in _named(frames)}


def _numbered(others: Sequence[OtherTracklet]) -> list[tuple[OtherTracklet, str]]:
    """The other tracklets that are shown, the likeliest first, each with its key."""
    likeliest = sorted(others, key=lambda other: -other.similarity)
    return list(zip(likeliest, OTHER_KEYS, strict=False))


def _few(frames: Sequence[TrackletFrame]) -> Sequence[TrackletFrame]:
    """A few frames, spread over the whole length."""
    step = max(1, -(-len(frames) // _FRAMES_OF_OTHERS))
    return frames[::step]


def _facts(tracklet: Tracklet) -> str:
    first, last = tracklet.frames[0], tracklet.frames[-1]
    count = len(tracklet.frames)
    facts = [
        f"<b>{count} frame{'s' if count > 1 else ''}</b>",
        f"{first.time_seconds:.1f} to {last.time_seconds:.1f} s",
        escape(tracklet.video),
        f"track {tracklet.track}",
    ]
    return f'<p class="loupe-facts">{" · ".join(facts)}</p>'


def _frame_switch(
    frame: TrackletFrame, key: str | None, name: str, count: int, images_url: str
) -> dict[str, Any]:
    size = "roomy" if count <= _ROOMY else "middling" if count <= _CROWDED else "crowded"
    suspicions = ", ".join(rule.replace("_", " ") for rule in frame.suspicions)
    hint = f"frame {frame.frame}, {frame.time_seconds:.1f} s, detector {frame.score:.2f}"
    html = (
        f'<span class="loupe-frame loupe-{size}" title="{escape(hint)}">'
        f"{picture_tag(frame.crop, images_url)}"
        f'<b class="loupe-name">{name}</b>'
        f'<i class="loupe-suspicion">{escape(suspicions)}</i></span>'
    )
    return _option(str(frame.frame), html, key)


def _cut(frame: TrackletFrame, key: str | None, name: str) -> dict[str, Any]:
    return _option(
        str(frame.frame), f'<b class="loupe-cut">{name}</b>', f"shift+{key}" if key else None
    )


def _other_switch(other: OtherTracklet, key: str, images_url: str) -> dict[str, Any]:
    pictures = "".join(picture_tag(frame.crop, images_url) for frame in _few(other.frames))
    label = f"<i>[{key}] similarity {other.similarity:.2f}</i>"
    html = f'<span class="loupe-other">{pictures}{label}</span>'
    return _option(other.tracklet_id, html, key)


def _option(value: str, html: str, key: str | None) -> dict[str, Any]:
    return {"value": value, "html": html} | ({"hotkey": key} if key else {})


def _predictions(tracklet: Tracklet) -> list[dict[str, Any]]:
    """The filter's suspicions, already ticked; the verdict is left to the person."""
    suspected = [str(frame.frame) for frame in tracklet.frames if frame.suspicions]
    later = {frame.frame for frame in tracklet.frames[1:]}
    switches = [str(number) for number in tracklet.switches if number in later]
    regions = [choice_region(DROPPED, FACTS, *suspected)] if suspected else []
    regions += [choice_region(CUTS, FACTS, *switches)] if switches else []
    return [{"model_version": tracklet.author, "result": regions}] if regions else []


def _offered(tracklet: Tracklet) -> dict[str, list[str]]:
    """What the page offers in each control."""
    numbers = [str(frame.frame) for frame in tracklet.frames]
    others = [other.tracklet_id for other, _ in _numbered(tracklet.others)]
    return {DROPPED: numbers, CUTS: numbers[1:], SAME: others}


def _selection(
    result: Sequence[dict[str, Any]], tracklet: Tracklet, verdict: str
) -> ReviewAnswer | UnclearAnswer:
    offered = _offered(tracklet)
    choices = {
        VERDICT: (verdict,),
        DROPPED: _chosen(result, DROPPED, offered[DROPPED]),
        CUTS: _chosen(result, CUTS, offered[CUTS]) if verdict == SPLIT else (),
        SAME: _chosen(result, SAME, offered[SAME]) if verdict == KEEP else (),
    }
    if verdict == SPLIT and not choices[CUTS]:
        return UnclearAnswer(problem="split without a frame to split at")
    parts = _parts(tracklet, choices)
    if not parts:
        return UnclearAnswer(problem="all frames are dropped, but the tracklet is not")
    changed = verdict == SPLIT or choices[DROPPED] or choices[SAME]
    remark = "only one part of the split is left" if verdict == SPLIT and len(parts) == 1 else ""
    return ReviewAnswer(verdict="edit" if changed else "accept", choices=choices, remark=remark)


def _chosen(
    result: Sequence[dict[str, Any]], control: str, offered: Sequence[str]
) -> tuple[str, ...]:
    """The ticked options in the page's order."""
    ticked = set(values(result, control, "choices"))
    return tuple(option for option in offered if option in ticked)


def _parts(
    tracklet: Tracklet, choices: dict[str, tuple[str, ...]]
) -> list[tuple[TrackletFrame, ...]]:
    """The remaining frames, split before each cut; empty parts are left out."""
    dropped = set(choices.get(DROPPED, ()))
    cuts = set(choices.get(CUTS, ()))
    parts: list[list[TrackletFrame]] = [[]]
    for frame in tracklet.frames:
        if str(frame.frame) in cuts:
            parts.append([])
        if str(frame.frame) not in dropped:
            parts[-1].append(frame)
    return [tuple(part) for part in parts if part]
