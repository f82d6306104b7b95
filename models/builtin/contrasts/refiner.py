"""Writes one fine caption for each image of a group, which tells it from all the others."""

from typing import NamedTuple

from PIL import Image

from models.builtin.contrasts.inserting import closed
from models.builtin.contrasts.telling_apart import (
    detailed,
    made_true,
    told_apart,
)
from models.builtin.contrasts.wording import Unseen, unseen_difference
from models.builtin.stills.saying import Content, content_of_image
from models.builtin.stills.seeing import see_still
from schemas.errors import FormatError
from schemas.refinement_request import RefinementBrief

_MORE_DETAILS = 2


class _Member(NamedTuple):
    """An image of the group: what is seen, and what the brief says that is not seen."""

    content: Content
    aspect: str | None = None
    phrase: str = ""
    anchor_phrase: str = ""


def fine_captions(images: list[Image.Image], brief: RefinementBrief) -> list[str] | None:
    """A caption for each image; None where two of them cannot be told apart.

    Where nothing is seen in the anchor, what the brief says of an image counts, not what seems to
    be in it.

    Raises:
        FormatError: the brief tells of another number of images.
    """
    if len(images) != brief.images:
        raise FormatError(f"the brief tells of {brief.images} images; got {len(images)}")
    told: list[Unseen | None] = [None, *map(unseen_difference, brief.differences)]
    seen = [content_of_image(see_still(image)) for image in images]
    members = [
        _member(seen[0] if seen[0].style is None and unseen else content, unseen)
        for content, unseen in zip(seen, told, strict=True)
    ]
    captions = [_fine(brief.caption, members, place) for place in range(len(members))]
    found = [caption for caption in captions if caption is not None]
    return found if len(set(found)) == len(images) else None


def _member(content: Content, unseen: Unseen | None) -> _Member:
    if unseen is None:
        return _Member(content)
    return _Member(content, unseen.aspect, unseen.sibling, unseen.anchor)


def _fine(caption: str, members: list[_Member], place: int) -> str | None:
    """The caption as it is true of one member and of no other."""
    me = members[place]
    others = [one for number, one in enumerate(members) if number != place]
    alike = [one for one in others if _looks_like(one.content, me.content)]
    unlike = [one.content for one in others if one not in alike]
    phrases = _phrases(me, alike, is_anchor=place == 0)
    if phrases is None:
        return None
    if not me.content.groups:
        return closed(caption, "".join(phrases)) if phrases and not unlike else None
    text = made_true(caption, me.content)
    if text is None:
        return None
    text = closed(detailed(text, me.content, _MORE_DETAILS), "".join(phrases))
    return told_apart(text, me.content, unlike)


def _phrases(me: _Member, alike: list[_Member], *, is_anchor: bool) -> list[str] | None:
    """What the brief says that tells a member from those that look like it; None if not enough."""
    if not alike:
        return []
    if is_anchor:
        if any(one.aspect is None for one in alike):
            return None
        return list(dict.fromkeys(one.anchor_phrase for one in alike))
    if me.aspect is None or any(one.phrase == me.phrase for one in alike):
        return None
    return [me.phrase]


def _looks_like(one: Content, two: Content) -> bool:
    return one._replace(groups=()) == two._replace(groups=()) and sorted(
        (group.kind, group.colour or "", group.number or 0) for group in one.groups
    ) == sorted((group.kind, group.colour or "", group.number or 0) for group in two.groups)
