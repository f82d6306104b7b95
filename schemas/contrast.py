"""Contrastive images and captions (CCD): settings of their choice, records, what tells them apart.

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
from typing import ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from schemas.base import EntityRecord, Record
from schemas.download import RobotsAnswer
from schemas.image_search import SearchHit
from schemas.proposals import Box, Picture, Strategy
from schemas.records import Attribution, Rejection, Sha256
from schemas.taxonomy import DifferenceType


class ChoiceSettings(Record):
    """Which of the first results of a search may be the candidate (CCD, step 2).

    Similarities are cosines of an embedder's image vectors. How far apart these lie is a matter of
    the embedder, and so the bounds have to be, too: a profile states both beside its embedder, and
    `calibrate_choice` suggests them.

    Attributes:
        first: how many results are looked at; CCD takes five.
        floor: a result less similar to the anchor than this is another picture altogether.
        ceiling: one that is more similar is the anchor again, whatever its bytes.
        doubtful_misfit: where the cosine of a result to the contrastive caption is by more than
            this below that of the anchor to its own caption, more may differ than the one detail.
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
    """When two pixels differ visibly, and when an edit is none or changed too much.

    Colours are compared in CIELAB, after both pictures were scaled to `side_px`, laid over each
    other, and smoothed. Shares are of the picture's pixels, 0 to 1.

    Attributes:
        side_px: the longer side, in pixels, that pictures are compared at.
        smoothing_px: the standard deviation of the smoothing, in those pixels.
        visible_difference: the colour difference (ΔE*ab) from which on a pixel has changed.
        drift: up to this colour difference what changed all over the picture is the model's drift,
            and is taken off.
        least_changed_share: with less changed than this, nothing did.
        doubtful_outside_share: from here on, too much changed outside of the wanted region.
        doubtful_changed_share: from here on, too much changed for what is to concern one thing.
        doubtful_global_share: below this, too little changed for what concerns all of the picture.
        least_shift: with no more shift towards the wanted caption than this, the wanted detail did
            not change; None where the embedder's word is not to count.
        doubtful_shift: below this, it is doubtful whether it did.
        doubtful_unplaced_shift: the same, where one thing is to change at an unknown place in the
            picture it is: then the embedder alone can tell the right thing from another.
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
"""The outcome of a result: `less_similar` than the chosen one, which it could have been, too.

