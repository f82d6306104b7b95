"""Which result of a search becomes a candidate, and when an edit has changed what it should (CCD).

docs/ccd.md describes each setting.
"""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from schemas.base import EntityRecord, Record


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
