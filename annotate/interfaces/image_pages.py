"""The pages on which images are reviewed: crops of a tracklet, selections, duplicates.

On the page of a tracklet, each frame on the left is a switch that drops it. On the right are the
verdict, the frames at which another person starts, and other tracklets that may show the same
person.
"""
# ruff: noqa: ARG002 - methods of all pages take the same

from collections.abc import Sequence
from html import escape
from string import ascii_lowercase
from typing import Any

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.page import (
    VERDICT,
    Interface,
    Regions,
    Summary,
    TaskContent,
    choice_region,
    image_address,
    page_html,
    shown_image,
    values,
    verdict_answer,
)
from db.entities import StoredEntity
from schemas.base import EntityRecord
from schemas.proposals import (
    Candidate,
    EditMeasurement,
    FoundImage,
    OtherTracklet,
    Tracklet,
    TrackletFrame,
)
from schemas.recos import DuplicateQuestion, Selection
from schemas.retrieval_task import TASK_FORMS


class ImageSelection(Interface):
    """The labelling interface `image-selection`: does an image fit its task (ReCoS)?"""

    name = "image-selection"

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """Return the page of one image."""
        selection = entity.record(Selection)
        form = TASK_FORMS.get(selection.task)  # None for a user's own task
        task = page_html("selection", selection, form)
        data = {"image": image_address(images_url, selection.picture), "task_html": task}
        return TaskContent(data, [], (shown_image(selection.picture),))


class DuplicateCheck(Interface):
    """The labelling interface `duplicate-check`: two possibly identical images side by side.

    People decide if hashes and embeddings are uncertain: two different images are accepted, two
    copies of the same image are rejected.
    """

    name = "duplicate-check"

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """Return the page of one pair of images, with its measurements."""
        asked = entity.record(DuplicateQuestion)
        parts = ["Automatic checks are uncertain"]
        if asked.distance is not None:
            parts.append(f"visual distance {asked.distance:.3f}")
        if asked.similarity is not None:
            parts.append(f"similarity of content {asked.similarity:.3f}")
        if asked.mirrored:
            parts.append("one may be mirrored")
        data = {
            "first": image_address(images_url, asked.first),
            "second": image_address(images_url, asked.second),
            "measured_html": f"<p>{' · '.join(parts)}</p>",
        }
        return TaskContent(data, [], (shown_image(asked.first), shown_image(asked.second)))

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

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """Return the page of one candidate."""
        candidate = entity.record(Candidate)
        pictures = [candidate.anchor, candidate.image]
        if candidate.overlay is not None:
            pictures.append(candidate.overlay)
        data = {
            "anchor": image_address(images_url, candidate.anchor),
            "candidate": image_address(images_url, candidate.image),
            "wanted_html": page_html("wanted", candidate),
            "origin_html": f'<p class="loupe-origin">{_origin(candidate)}</p>',
            "measured_html": page_html(
                "measured", candidate, measured_in_words(candidate), images_url
            ),
        }
        return TaskContent(data, [], tuple(map(shown_image, pictures)))


def _origin(candidate: Candidate) -> str:
    """Return the origin of the candidate in one line; its address is text, not a link."""
    origin = candidate.origin
    if isinstance(origin, FoundImage):
        creator = origin.creator or "an unknown author"
        found = f"Found by {origin.engine}, result {origin.rank}"
        parts = [found, f"licence {origin.licence}", creator, origin.page]
    else:
        parts = [f"Edited by {origin.model}", f"instruction: {origin.instruction}"]
    return " · ".join(map(escape, parts))


def measured_in_words(candidate: Candidate) -> list[str]:
    """Return the measurements, one sentence each; empty if there are none."""
    sentences = [] if candidate.measurement is None else _edit_in_words(candidate.measurement)
    if candidate.similarity is not None:
        sentences.append(f"Similarity to the anchor: {candidate.similarity:.2f}.")
    return sentences


def _edit_in_words(measurement: EditMeasurement) -> list[str]:
    sentences = [f"{percent(measurement.changed_share)} of the picture changed visibly."]
    if measurement.outside_share is not None:
        known = f" (known from {measurement.region_by})" if measurement.region_by else ""
        sentences.append(
            f"{percent(measurement.outside_share)} of it changed outside the wanted region{known}."
        )
    if measurement.apart_share is not None:
        sentences.append(
            "The wanted region is unknown: check for yourself that the right thing changed. "
            f"{percent(measurement.apart_share)} of the picture changed apart from the largest "
            "changes."
        )
    if measurement.shift is not None:
        better = "better" if measurement.shift > 0 else "no better"
        sentences.append(
            f"The candidate fits the wanted caption {better} than the anchor does "
            f"({measurement.shift:+.2f})."
        )
    return sentences


