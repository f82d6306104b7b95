"""Contrastive images and captions (CCD): settings, records, and distinctness of captions.

docs/ccd.md describes each setting.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from string import ascii_uppercase
from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from schemas.base import Box, EntityRecord, Record, Sha256
from schemas.image_search import RobotsAnswer, SearchHit
from schemas.proposals import Strategy
from schemas.records import Attribution, Picture, Rejection
from schemas.taxonomy import DifferenceType


class ChoiceSettings(Record):
    """Which of the first results of a search may be the candidate (CCD, step 2).

    Similarities are cosines of an embedder's image vectors. Their range depends on the embedder, so
    a profile states both bounds next to its embedder, and `calibrate_choice` suggests them.

    Attributes:
        first: number of results to consider; CCD takes five.
        floor: a result less similar to the anchor than this is an unrelated image.
        ceiling: a result more similar than this is the anchor again, whatever its bytes.
        doubtful_misfit: flag a result if its cosine to the contrastive caption is lower by more
            than this than that of the anchor to its own caption, because more than the one detail
            may differ.
    """

    first: int = Field(default=5, ge=1)
    floor: float = Field(default=0.3, ge=-1, le=1)
    ceiling: float = Field(default=0.97, ge=-1, le=1)
    doubtful_misfit: float = Field(default=0.05, ge=0, le=2)

    @model_validator(mode="after")
    def _bounds_rise(self) -> "ChoiceSettings":
        if self.floor >= self.ceiling:
            raise ValueError(
                f"floor must be less than ceiling; got {self.floor} and {self.ceiling}"
            )
        return self


class EditCheckSettings(Record):
    """When two pixels differ visibly, and when an edit changed nothing or too much.

    Colours are compared in CIELAB after both images were scaled to `side_px`, aligned and smoothed.
    Shares are of the image's pixels, 0 to 1.

    Attributes:
        side_px: longer side of the compared images, in pixels.
        smoothing_px: standard deviation of the smoothing, in those pixels.
        visible_difference: colour difference (ΔE*ab) from which a pixel has changed.
        drift: global colour differences up to this are the model's drift and are removed.
        least_changed_share: reject the edit below this changed share.
        doubtful_outside_share: flag from this share changed outside the wanted region.
        doubtful_changed_share: flag from this changed share if one thing was to change.
        doubtful_global_share: flag below this changed share if the whole image was to change.
        least_shift: reject the edit up to this shift towards the wanted caption; None to disable.
        doubtful_shift: flag below this shift.
        doubtful_unplaced_shift: flag below this shift if one thing was to change at an unknown
            place in the image, because then only the embedder can identify it.
    """

    side_px: int = Field(default=512, ge=64)
    smoothing_px: float = Field(default=1.5, gt=0)
    visible_difference: float = Field(default=14.0, gt=0)
    drift: float = Field(default=4.0, ge=0)
    least_changed_share: float = Field(default=0.001, ge=0, le=1)
    doubtful_outside_share: float = Field(default=0.02, ge=0, le=1)
    doubtful_changed_share: float = Field(default=0.5, ge=0, le=1)
    doubtful_global_share: float = Field(default=0.15, ge=0, le=1)
    least_shift: float | None = Field(default=0.0, ge=-4, le=4)
    doubtful_shift: float = Field(default=0.03, ge=-4, le=4)
    doubtful_unplaced_shift: float = Field(default=0.03, ge=-4, le=4)


ResultVerdict = Literal[
    "chosen", "less_similar", "near_duplicate", "already_used", "too_similar", "too_different"
]
"""The outcome of a result: `less_similar` than the chosen one, but within the bounds.

