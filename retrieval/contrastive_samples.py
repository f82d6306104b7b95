"""The samples of a contrastive benchmark (CCD): which image differs from which anchor, and in what.

A group is an anchor, the original image, and its contrastive images, each of which differs from the
anchor in one detail of a known type. Two contrastive images of a group differ in two details, so
they make no contrastive pair; the authors' evaluation does not compare them either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from retrieval.embeddings import Ids
from retrieval.sample_list import kind_or_none, listed_objects, names_in, place, refuse_twice
from schemas.errors import FormatError
from schemas.taxonomy import DifferenceType

CAPTIONS = 5
"""Captions of each image, unless others are told; then row 5·i + j is caption j of image i."""

_TYPE = "contrastive_type"


@dataclass(frozen=True)
class ContrastiveSamples:
    """Samples in the order of the image embeddings' rows.

    Attributes:
        images: their names, each another.
        anchors: for each the index of its group's anchor, which is its own index for an anchor.
        differences: for each the type of its one difference; None for an anchor.
        counts: for each the number of its captions, of shape (n,); None where all have five. The
            texts stand image by image.
    """

    images: tuple[str, ...]
    anchors: Ids
    differences: tuple[DifferenceType | None, ...]
    counts: Ids | None = None

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def is_original(self) -> NDArray[np.bool_]:
        """Whether a sample is an anchor, of shape (n,)."""
        found: NDArray[np.bool_] = self.anchors == np.arange(len(self))
        return found

    @cached_property
    def caption_counts(self) -> Ids:
        """How many captions each sample has, of shape (n,)."""
        return np.full(len(self), CAPTIONS) if self.counts is None else self.counts

    @cached_property
    def first_text(self) -> Ids:
        """For each sample the index of its first text, of shape (n,)."""
        first: Ids = np.cumsum(self.caption_counts) - self.caption_counts
        return first

    @cached_property
    def image_of_text(self) -> Ids:
        """For each text the index of its image, of shape (m,): 5n where all have five."""
        return np.repeat(np.arange(len(self)), self.caption_counts)

    @cached_property
    def contrastive(self) -> Ids:
        """The indices of the contrastive samples; each makes a pair with its anchor."""
        return np.flatnonzero(~self.is_original)

    @cached_property
    def pair_differences(self) -> list[DifferenceType]:
        """The type of each pair, in the order of `contrastive`."""
        return [one for one in self.differences if one is not None]


def contrastive_samples(listed: object, name: str) -> ContrastiveSamples:
    """The samples of a list of `{"image", "group", "contrastive_type"}`, checked.

    The type is None for the one anchor of each group. Fields beside these are left alone; `name` is
    what to call the list in messages.

    Raises:
        FormatError: the list is none or empty, a sample lacks a field or has a wrong one, an image
            is listed twice, a type is unknown, or a group has no anchor or two.
    """
    samples = listed_objects(listed, ("image", "group", _TYPE), name)
    images, groups = names_in(samples, "image", name), names_in(samples, "group", name)
    refuse_twice(images, name)
    differences = tuple(
        kind_or_none(DifferenceType, sample, _TYPE, name, at) for at, sample in enumerate(samples)
    )
    anchors = _anchors(groups, differences, name)
    anchor_of_sample = np.array([anchors[group] for group in groups])
    return ContrastiveSamples(tuple(images), anchor_of_sample, differences)


def _anchors(
    groups: Sequence[str], differences: Sequence[DifferenceType | None], name: str
) -> dict[str, int]:
    """The index of each group's anchor."""
    anchors: dict[str, int] = {}
    for at, (group, difference) in enumerate(zip(groups, differences, strict=True)):
        if difference is None and anchors.setdefault(group, at) != at:
            raise FormatError(
                f"{name}: group {group!r} must have one sample of {_TYPE!r} null, its anchor; "
                f"samples {anchors[group]} and {at} (from 0) are both"
            )
    for at, group in enumerate(groups):
        if group not in anchors:
            raise FormatError(
                f"{place(name, at)}: its group {group!r} has no anchor; "
                f"wanted one sample of the group with {_TYPE!r} null"
            )
    return anchors