def percent(share: float) -> str:
    """Return a share in percent: one decimal below 10 %, "less than 0.1 %" below that."""
    percents = 100 * share
    if 0 < percents < 0.1:
        return "less than 0.1 %"
    return f"{percents:.0f} %" if percents >= 10 or not percents else f"{percents:.1f} %"


DROPPED, CUTS, SAME = "dropped", "cuts", "same_person"
FACTS = "facts"
SPLIT = "split"
# Without h, u and v, which are keys of Label Studio (pan, unselect, move).
FRAME_KEYS = tuple(key for key in ascii_lowercase if key not in "huv")
OTHER_KEYS = ("4", "5", "6")
_FRAMES_OF_OTHERS = 4
_ROOMY = 8
_CROWDED = 18


class TrackletSelection(Interface):
    """The labelling interface `tracklet-selection`."""

    name = "tracklet-selection"

    def page(self, entity: StoredEntity, images_url: str) -> TaskContent:
        """Return the page of one tracklet; suspicions of the filter are ticked, but no verdict."""
        tracklet = entity.record(Tracklet)
        frames, others = _named(tracklet.frames), _numbered(tracklet.others)
        count = len(frames)
        size = "roomy" if count <= _ROOMY else "middling" if count <= _CROWDED else "crowded"
        data = {
            "facts_html": page_html("facts", tracklet),
            "frames": [
                _option(str(frame.frame), page_html("frame", frame, name, size, images_url), key)
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
                    page_html("other", other, _sampled_frames(other.frames), key, images_url),
                    key,
                )
                for other, key in others
            ],
        }
        crops = [frame.crop for frame in tracklet.frames]
        crops += [frame.crop for other, _ in others for frame in _sampled_frames(other.frames)]
        images = tuple(dict.fromkeys(map(shown_image, crops)))
        suspected = [str(frame.frame) for frame in tracklet.frames if frame.suspicions]
        later = {frame.frame for frame in tracklet.frames[1:]}
        switches = [str(number) for number in tracklet.switches if number in later]
        ticked = {DROPPED: suspected, CUTS: switches}
        regions = [choice_region(name, FACTS, *chosen) for name, chosen in ticked.items() if chosen]
        guess = {"model_version": tracklet.author, "result": regions}
        return TaskContent(data, [guess] if regions else [], images)

    def kept(
        self, verdict: str, result: Regions, shown: StoredEntity
    ) -> ReviewAnswer | UnclearAnswer:
        """Parse the answer about a tracklet.

        Cuts count only in a split; «same person» counts only without one, as it would not be clear
        which part is meant.
        """
        tracklet = shown.record(Tracklet)
        numbers = [str(frame.frame) for frame in tracklet.frames]
        others = [other.tracklet_id for other, _ in _numbered(tracklet.others)]
        chosen: dict[str, tuple[str, ...]] = {}
        for control, offered in ((DROPPED, numbers), (CUTS, numbers[1:]), (SAME, others)):
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
        parts = _parts(tracklet, choices)
        if not parts:
            return UnclearAnswer(problem="all frames are dropped, but the tracklet is not")
        changed = is_split or chosen[DROPPED] or chosen[SAME]
        remark = "only one part of the split is left" if is_split and len(parts) == 1 else ""
        return ReviewAnswer(verdict="edit" if changed else "accept", choices=choices, remark=remark)

    def successors(
        self, shown: StoredEntity, answer: ReviewAnswer, author: str
    ) -> tuple[EntityRecord, ...]:
        """Return the tracklet without the dropped frames, or its parts; empty if nothing changed.

        A tracklet that shows the same person as others names them. The parts of a split keep all
        candidates, so that each part is reviewed with them.
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

    def details(self, answer: ReviewAnswer, shown: StoredEntity) -> Summary:
        """Return the ticked frames and tracklets, named as on the page."""
        choices = answer.choices
        tracklet = shown.record(Tracklet)
        names = {str(frame.frame): name for frame, _, name in _named(tracklet.frames)}
        others = {other.tracklet_id: f"[{key}]" for other, key in _numbered(tracklet.others)}
        return [
            ("Frames dropped", ", ".join(map(names.__getitem__, choices.get(DROPPED, ())))),
            ("Another person from", ", ".join(map(names.__getitem__, choices.get(CUTS, ())))),
            ("Same person as", ", ".join(map(others.__getitem__, choices.get(SAME, ())))),
        ]


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