`near_duplicate` of its anchor; `already_used` as another anchor or candidate.
"""


class ConsideredResult(Record):
    """A result of a search, compared with its anchor; `rank` counts from 1."""

    rank: int = Field(ge=1)
    similarity: float = Field(ge=-1, le=1)
    verdict: ResultVerdict


class ResultsConsidered(EntityRecord, kind="results_considered"):
    """The outcomes of the first results of one search, in order; see `ChoiceCalibration`.

    `anchor_id` is the image they were compared with, `picture_ids` the downloaded results.
    """

    anchor_id: str
    picture_ids: tuple[str, ...]
    results: tuple[ConsideredResult, ...]


class ObservedResult(Record):
    """A result of a search with its judgement, if any.

    Attributes:
        similarity: similarity to its anchor.
        near_duplicate: whether it has the anchor's content, by bytes or look.
        accepted: whether people accepted it as a candidate; None if it was not judged.
    """

    similarity: float = Field(ge=-1, le=1)
    near_duplicate: bool = False
    accepted: bool | None = None


class SuggestedBound(Record):
    """A suggested bound and its basis in a sentence; `value` is None if there were too few values.

    `known` is the number of results (or pairs of images) that it is based on.
    """

    value: float | None
    known: int
    reason: str


class ChoiceCalibration(EntityRecord, kind="choice_calibration"):
    """How similar results are to their anchors, and the suggested bounds of the choice.

    Attributes:
        embedder: the embedder of the similarities, as `name@revision`.
        settings: the current bounds.
        anchors: number of anchors.
        results: number of their results.
        near_duplicates: number of results with their anchor's content.
        judged: number of results that people judged.
        accepted: number of results that people accepted.
        quantiles: (share, similarity) of the results without near-duplicates.
        unrelated: (share, similarity) of anchors and results of other anchors.
        floor: the suggested floor.
        ceiling: the suggested ceiling.
        within: number of results within the current bounds, without near-duplicates.
        within_suggested: the same within the suggested bounds.
    """

    embedder: str
    settings: ChoiceSettings
    anchors: int
    results: int
    near_duplicates: int
    judged: int
    accepted: int
    quantiles: tuple[tuple[float, float], ...]
    unrelated: tuple[tuple[float, float], ...]
    floor: SuggestedBound
    ceiling: SuggestedBound
    within: int
    within_suggested: int


# Records of the steps of a contrastive benchmark (CCD), in their order.

Method = Literal["search", "edit"]
"""How contrastive images are obtained: found on the web or in a folder, or edited."""


class StrategyDraft(EntityRecord, kind="strategy_draft"):
    """One of the strategies in a model's answer: parsed, or rejected.

    `call` is the key of the model call; `position` counts from 0 in the answer.
    """

    position: int = Field(ge=0)
    strategy: Strategy | None = None
    refusal: Rejection | None = None
    call: str

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if (self.strategy is None) == (self.refusal is None):
            raise ValueError("a draft must hold a strategy or a refusal, and not both")
        return self


class ImageRequest(EntityRecord, kind="image_order"):
    """A request for the contrastive image of a strategy (its parent), by one method."""

    method: Method


class StoredEdit(EntityRecord, kind="edited_picture"):
    """An image as an editor made it, before changes are measured.

    `key` is the identity of the edit (`EditRequest.key`). The duration is kept in its activity, so
    that the same edit made elsewhere is the same entity. `regions` are boxes around the intended
    change, in pixels of the image, if the editor knows them.
    """

    key: str
    model: str
    instruction: str
    seed: int
    picture: Picture
    regions: tuple[Box, ...] = ()


class FoundHit(EntityRecord, kind="found_hit"):
    """An image found for the caption of a strategy, before it is downloaded.

    `engine` is the service as `name@revision`, `search` the digest of it with its parameters.
    """

    engine: str
    search: str = ""
    query: str
    hit: SearchHit


class FoundPicture(EntityRecord, kind="found_picture"):
    """A downloaded hit: upright, decodable, without location metadata.

    Attributes:
        found: the hit.
        picture: its stored bytes.
        attribution: its licence and attribution.
        source_sha256: of the bytes as sent, which may contain a location or be larger.
        contents: digest of the settings that determine the bytes (`DownloadSettings.contents`).
        url: final address after redirects, without its query; None if nothing was downloaded.
        redirects: number of redirects.
        robots: whether the host's rules were checked; None if nothing was downloaded.
    """

    found: FoundHit
    picture: Picture
    attribution: Attribution
    source_sha256: Sha256
    contents: str
    url: str | None = None
    redirects: int = Field(default=0, ge=0)
    robots: RobotsAnswer | None = None


class ContrastGroup(EntityRecord, kind="contrast_group"):
    """An anchor and its contrastive images by their ids, for which captions are refined.

    A build that keeps lone anchors has groups without contrastive images.
    """

    anchor_id: str
    image_ids: tuple[str, ...]


# What distinguishes captions, and phrases about what the image does not show.
#
# Pages mark them and stages judge by them; the words and phrases are in `caption_contrast.toml`.

_ORDERED_TYPES = frozenset((DifferenceType.ENTITY_RELATION, DifferenceType.EVENT_ATTRIBUTE))
"""Types in which the order of words, or other prepositions, change the meaning."""

WORD = re.compile(r"\w+(?:['’-]\w+)*")
QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|«[^»]*»|‘[^’]*’|(?<!\w)'[^']*'(?!\w)")


class PhraseKind(StrEnum):
    """How a phrase refers to something that is not shown."""

    OTHER_IMAGE = "speaks of another image"
    COMPARISON = "compares with what is not shown"
    ABSENCE = "names what is not there"


_PHRASES = {
    PhraseKind.OTHER_IMAGE: "other_images",
    PhraseKind.COMPARISON: "comparisons",
    PhraseKind.ABSENCE: "absences",
}
"""The phrases of each kind in the data; of overlapping phrases the first counts."""


class Phrase(NamedTuple):
    """A phrase of a text, from `start` to `end` (exclusive), in characters."""

    kind: PhraseKind
    start: int
    end: int
    text: str


def content_words(text: str) -> frozenset[str]:
    """Return the words of a text, folded, without function words."""
    return frozenset(_telling_words(text, relations=False))


def indistinct(
    captions: Sequence[str], differences: Sequence[DifferenceType | None] | None = None
) -> list[list[int]]:
    """Return for each caption the positions of captions from which it is not distinct.

    A caption differs from another by a content word that the other lacks or has less often («a
    black cup beside a black box» is not «a black cup beside a blue box»). For images that differ
    from the anchor by a relation or by roles, the order of words and prepositions count, too: «the
    dog chases the cat» is not «the cat chases the dog».

    Args:
        captions: one of each image.
        differences: the difference of each image from the anchor; None for the anchor.
    """
    kinds = differences or [None] * len(captions)
    return [
        [
            other
            for other in range(len(captions))
            if other != position
            and not _is_distinct(
                captions[position],
                captions[other],
                in_order=not _ORDERED_TYPES.isdisjoint((kinds[position], kinds[other])),
            )
        ]
        for position in range(len(captions))
    ]


def caption_name(row: int, column: int) -> str:
    """Return a caption's name on the page of a group: its image's letter and its row's number."""
    return f"{image_letter(column)}{row + 1}"


