"""The samples of a contrastive benchmark (CCD): which image differs from which anchor, and in what.

A group is an anchor, the original image, and its contrastive images, each of which differs from the
anchor in one detail of a known type. Two contrastive images of a group differ in two details, so
they make no contrastive pair; the authors' evaluation does not compare them either.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval.embeddings import Ids
from schemas.errors import FormatError
from schemas.taxonomy import DifferenceType

CAPTIONS = 5
"""Captions of each image; row 5·i + j of the texts is caption j of image i."""

_FIELDS = ("image", "group", "contrastive_type")


@dataclass(frozen=True)
class ContrastiveSamples:
    """Samples in the order of the image embeddings' rows.

    Attributes:
        images: their names, each another.
        anchors: for each the index of its group's anchor, which is its own index for an anchor.
        differences: for each the type of its one difference; None for an anchor.
    """

    images: tuple[str, ...]
    anchors: Ids
    differences: tuple[DifferenceType | None, ...]

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def is_original(self) -> NDArray[np.bool_]:
        """Whether a sample is an anchor, of shape (n,)."""
        found: NDArray[np.bool_] = self.anchors == np.arange(len(self))
        return found

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
    if not isinstance(listed, list) or not listed:
        raise FormatError(f"{name} must be a list of at least one sample; got {_shown(listed)}")
    samples = [_fields(sample, f"{name}: sample {at}") for at, sample in enumerate(listed)]
    images = tuple(image for image, _, _ in samples)
    _refuse_twice(images, name)
    differences = tuple(
        _difference(one, f"{name}: sample {at}") for at, (_, _, one) in enumerate(samples)
    )
    groups = [group for _, group, _ in samples]
    anchors = _anchors(groups, differences, name)
    return ContrastiveSamples(images, np.array([anchors[group] for group in groups]), differences)


def _fields(sample: object, where: str) -> tuple[str, str, object]:
    if not isinstance(sample, dict):
        raise FormatError(f"{where} (from 0) must be an object; got {_shown(sample)}")
    missing = [field for field in _FIELDS if field not in sample]
    if missing:
        raise FormatError(
            f"{where} (from 0) must have {', '.join(_FIELDS)}; {missing[0]!r} is missing"
        )
    for field in ("image", "group"):
        if not isinstance(sample[field], str) or not sample[field]:
            raise FormatError(
                f"{where} (from 0): {field!r} must be a name; got {_shown(sample[field])}"
            )
    return sample["image"], sample["group"], sample["contrastive_type"]


def _difference(value: object, where: str) -> DifferenceType | None:
    """The type, by one of its spellings."""
    if value is None:
        return None
    try:
        return DifferenceType(str(value))
    except ValueError:
        known = [str(one) for one in DifferenceType]
        near = difflib.get_close_matches(str(value).title(), known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
        raise FormatError(
            f"{where} (from 0): 'contrastive_type' must be null or a type; "
            f"got {_shown(value)}; {hint}"
        ) from None


def _refuse_twice(images: Sequence[str], name: str) -> None:
    first: dict[str, int] = {}
    for at, image in enumerate(images):
        if first.setdefault(image, at) != at:
            raise FormatError(
                f"{name} must list each image once; {image!r} is sample {first[image]} and "
                f"sample {at} (from 0)"
            )


def _anchors(
    groups: Sequence[str], differences: Sequence[DifferenceType | None], name: str
) -> dict[str, int]:
    """The index of each group's anchor."""
    anchors: dict[str, int] = {}
    for at, (group, difference) in enumerate(zip(groups, differences, strict=True)):
        if difference is None and anchors.setdefault(group, at) != at:
            raise FormatError(
                f"{name}: group {group!r} must have one sample of 'contrastive_type' null, its "
                f"anchor; samples {anchors[group]} and {at} (from 0) are both"
            )
    for at, group in enumerate(groups):
        if group not in anchors:
            raise FormatError(
                f"{name}: group {group!r} of sample {at} (from 0) has no anchor; wanted one sample "
                f"of the group with 'contrastive_type' null"
            )
    return anchors


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
