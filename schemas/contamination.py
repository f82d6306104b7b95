"""What a release shares with the datasets that it was compared with."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from schemas.base import Record
from schemas.records import Split

ContaminationMeasure = Literal["file", "perceptual_hash", "video", "identity", "caption"]
OtherKind = Literal["release", "dataset", "folder"]
MEASURES: tuple[ContaminationMeasure, ...] = get_args(ContaminationMeasure)
SEARCHED_BITS = 10
"""Perceptual hashes that differ in more bits always count as different images."""
_HexSha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Count = Annotated[int, Field(ge=0)]


class ContaminationLimits(Record):
    """How near an image must be to one of another dataset to count as the same.

    Attributes:
        hash_bits: maximum number of differing bits of perceptual hashes (64 bits).
    """

    hash_bits: int = Field(default=6, ge=0, le=SEARCHED_BITS)


class SharedPair(Record):
    """An item of the release and the nearest item of the other dataset.

    Attributes:
        split: the split of the image of the release; None if it has none.
        first: the file of the image of the release.
        second: the name of the other dataset's image or, for `video`, its video.
        distance: the number of bits that differ; 0 for equal values.
        value: the compared value of the other dataset: the SHA-256 of a file or video, a hash of 16
            hex digits, source and name of an identity, or the words of a caption.
    """

    split: Split | None
    first: str
    second: str
    distance: int = Field(ge=0)
    value: str


class SharedSplit(Record):
    """The compared items of one split, and how many of them are in the other dataset.

    Attributes:
        split: the split; None if the release has none.
        compared: the number of images or captions of the release that have a value.
        leaks: how many of them are within the threshold of any item of the other dataset.
        within: the same number for several thresholds.
    """

    split: Split | None
    compared: _Count
    leaks: _Count
    within: tuple[tuple[int, int], ...]


class SharedMeasure(Record):
    """The comparison of all images (or captions) with the other dataset, by one measure.

    Attributes:
        measure: the compared value: the digest of the file, the perceptual hash (distance in bits),
            the digest of the video that an image was cut from, the identity within sources that
            both name, or the words of a caption, ignoring letter case and white space.
        computed_by: the algorithm of the values.
        threshold: the largest distance that counts as a leak; 0 for exact measures.
        theirs: the number of images, videos or captions of the other dataset that have a value.
        splits: the results for each split of the release.
        nearest: the nearest pairs, nearest first.
    """

    measure: ContaminationMeasure
    computed_by: str
    threshold: _Count
    theirs: _Count
    splits: tuple[SharedSplit, ...]
    nearest: tuple[SharedPair, ...]

    @property
    def leaks(self) -> int:
        """The number of leaking images or captions of the release."""
        return sum(one.leaks for one in self.splits)


class Contamination(Record):
    """The comparison of a release with one other dataset, by every measure that both have.

    Attributes:
        name: the name of the other dataset.
        other: whether it is a release, a dataset of the store, or a folder of images.
        release_id: its id, if it is a release.
        content_sha256: the digest of its compared content.
        images: its number of images.
        captions: its number of captions.
        unreadable: how many of its images have no perceptual hash, because they are damaged,
            missing or changed.
        unreadable_files: the first of these by name.
        sources: the sources of identities that both datasets name.
        measures: the results by measure.
    """

    name: str = Field(pattern=r"\S")
    other: OtherKind
    release_id: _HexSha256 | None = None
    content_sha256: _HexSha256
    images: _Count
    captions: _Count
    unreadable: _Count = 0
    unreadable_files: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    measures: tuple[SharedMeasure, ...]

    @property
    def leaks(self) -> tuple[SharedMeasure, ...]:
        """The measures that found a leak."""
        return tuple(one for one in self.measures if one.leaks)
