"""What people are asked to make sure of before a benchmark is used: each complete in itself.

A record holds all that its page shows, texts and images by the digest of their bytes; whoever asks
also links the entities that it is made of, as parents in the store.
"""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from schemas.base import EntityRecord
from schemas.proposals import Picture

OPTIONS = 6
"""How many options a choice test has (UFineBench: the right one among five others)."""


class Confusion(EntityRecord):
    """A caption, its own image, and the image that it must not fit (ReCoS, section 3.3).

    A caption that also fits the other image is a false negative: it makes the benchmark wrong.

    Attributes:
        source: the collection that the images are from.
        text: the caption.
        own: the image that it was written for.
        other: the image that it could be confused with.
        caption_id: the caption's entity, where it is one.
        author: the model (`name@revision`) or the person who wrote it.
    """

    kind: ClassVar[str] = "confusion"
    source: str
    text: str
    own: Picture
    other: Picture
    caption_id: str | None = None
    author: str

    @model_validator(mode="after")
    def _images_differ(self) -> "Confusion":
        if self.own.sha256 == self.other.sha256:
            raise ValueError(f"own and other must be two images; got {self.own.sha256!r} twice")
        return self


class ChoiceTest(EntityRecord):
    """A caption and six images, or an image and six captions, of which one belongs to it.

    Attributes:
        source: the collection that the samples are from.
        direction: what is asked for: the image to a caption, or the caption to an image.
        captions: one or six of them.
        images: six or one of them.
        answer: which of the six is right, counted from 0. The page never shows them in this order.
    """

    kind: ClassVar[str] = "choice_test"
    source: str
    direction: Literal["caption-to-image", "image-to-caption"]
    captions: tuple[str, ...]
    images: tuple[Picture, ...]
    answer: int = Field(ge=0, lt=OPTIONS)

    @model_validator(mode="after")
    def _has_one_question_and_six_options(self) -> "ChoiceTest":
        wanted = (1, OPTIONS) if self.direction == "caption-to-image" else (OPTIONS, 1)
        if (len(self.captions), len(self.images)) != wanted:
            raise ValueError(
                f"a test {self.direction} must have {wanted[0]} caption(s) and {wanted[1]} "
                f"image(s); got {len(self.captions)} and {len(self.images)}"
            )
        if len({*self.captions}) + len({image.sha256 for image in self.images}) != 1 + OPTIONS:
            raise ValueError("the options of a choice test must all differ")
        return self


class CaptionCheck(EntityRecord):
    """What speaks against a caption, in sentences for people; nothing, where it is empty.

    What is doubted goes to people by every policy that asks any, and is left out where none do.
    """

    kind: ClassVar[str] = "caption_check"
    doubts: tuple[str, ...] = ()
