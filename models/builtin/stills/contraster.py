"""A strategist and refiner of contrastive benchmarks that reads the code of drawn stills."""

import hashlib
import io
import json
import random
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

import numpy as np
from PIL import Image

from models.builtin.chat import BuiltinChatModel
from models.builtin.stills.drawing import BLACK_AND_WHITE
from models.builtin.stills.editor import (
    ASPECTS,
    Change,
    UneditableError,
    changed_scene,
    filled,
    is_coloured,
    say_change,
)
from models.builtin.stills.scene import (
    ACTIONS,
    COLOURS,
    KINDS,
    PLACES,
    STYLES,
    THINGS,
    WORDS,
    Scene,
    read_scene,
)
from models.builtin.stills.text import Content, content_of, distinguished
from models.embedding import plain_picture
from schemas.chat import ChatRequest
from schemas.errors import FormatError
from schemas.profile import BuiltinContraster
from schemas.requests import (
    CAPTION_FIELD,
    CAPTIONS_FIELD,
    DETAIL_FIELD,
    INSTRUCTION_FIELD,
    PLAN_FIELD,
    REFINEMENT_PURPOSE,
    STRATEGIES_FIELD,
    STRATEGY_PURPOSE,
    TYPE_FIELD,
    RefinementBrief,
    StrategyBrief,
)
from schemas.requests import REFINEMENT_REQUEST_REPAIR_PURPOSE as REPAIR_CAPTIONS
from schemas.requests import REPAIR_PURPOSE as REPAIR_STRATEGIES
from schemas.taxonomy import DifferenceType

# The built-in strategist and refiner.


class StillsContraster(BuiltinChatModel[BuiltinContraster]):
    """Proposes contrastive strategies, and refines the captions of a group.

    It reads the brief in a request's `subject` (`schemas.requests`), not the prompt, and the scenes
    of drawn stills from the strip along their lower edge. Of stills it proposes what the built-in
    editor can do; of photographs, which it knows nothing of, only another style, or dim light. It
    writes English alone. A repair has the answer of the first request.
    """

    def text_for(self, request: ChatRequest) -> str:
        """The strategies or captions, as JSON."""
        return json.dumps(self._said(request), ensure_ascii=False)

    def _said(self, request: ChatRequest) -> dict[str, Any]:
        if request.purpose in (STRATEGY_PURPOSE, REPAIR_STRATEGIES):
            return {STRATEGIES_FIELD: _strategies(request)}
        if request.purpose in (REFINEMENT_PURPOSE, REPAIR_CAPTIONS):
            return {CAPTIONS_FIELD: _captions(request)}
        raise FormatError(
            f"{self.ref} proposes strategies and refines captions; got a request for "
            f"{request.purpose!r}"
        )


def _strategies(request: ChatRequest) -> list[dict[str, str]]:
    brief = StrategyBrief.parse(request.subject)
    if len(request.images) != 1:
        raise FormatError(f"strategies are made of one image; got {len(request.images)}")
    image = request.images[0].data
    chance = random.Random(hashlib.blake2b(image, digest_size=16).hexdigest())  # noqa: S311
    found = strategies(_picture(image), brief, chance)
    if not found:
        raise FormatError("nothing in the image can be changed")
    return found


def _captions(request: ChatRequest) -> list[str]:
    brief = RefinementBrief.parse(request.subject)
    if brief.second_language is not None:
        raise FormatError(
            f"captions are written in English only; got a request for {brief.second_language!r}"
        )
    found = fine_captions([_picture(image.data) for image in request.images], brief)
    if found is None:
        raise FormatError("the images cannot be distinguished by what is known of them")
    return found


def _picture(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(data)) as picture:
        return plain_picture(picture)


# Proposes strategies.

T = TypeVar("T")

_RARE = (DifferenceType.ENTITY_RELATION, DifferenceType.EVENT_TYPE)
_TRIED = 6  # of an aspect
_ENOUGH = 3
_BRIGHT = 70.0  # of 255, on the mean: what is darker is dim already


def strategies(
    image: Image.Image, brief: StrategyBrief, chance: random.Random
) -> list[dict[str, str]]:
    """Up to `brief.count` strategies of different types; more of the same where these are few."""
    scene = read_scene(image)
    if scene is None:
        changes = _photograph_changes(image)
    else:
        changes = [
            change
            for proposed in _changes(content_of(scene)).values()
            for change in _shuffled(proposed, chance)[:_TRIED]
        ]
    types = _in_turn([ASPECTS[change.aspect].difference for change in changes], chance)
    possible = [
        _written(
            brief.caption,
            scene,
            [one for one in changes if ASPECTS[one.aspect].difference is difference],
        )
        for difference in types
    ]
    rounds = zip_longest(*possible)
    first = [one for one in next(rounds, ()) if one is not None][: brief.count]
    further = (one for row in rounds for one in row if one is not None)
    while len(first) < min(_ENOUGH, brief.count) and (one := next(further, None)) is not None:
        first.append(one)
    return first


def _photograph_changes(image: Image.Image) -> list[Change]:
    """What can be done to a picture of which nothing is known."""
    old = "colour picture" if is_coloured(image) else BLACK_AND_WHITE
    manners = ("pencil sketch", BLACK_AND_WHITE)
    changes = [Change("style", manner, old) for manner in manners if manner != old]
    bright = float(np.asarray(image.convert("L")).mean()) >= _BRIGHT
    return [*changes, *([Change("light", "dim", "bright")] if bright else [])]


