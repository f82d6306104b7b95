"""How the images of a release are written: as they are stored, or all by one encoder."""

from typing import Annotated, Literal

from pydantic import Field

from loupe.schemas.base import NonBlank, Record

ENCODER_VERSION: Literal[1] = 1
"""The version of `loupe.release.format.encoding`, increased when its pixels or bytes change."""

Subsampling = Literal["4:4:4", "4:2:0"]


class ImageEncoder(Record):
    """One encoder for all images of a release, so that files and pixels do not tell them apart.

    Images become upright RGB, are resampled if `round_trip` is set, and are written as JPEG without
    any metadata.

    Attributes:
        quality: the quality of JPEG.
        subsampling: the subsampling of chroma.
        round_trip: scale every image that no editor has made to a megapixel (sides in multiples of
            32) and back, as editors such as Qwen-Image-Edit do with every image, and give the
            images of a group one area: that of the smallest.
    """

    quality: Annotated[int, Field(ge=50, le=100)] = 90
    subsampling: Subsampling = "4:2:0"
    round_trip: bool = False


ReleasedImages = Literal["stored"] | ImageEncoder
"""Images as they are stored, or all by one encoder."""


class ImageEncoding(ImageEncoder):
    """The encoder that wrote the images of a release, and what else decides their bytes.

    Attributes:
        version: the version of the encoder.
        libraries: the libraries that resampled and compressed, with their versions. Both work with
            integers, so that the bytes do not depend on the machine.
    """

    version: Literal[1] = ENCODER_VERSION
    libraries: NonBlank

    @property
    def name(self) -> str:
        """The encoder and its version, such as `loupe-images@1`."""
        return f"loupe-images@{self.version}"