def image_letter(position: int) -> str:
    """Return an image's name on the page of a group: A, B and so on, AA after Z."""
    before, last = divmod(position, len(ascii_uppercase))
    return (image_letter(before - 1) if before else "") + ascii_uppercase[last]


def phrases(text: str) -> list[Phrase]:
    """Return the phrases of a text about what is not shown, in order and not nested.

    Text in quotation marks is quoted from the image and ignored, and so are signs without them («a
    no parking sign»).
    """
    plain = QUOTED.sub(lambda match: " " * len(match.group()), text)
    plain = _pattern("harmless").sub(lambda match: " " * len(match.group()), plain)
    found: list[Phrase] = []
    for kind, name in _PHRASES.items():
        for match in _pattern(name).finditer(plain):
            if not any(one.start < match.end() and match.start() < one.end for one in found):
                found.append(Phrase(kind, *match.span(), text[slice(*match.span())]))
    return sorted(found, key=lambda one: one.start)


def _is_distinct(caption: str, other: str, *, in_order: bool) -> bool:
    ours, theirs = (_telling_words(text, relations=in_order) for text in (caption, other))
    if not in_order:
        return not Counter(ours) <= Counter(theirs)
    rest = iter(theirs)
    return not all(word in rest for word in ours)  # a subsequence has no new content


def _telling_words(text: str, *, relations: bool) -> list[str]:
    left_out = _words("function_words") - (_words("relation_words") if relations else frozenset())
    words = (word.casefold() for word in WORD.findall(text))
    return [word for word in words if word not in left_out]


@cache
def _data() -> dict[str, str]:
    text = files("schemas").joinpath("caption_contrast.toml").read_text(encoding="utf-8")
    return {name: str(value) for name, value in tomllib.loads(text).items()}


@cache
def _words(name: str) -> frozenset[str]:
    return frozenset(_data()[name].split())


@cache
def _pattern(name: str) -> re.Pattern[str]:
    lines = [line.strip().replace(" ", r"\s+") for line in _data()[name].strip().splitlines()]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(lines)})(?![\w-])", re.IGNORECASE)