`near_duplicate` of its anchor; `already_used` as another anchor or as another candidate.
"""


class ConsideredResult(Record):
    """A result of a search, compared with its anchor; `rank` counts from 1."""

    rank: int = Field(ge=1)
    similarity: float = Field(ge=-1, le=1)
    verdict: ResultVerdict


class ResultsConsidered(EntityRecord):
    """The outcomes of the first results of one search, in order; see `ChoiceCalibration`.

    `anchor_id` is the image that they were compared with, `picture_ids` the downloaded results.
    """

    kind: ClassVar[str] = "results_considered"
    anchor_id: str
    picture_ids: tuple[str, ...]
    results: tuple[ConsideredResult, ...]


class ObservedResult(Record):
    """A result of a search, and what is known of it.

    Attributes:
        similarity: to its anchor.
        near_duplicate: whether it has the anchor's content, by bytes or look.
        accepted: what people said of it as a candidate; None where nobody did.
    """

    similarity: float = Field(ge=-1, le=1)
    near_duplicate: bool = False
    accepted: bool | None = None


class SuggestedBound(Record):
    """A bound, and what it was found on, in a sentence; `value` is None where there was too little.

    `known` is how many results (or pairs of pictures) it was found on.
    """

    value: float | None
    known: int
    reason: str


class ChoiceCalibration(EntityRecord):
    """How similar results are to their anchors, and where bounds of the choice should lie.

    Attributes:
        embedder: what the similarities are of, as `name@revision`.
        settings: the bounds in force.
        anchors: how many anchors there were.
        results: how many results of theirs.
        near_duplicates: how many of these have their anchor's content.
        judged: of how many people said whether they accept them.
        accepted: how many of these they did.
        quantiles: (share, similarity), of the results that are no near-duplicates.
        unrelated: (share, similarity), of anchors and results of other anchors.
        floor: suggested.
        ceiling: suggested.
        within: how many results that are no near-duplicates lie within the bounds in force.
        within_suggested: how many do within the suggested ones.
    """

    kind: ClassVar[str] = "choice_calibration"
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


# What stands between the steps of a contrastive benchmark (CCD); each goes on from it.

Way = Literal["search", "edit"]
"""How contrastive images are obtained: found on the web or in a folder, or edited."""


class StrategyDraft(EntityRecord):
    """One of the strategies in a model's answer: as it was understood, or why it was refused.

    `call` is the key of the model call; `position` counts from 0 in the answer.
    """

    kind: ClassVar[str] = "strategy_draft"
    position: int = Field(ge=0)
    strategy: Strategy | None = None
    refusal: Rejection | None = None
    call: str

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if (self.strategy is None) == (self.refusal is None):
            raise ValueError("a draft must hold a strategy or a refusal, and not both")
        return self


class ImageRequest(EntityRecord):
    """A request for the contrastive image of a strategy (its parent), by one method."""

    kind: ClassVar[str] = "image_order"
    way: Way


class StoredEdit(EntityRecord):
    """A picture as an editor made it, before anybody measured what changed.

    `key` is the identity of the edit (`EditRequest.key`). How long it took, its activity tells:
    what is edited again elsewhere is the same entity. `regions` are boxes around where the picture
    was to change, in its pixels, as far as the editor knows.
    """

    kind: ClassVar[str] = "edited_picture"
    key: str
    model: str
    instruction: str
    seed: int
    picture: Picture
    regions: tuple[Box, ...] = ()


class FoundHit(EntityRecord):
    """An image that a search named for the caption of a strategy, before it is downloaded.

    `engine` is the service as `name@revision`, `search` the digest of it with its parameters.
    """

    kind: ClassVar[str] = "found_hit"
    engine: str
    search: str = ""
    query: str
    hit: SearchHit


class FoundPicture(EntityRecord):
    """A hit as it was downloaded: upright, known to decode, without metadata that tells a place.

    Attributes:
        found: the hit.
        picture: its bytes as they are stored.
        attribution: its terms.
        source_sha256: of the bytes as they were sent, which may tell a place or be larger.
        contents: names the settings that determine the bytes (`DownloadSettings.contents`).
        url: where the redirects ended, without its query; None where nothing was downloaded.
        redirects: how many were followed.
        robots: whether the host's rules were asked; None where nothing was downloaded.
    """

    kind: ClassVar[str] = "found_picture"
    found: FoundHit
    picture: Picture
    attribution: Attribution
    source_sha256: Sha256
    contents: str
    url: str | None = None
    redirects: int = Field(default=0, ge=0)
    robots: RobotsAnswer | None = None


class ContrastGroup(EntityRecord):
    """An anchor and its contrastive images, by their ids: what captions are refined for.

    A build that keeps lone anchors has groups without contrastive images.
    """

    kind: ClassVar[str] = "contrast_group"
    anchor_id: str
    image_ids: tuple[str, ...]


# What tells captions apart, and phrases by which a caption speaks of what nobody sees in it.
#
# Pages mark it, stages judge by it; the words and phrases are data, `caption_contrast.toml`.

ORDERED_TYPES = frozenset((DifferenceType.ENTITY_RELATION, DifferenceType.EVENT_ATTRIBUTE))
"""Types in which the same words in another order, or other prepositions, say something else."""

WORD = re.compile(r"\w+(?:['’-]\w+)*")
QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|«[^»]*»|‘[^’]*’|(?<!\w)'[^']*'(?!\w)")


class PhraseKind(StrEnum):
    """How a phrase speaks of what is not to be seen."""

    OTHER_IMAGE = "speaks of another image"
    COMPARISON = "compares with what is not shown"
    ABSENCE = "names what is not there"


_PHRASES = {
    PhraseKind.OTHER_IMAGE: "other_images",
    PhraseKind.COMPARISON: "comparisons",
    PhraseKind.ABSENCE: "absences",
}
"""The phrases of each kind in the data; of those that overlap the first counts."""


class Phrase(NamedTuple):
    """A phrase of a text, from `start` to `end` (excluded), in characters."""

    kind: PhraseKind
    start: int
    end: int
    text: str


def content_words(text: str, *, relations: bool = False) -> frozenset[str]:
    """The words of a text, folded, without those that only hold it together.

    With `relations`, prepositions of place are among them.
    """
    return frozenset(_telling_words(text, relations))


def indistinct(
    captions: Sequence[str], differences: Sequence[DifferenceType | None] | None = None
) -> list[list[int]]:
    """For each caption the positions of those from which nothing that it says tells it.

    A caption differs from another by a content word that the other lacks or says less often («a
    black cup beside a black box» is not «a black cup beside a blue box»). Between images of which
    one differs from the anchor by a relation or by who does what, the order of words and
    prepositions tell, too: «the dog chases the cat» is not «the cat chases the dog».

    Args:
        captions: one of each image.
        differences: by which each image differs from the anchor; None for the anchor.
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
                in_order=not ORDERED_TYPES.isdisjoint((kinds[position], kinds[other])),
            )
        ]
        for position in range(len(captions))
    ]


def caption_name(row: int, column: int) -> str:
    """What the page of a group calls a caption: the letter of its image, the number of its row."""
    return f"{image_letter(column)}{row + 1}"


def image_letter(position: int) -> str:
    """What the page of a group calls an image: A, B and so on, AA after Z."""
    before, last = divmod(position, len(ascii_uppercase))
    return (image_letter(before - 1) if before else "") + ascii_uppercase[last]


def phrases(text: str) -> list[Phrase]:
    """The phrases of a text that speak of what is not to be seen, in order, none within another.

    What stands between quotation marks is quoted from the image; so are signs («a no parking
    sign») without them.
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
    ours, theirs = _telling_words(caption, in_order), _telling_words(other, in_order)
    if not in_order:
        return not Counter(ours) <= Counter(theirs)
    rest = iter(theirs)
    return not all(word in rest for word in ours)  # a subsequence says nothing of its own


def _telling_words(text: str, relations: bool) -> list[str]:
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
