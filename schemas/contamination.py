"""What a release shares with the datasets that it was compared with."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from schemas.base import Record
from schemas.records import Split

ContaminationMeasure = Literal["file", "perceptual_hash", "video", "identity", "caption"]
OtherKind = Literal["release", "dataset", "folder"]
MEASURES: tuple[ContaminationMeasure, ...] = get_args(ContaminationMeasure)
SEARCHED_BITS = 10
"""Perceptual hashes that differ in more bits count as different images."""
_HexSha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Count = Annotated[int, Field(ge=0)]


class ContaminationLimits(Record):
    """How near an image must be to one of another dataset to count as the same.

    Attributes:
        hash_bits: perceptual hashes (64 bits) that differ in no more bits than this.
    """

    hash_bits: int = Field(default=6, ge=0, le=SEARCHED_BITS)


class SharedPair(Record):
    """Something of the release and what is nearest to it in the other dataset.

    Attributes:
        split: that of ours; None where it has none.
        first: the file of our image.
        second: what the other dataset calls its image or, by `video`, its video.
        distance: bits that differ; 0 for what is equal.
        value: what theirs was compared by: the SHA-256 of a file or video, 16 hex digits of a hash,
            the name of an identity after that of its source, or the words of a caption.
    """

    split: Split | None
    first: str
    second: str
    distance: int = Field(ge=0)
    value: str


class SharedSplit(Record):
    """What of one split was compared, and how much of that is in the other dataset.

    Attributes:
        split: which; None where ours has none.
        compared: how many of our images, or captions, have a value.
        leaks: how many of these are no farther than the threshold from anything of theirs.
        within: for each of several thresholds how many are no farther than that.
    """

    split: Split | None
    compared: _Count
    leaks: _Count
    within: tuple[tuple[int, int], ...]


class SharedMeasure(Record):
    """All our images (or captions) compared with all of theirs, by one measure.

    Attributes:
        measure: what was compared: the digest of the file, the perceptual hash (distance in bits),
            the digest of the video that it was cut out of, the identity within sources that both
            name, or the words of a caption, letter case and white space aside.
        computed_by: what made the values.
        threshold: what is no farther apart than this is a leak; 0 where only equal values are.
        theirs: how many images, videos or captions of theirs have a value.
        splits: what was found, for each split of ours.
        nearest: for the few of ours that are nearest what they are near to, the nearest first.
    """

    measure: ContaminationMeasure
    computed_by: str
    threshold: _Count
    theirs: _Count
    splits: tuple[SharedSplit, ...]
    nearest: tuple[SharedPair, ...]

    @property
    def leaks(self) -> int:
        """How many of our images, or captions, leak."""
        return sum(one.leaks for one in self.splits)


class Contamination(Record):
    """A release compared with one other dataset, by every measure that both have.

    Attributes:
        name: what the other is called.
        other: whether it is a release, a dataset of the store, or a folder of images.
        release_id: its id, if it is a release.
        content_sha256: the digest of what was compared of it.
        images: how many images it has.
        captions: how many captions.
        unreadable: how many of its images could not be compared by what they look like: they are
            damaged, missing, or other than they should be.
        unreadable_files: the first of these by name.
        sources: the sources that its identities are named in, of those that ours names too.
        measures: what was compared.
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
        """The measures by which anything leaks."""
        return tuple(one for one in self.measures if one.leaks)
