"""Writes contrastive strategies for an image, of what it has seen done to it."""

from collections.abc import Iterator
from itertools import zip_longest

import numpy as np
from PIL import Image

from models.builtin.contrasts.inserting import closed
from models.builtin.contrasts.proposing import photograph_proposals, proposals
from models.builtin.contrasts.telling_apart import made_true, told_apart
from models.builtin.contrasts.wording import GREY_PHOTOGRAPH, PHOTOGRAPH, unseen_difference, worded
from models.builtin.drawing.draws import Draws
from models.builtin.editor.canvas import UneditableError
from models.builtin.editor.changes import Change, Darken, Rain
from models.builtin.editor.grammar import say
from models.builtin.editor.making import Workplace
from models.builtin.editor.restyling import is_coloured
from models.builtin.stills.saying import Content, content_of_image
from models.builtin.stills.seeing import see_still
from schemas.strategy_request import (
    CAPTION_FIELD,
    DETAIL_FIELD,
    INSTRUCTION_FIELD,
    PLAN_FIELD,
    TYPE_FIELD,
    StrategyBrief,
)
from schemas.taxonomy import DifferenceType

_RARE = (DifferenceType.ENTITY_RELATION, DifferenceType.EVENT_TYPE)
_BRIGHT = 70.0  # of 255, on the mean: what is darker is dim already


def strategies(image: Image.Image, brief: StrategyBrief, seed: str) -> list[dict[str, str]]:
    """Up to `brief.count` strategies, of different types first."""
    draws = Draws("strategies", seed)
    workplace = Workplace(image)
    content = workplace.content
    found = photograph_proposals(draws) if content is None else proposals(content, draws)
    written: list[dict[str, str]] = []
    kinds = _in_turn(list(found), draws)
    rest: list[Iterator[dict[str, str]]] = []
    for kind in kinds:
        if len(written) == brief.count:
            break
        possible = _written(image, workplace, brief.caption, found[kind])
        if (first := next(possible, None)) is not None:
            written.append(first)
            rest.append(possible)
    if len(written) < min(3, brief.count):
        second = (one for row in zip_longest(*rest) for one in row if one is not None)
        for one in second:
            if len(written) == min(3, brief.count):
                break
            written.append(one)
    return written


def _in_turn(kinds: list[DifferenceType], draws: Draws) -> list[DifferenceType]:
    """The rare types first, then the others, of which another one begins each time."""
    rare = [kind for kind in kinds if kind in _RARE]
    others = [kind for kind in kinds if kind not in _RARE]
    turn = others.index(draws.pick(others)) if others else 0
    return rare + others[turn:] + others[:turn]


def _written(
    image: Image.Image, workplace: Workplace, caption: str, changes: list[Change]
) -> Iterator[dict[str, str]]:
    """A strategy for each change that can be made and said."""
    style = _style(workplace.content, image)
    for change in changes:
        if isinstance(change, Darken) and _light(image) < _BRIGHT:
            continue
        try:
            changed = workplace.changed(change, 0).image
        except UneditableError:
            continue
        wording = worded(change, style)
        text = _caption(caption, change, workplace.content, changed)
        if wording is None or text is None:
            continue
        yield {
            DETAIL_FIELD: wording.detail,
            TYPE_FIELD: wording.difference.value,
            PLAN_FIELD: wording.plan,
            CAPTION_FIELD: text,
            INSTRUCTION_FIELD: say(change),
        }


def _caption(
    caption: str, change: Change, before: Content | None, changed: Image.Image
) -> str | None:
    """The caption as it is true of the changed image and of no other."""
    if before is None or isinstance(change, Rain | Darken):
        wording = worded(change)
        unseen = unseen_difference(wording.plan) if wording else None
        return closed(caption, unseen.sibling) if unseen else None
    after = content_of_image(see_still(changed))
    text = made_true(caption, after)
    return told_apart(text, after, [before]) if text is not None else None


def _style(content: Content | None, image: Image.Image) -> str:
    """What the picture is called as it is."""
    if content is not None and content.style:
        return content.style
    return PHOTOGRAPH if is_coloured(np.asarray(image, np.float32)) else GREY_PHOTOGRAPH


def _light(image: Image.Image) -> float:
    from PIL import ImageStat

    return float(ImageStat.Stat(image.convert("L")).mean[0])
