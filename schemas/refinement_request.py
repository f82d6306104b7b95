"""What a model is told when it is asked to refine a caption, as lines that a program can read.

A request for fine captions (CCD, step 3) has all images of a group in `images`, the anchor first,
instructions in `prompt`, and in `subject` a brief: one statement a line, `Name: value`, in the
manner of `schemas.caption_request`::

    Images: 3
    Caption: A red car stands on a street.
    Difference: Entity Attribute: the car is blue
    Difference: Scene Type: the place is a beach
    Second language: zh

`Images` and `Caption` (a coarse caption of the anchor) stand once; `Difference` once for each image
after the first, in their order: how it differs from the anchor. `Second language` (an ISO 639-1
code) stands where every caption is wanted in that language, too.

The request's `purpose` is `refine_captions`, or `repair_captions` where an answer was no use and is
asked for anew; the answer is one JSON object with a caption for each image, in the order of the
images: `{"captions": ["…", …]}`, and `"translations": ["…", …]` beside it where a second language
is wanted.
"""

from typing import ClassVar

from pydantic import Field, model_validator

from schemas.base import Record
from schemas.briefs import Brief

REFINEMENT_PURPOSE = "refine_captions"
REPAIR_PURPOSE = "repair_captions"

CAPTIONS_FIELD = "captions"
TRANSLATIONS_FIELD = "translations"

MOST_CHARACTERS = 600
"""The longest caption that is taken; 60 words are about 360."""


class RefinementBrief(Brief):
    """What fine captions are to be made of; see the module for the lines.

    Attributes:
        images: how many images there are, the anchor included.
        caption: a coarse caption of the anchor.
        differences: for each image after the anchor its type of difference and its plan.
        second_language: the language that captions are wanted in beside English; None for none.
    """

    called = "refinement brief"
    lines: ClassVar = {
        "Images": "images",
        "Caption": "caption",
        "Second language": "second_language",
        "Difference": "differences",
    }

    images: int = Field(ge=2)
    caption: str = Field(min_length=1)
    differences: tuple[str, ...]
    second_language: str | None = Field(default=None, pattern=r"^[a-z]{2}$")

    @model_validator(mode="after")
    def _tells_of_every_image(self) -> "RefinementBrief":
        if len(self.differences) != self.images - 1:
            raise ValueError(
                f"{self.images} images need {self.images - 1} differences; "
                f"got {len(self.differences)}"
            )
        return self


class StyleLimits(Record):
    """How far a fine caption may be from the style of its coarse one before people are told.

    Attributes:
        shortest_ratio: its words to those of the coarse caption, at least.
        longest_ratio: at most (the paper's captions have 2.2 and 2.6 times as many on average).
        free_words: captions of no more words are never too long.
        kept_share: the share of the coarse caption's content words that it keeps, at least.
        further_sentences: how many sentences it may have beyond those of the coarse caption.
    """

    shortest_ratio: float = Field(default=0.8, ge=0)
    longest_ratio: float = Field(default=4.0, ge=1)
    free_words: int = Field(default=30, ge=0)
    kept_share: float = Field(default=0.25, ge=0, le=1)
    further_sentences: int = Field(default=1, ge=0)