def _changes(content: Content) -> dict[str, list[Change]]:
    """What might be changed in a still, by aspect."""
    found: dict[str, list[Change]] = {aspect: [] for aspect in ASPECTS}
    there = [group.kind for group in content.groups]
    lone = [one for one in content.groups if one.kind in THINGS and there.count(one.kind) == 1]
    for kind, colour, number, _ in lone:
        many = (number or 1) > 1
        what, colour = KINDS[kind].plural if many else kind, colour or ""
        found["colour"] += [
            Change("colour", new, colour, what) for new in KINDS[kind].colours if new != colour
        ]
        found["kind"] += [
            Change("kind", KINDS[new].plural if many else new, "", what, colour)
            for new in THINGS
            if new not in there
            and colour in KINDS[new].colours
            and KINDS[new].flies == KINDS[kind].flies
        ]
    worn = dict(content.clothes)
    for garment, colour in content.clothes:
        found["colour"] += [
            Change("colour", new, colour, garment) for new in COLOURS if new not in worn.values()
        ]
    single = {one.kind: one.colour or "" for one in lone if one.number == 1}
    for one, relation, two in content.relations:
        if one in single and two in single:
            sides = ("right",) if relation == "left" else ("left", "right")
            found["side"] += [
                Change("side", side, "", one, single[one], two, single[two]) for side in sides
            ]
    for aspect, now, options in (
        ("word", content.word, WORDS),
        ("action", content.action, ACTIONS),
        ("place", content.place, PLACES),
        ("style", content.style if content.style == STYLES[0] else None, STYLES),
    ):
        found[aspect] += [Change(aspect, new, now) for new in options if now and new != now]
    return found


def _in_turn(types: list[DifferenceType], chance: random.Random) -> list[DifferenceType]:
    """Each type once, the rare ones first; of the others another one begins each time."""
    rare = [one for one in dict.fromkeys(types) if one in _RARE]
    others = [one for one in dict.fromkeys(types) if one not in _RARE]
    turn = chance.randrange(len(others)) if others else 0
    return rare + others[turn:] + others[:turn]


def _shuffled(items: list[T], chance: random.Random) -> list[T]:
    return chance.sample(items, len(items))


def _written(caption: str, scene: Scene | None, changes: list[Change]) -> Iterator[dict[str, str]]:
    """A strategy for each change that can be made and said."""
    for change in changes:
        about = ASPECTS[change.aspect]
        plan = filled(about.plan, change)
        text = _contrastive(caption, scene, change, plan)
        if text is not None:
            yield {
                DETAIL_FIELD: filled(about.detail, change),
                TYPE_FIELD: about.difference.value,
                PLAN_FIELD: plan,
                CAPTION_FIELD: text,
                INSTRUCTION_FIELD: say_change(change),
            }


def _contrastive(caption: str, scene: Scene | None, change: Change, plan: str) -> str | None:
    """The caption as it is true of the changed image and not of the image."""
    if scene is None:
        stated = stated_difference(plan)
        return closed(caption, stated.sibling) if stated else None
    try:
        after = changed_scene(scene, change)
    except UneditableError:
        return None
    return distinguished(caption, content_of(after), [content_of(scene)])


# Writes one fine caption for each image of a group, which tells it from all the others.

_FURTHER_DETAILS = 2
_PLAN = re.compile(r"\bThe (style|light) changes from (.+) to (.+?)\.?$")
_PHRASES = {"style": ", shown as {}", "light": " in {} light"}


class Stated(NamedTuple):
    """What a plan says of an anchor and its sibling, as phrases that end a caption."""

    anchor: str
    sibling: str


def stated_difference(plan: str) -> Stated | None:
    """What a plan says of style or light; None where it is of something else."""
    found = _PLAN.search(plan)
    if found is None:
        return None
    phrase = _PHRASES[found[1]]
    return Stated(phrase.format(found[2]), phrase.format(found[3]))


def closed(text: str, addition: str) -> str:
    """`text` with something added before its full stop, if it has one."""
    stem = text.rstrip(" .")
    return f"{stem}{addition}{text[len(stem) :].strip()}"


def fine_captions(images: list[Image.Image], brief: RefinementBrief) -> list[str] | None:
    """A caption for each image; None where two of them cannot be distinguished.

    Where the anchor is no drawn still, only what the brief says of style and light counts.

    Raises:
        FormatError: the brief describes another number of images.
    """
    if len(images) != brief.images:
        raise FormatError(f"the brief describes {brief.images} images; got {len(images)}")
    scenes = [read_scene(image) for image in images]
    if scenes[0] is None:
        found = _stated_captions(brief)
    else:
        contents = [content_of(scene) for scene in scenes if scene is not None]
        if len(contents) < len(scenes):
            return None
        found = [
            distinguished(
                brief.caption, one, contents[:place] + contents[place + 1 :], _FURTHER_DETAILS
            )
            for place, one in enumerate(contents)
        ]
    captions = [caption for caption in found if caption is not None]
    return captions if len(set(captions)) == len(images) else None


def _stated_captions(brief: RefinementBrief) -> list[str | None]:
    """The caption with what the plans say of the anchor, and of each of the others."""
    stated = [stated_difference(plan) for plan in brief.differences]
    anchor = "".join(dict.fromkeys(one.anchor for one in stated if one))
    siblings = (closed(brief.caption, one.sibling) if one else None for one in stated)
    return [closed(brief.caption, anchor), *siblings]
