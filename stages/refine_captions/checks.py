"""What speaks against the captions of a group: doubts for people, and what is plainly no use."""

from collections.abc import Iterator
from typing import NamedTuple

from schemas.caption_contrast import caption_name, image_letter, not_told_apart
from schemas.proposals import CaptionGroup
from schemas.records import Rejection
from schemas.refinement_request import StyleLimits
from stages.answer_texts import shown
from stages.refine_captions.style import style_doubts
from stages.refine_captions.wording import doubtful_phrases, refused_phrase, same_captions

STAGE = "check_group"
VERSION = "1"

_LIMITS = StyleLimits()


class GroupCheck(NamedTuple):
    """What speaks against a group.

    Attributes:
        doubts: sentences for people, the first captions first; `CaptionGroup.doubts`.
        unusable: captions with which the group cannot be released, whoever accepted it: they speak
            of another image, or two images have the same. The context has `caption` (A1 is the
            first caption of the anchor), `row` and `column`, both from 0.
    """

    doubts: tuple[str, ...]
    unusable: tuple[Rejection, ...]


def check_group(group: CaptionGroup, limits: StyleLimits = _LIMITS) -> GroupCheck:
    """What the words of a group's captions tell against it.

    Captions are held against the coarse caption that they were made from and against those of the
    other images that were made from the same. What the images show is not looked at: see
    `two_way_check`.
    """
    return GroupCheck(
        doubts=(*_wording_doubts(group, limits), *_contrast_doubts(group), *_repeated(group)),
        unusable=(*_of_other_images(group), *_same_for_two(group)),
    )


def _cells(group: CaptionGroup) -> Iterator[tuple[int, int, str, str]]:
    """Row, column, coarse and fine caption of each."""
    for row, coarse in enumerate(group.coarse_captions):
        for column, member in enumerate(group.members):
            yield row, column, coarse, member.captions[row]


def _wording_doubts(group: CaptionGroup, limits: StyleLimits) -> Iterator[str]:
    for row, column, coarse, fine in _cells(group):
        name = f"Caption {caption_name(row, column)}"
        for phrase in doubtful_phrases(fine, coarse):
            yield f"{name} {phrase.kind}: {shown(phrase.text)}."
        for doubt in style_doubts(fine, coarse, limits):
            yield f"{name} {doubt}."


def _contrast_doubts(group: CaptionGroup) -> Iterator[str]:
    differences = [member.difference for member in group.members]
    for row in range(len(group.coarse_captions)):
        captions = [member.captions[row] for member in group.members]
        for column, others in enumerate(not_told_apart(captions, differences)):
            if others:
                name, letters = caption_name(row, column), " and ".join(map(image_letter, others))
                yield f"Caption {name} says nothing that tells it from {letters}."


def _repeated(group: CaptionGroup) -> Iterator[str]:
    """Captions of one image that say the same."""
    for column, member in enumerate(group.members):
        for first, second in same_captions(member.captions):
            names = caption_name(first, column), caption_name(second, column)
            yield f"Captions {names[0]} and {names[1]} say the same."


def _of_other_images(group: CaptionGroup) -> Iterator[Rejection]:
    for row, column, coarse, fine in _cells(group):
        if (phrase := refused_phrase(fine, coarse)) is not None:
            detail = f"speaks of another image: {shown(phrase.text)}."
            yield _unusable("speaks_of_other_image", row, column, detail, fine)


def _same_for_two(group: CaptionGroup) -> Iterator[Rejection]:
    cells = list(_cells(group))
    for first, second in same_captions([fine for _, _, _, fine in cells]):
        (one, column, _, _), (row, other, _, fine) = cells[first], cells[second]
        if column != other:
            detail = f"says what {caption_name(one, column)} says of another image."
            yield _unusable("same_captions", row, other, detail, fine)


def _unusable(reason: str, row: int, column: int, detail: str, text: str) -> Rejection:
    name = caption_name(row, column)
    return Rejection(
        stage=STAGE,
        reason=reason,
        detail=f"Caption {name} {detail}",
        context={"caption": name, "row": row, "column": column, "text": text},
    )
