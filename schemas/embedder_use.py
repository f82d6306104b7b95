"""Which models chose and validated what stands in a benchmark, by comparing images and texts."""

from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.base import Record

EmbedderPurpose = Literal[
    "validated_captions", "similar_images", "confusing_captions", "candidates"
]


class EmbedderUse(Record):
    """What an embedder decided of what stands in a release.

    Who measures that model, or one that was trained like it, must know: it chose the very rows.

    Attributes:
        embedder: the model, `name@revision`.
        purpose: `validated_captions` were measured by how well they tell their image from others,
            `similar_images` were chosen for being like an image that was there,
            `confusing_captions` were held against both images of a pair, and `candidates` are
            neighbours of images with captions.
        count: how many captions or images that is.
        settings: what it was done with: `k`, `eta`, `temperature` and `rounds`, `margin`, or
            `neighbours` and `near_duplicates`.
    """

    embedder: Annotated[str, Field(pattern=r"\S")]
    purpose: EmbedderPurpose
    count: Annotated[int, Field(ge=1)]
    settings: dict[str, Any] = Field(default_factory=dict)
