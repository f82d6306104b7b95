"""A strategist and refiner of contrastive benchmarks that reads the code of drawn stills."""

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from loupe.demo.stills.drawing import BLACK_AND_WHITE
from loupe.demo.stills.editor import (
    ASPECTS,
    Change,
    UneditableError,
    changed_scene,
    filled,
    is_coloured,
    say_change,
)
from loupe.demo.stills.scene import (
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
from loupe.demo.stills.text import Content, content_of, distinguished
from loupe.schemas.profile import BuiltinContraster
from loupe.schemas.requests import (
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
from loupe.schemas.requests import REFINEMENT_REQUEST_REPAIR_PURPOSE as REPAIR_CAPTIONS
from loupe.schemas.requests import REPAIR_PURPOSE as REPAIR_STRATEGIES
from loupe.schemas.taxonomy import DifferenceType
from loupe.testing import BuiltinChatModel, ChatRequest, FormatError, picture_of

# The built-in strategist and refiner.


class StillsContraster(BuiltinChatModel[BuiltinContraster]):
    """Proposes contrastive strategies, and refines the captions of a group.

    It reads the brief in a request's `subject` (`loupe.schemas.requests`), not the prompt, and the
    scenes of drawn stills from the strip along their lower edge. For stills it proposes changes
    that the built-in editor supports; for photographs, whose contents it does not know, only
    another style or dim light. It writes only English. A repair has the answer of the first
    request.
    """

    def text_for(self, request: ChatRequest) -> str:
        """Return the strategies or captions as JSON."""
        if request.purpose in (STRATEGY_PURPOSE, REPAIR_STRATEGIES):
            answer: dict[str, Any] = {STRATEGIES_FIELD: _strategies(request)}
        elif request.purpose in (REFINEMENT_PURPOSE, REPAIR_CAPTIONS):
            answer = {CAPTIONS_FIELD: _captions(request)}
        else:
            raise FormatError(
                f"{self.ref} proposes strategies and refines captions; got a request for "
                f"{request.purpose!r}"
            )
        return json.dumps(answer, ensure_ascii=False)


# Proposes strategies.

_RARE = (DifferenceType.ENTITY_RELATION, DifferenceType.EVENT_TYPE)
_TRIED = 6  # of an aspect
_ENOUGH = 3
_BRIGHT = 70.0  # of 255; an image with a lower mean is dim already


def _strategies(request: ChatRequest) -> list[dict[str, str]]:
    """Return as many strategies as the brief requests, of different types if possible."""
    brief = StrategyBrief.parse(request.subject)
    if len(request.images) != 1:
        raise FormatError(f"strategies are made of one image; got {len(request.images)}")
    digest = hashlib.blake2b(request.images[0].data, digest_size=16).hexdigest()
    image, chance = picture_of(request.images[0]), random.Random(digest)  # noqa: S311
    scene = read_scene(image)
    if scene is None:
        changes = _photograph_changes(image)
    else:
        proposed = _changes(content_of(scene)).values()
        changes = []
        for items in proposed:
            changes += chance.sample(items, len(items))[:_TRIED]
    by_type: dict[DifferenceType, list[Change]] = {}
    for change in changes:
        by_type.setdefault(ASPECTS[change.aspect].difference, []).append(change)
    others = [one for one in by_type if one not in _RARE]
    turn = chance.randrange(len(others)) if others else 0  # begin with another type each time
    types = [*(one for one in by_type if one in _RARE), *others[turn:], *others[:turn]]
    rounds = zip_longest(*(_written(brief, scene, by_type[one]) for one in types))
    found = [one for one in next(rounds, ()) if one is not None][: brief.count]
    enough = min(_ENOUGH, brief.count)
    while len(found) < enough:
        row = next(rounds, None)
        if row is None:
            break
        found += [one for one in row if one is not None][: enough - len(found)]
    if not found:
        raise FormatError("nothing in the image can be changed")
    return found


def _photograph_changes(image: Image.Image) -> list[Change]:
    """Return possible changes of an image with unknown contents."""
    old = "colour picture" if is_coloured(image) else BLACK_AND_WHITE
    manners = ("pencil sketch", BLACK_AND_WHITE)
    changes = [Change("style", manner, old) for manner in manners if manner != old]
    bright = float(np.asarray(image.convert("L")).mean()) >= _BRIGHT
    return [*changes, *([Change("light", "dim", "bright")] if bright else [])]


def _changes(content: Content) -> dict[str, list[Change]]:
    """Return possible changes of a still, by aspect."""
    found: dict[str, list[Change]] = {aspect: [] for aspect in ASPECTS}
    there = [group.kind for group in content.groups]
    counts = Counter(there)
    lone = [one for one in content.groups if one.kind in THINGS and counts[one.kind] == 1]
    for kind, colour, number, _ in lone:
        many = (number or 1) > 1
        what = KINDS[kind].plural if many else kind
        colour = colour or ""
        found["colour"] += [
            Change("colour", new, colour, what) for new in KINDS[kind].colours if new != colour
        ]
        for new in THINGS:
            fits = colour in KINDS[new].colours and KINDS[new].flies == KINDS[kind].flies
            if fits and new not in there:
                name = KINDS[new].plural if many else new
                found["kind"].append(Change("kind", name, "", what, colour))
    colours_worn = {colour for _, colour in content.clothes}
    for garment, colour in content.clothes:
        unworn = [new for new in COLOURS if new not in colours_worn]
        found["colour"] += [Change("colour", new, colour, garment) for new in unworn]
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


def _written(
    brief: StrategyBrief, scene: Scene | None, changes: list[Change]
) -> Iterator[dict[str, str]]:
    """Return a strategy for each change that can be made and described, and is not known yet."""
    known = "\n".join(brief.facts)
    for change in changes:
        about = ASPECTS[change.aspect]
        plan = filled(about.plan, change)
        text = _contrastive(brief.caption, scene, change, plan)
        if text is not None and plan not in known:
            yield {
                DETAIL_FIELD: filled(about.detail, change),
                TYPE_FIELD: about.difference.value,
                PLAN_FIELD: plan,
                CAPTION_FIELD: text,
                INSTRUCTION_FIELD: say_change(change),
            }


def _contrastive(caption: str, scene: Scene | None, change: Change, plan: str) -> str | None:
    """Return the caption that is true for the changed image and false for the original."""
    if scene is None:
        stated = stated_difference(plan)
        return closed(caption, stated.sibling) if stated else None
    try:
        after = changed_scene(scene, change)
    except UneditableError:
        return None
    return distinguished(caption, content_of(after), [content_of(scene)])


# Writes one fine caption for each image of a group that distinguishes it from the others.

_FURTHER_DETAILS = 2
_PLAN = re.compile(r"\bThe (style|light) changes from (.+) to (.+?)\.?$")
_PHRASES = {"style": ", shown as {}", "light": " in {} light"}


class Stated(NamedTuple):
    """The statements of a plan about an anchor and its sibling, as phrases that end a caption."""

    anchor: str
    sibling: str


def stated_difference(plan: str) -> Stated | None:
    """Return the statements of a plan about style or light; None if it is about something else."""
    found = _PLAN.search(plan)
    if found is None:
        return None
    phrase = _PHRASES[found[1]]
    return Stated(phrase.format(found[2]), phrase.format(found[3]))


def closed(text: str, addition: str) -> str:
    """Return `text` with an addition before its full stop, if it has one."""
    stem = text.rstrip(" .")
    return f"{stem}{addition}{text[len(stem) :].strip()}"


def _captions(request: ChatRequest) -> list[str]:
    """Return a caption for each image that distinguishes it from all the others.

    If the anchor is not a drawn still, only the brief's statements about style and light are used.
    """
    brief = RefinementBrief.parse(request.subject)
    if brief.second_language is not None:
        raise FormatError(
            f"captions are written in English only; got a request for {brief.second_language!r}"
        )
    if len(request.images) != brief.images:
        raise FormatError(f"the brief describes {brief.images} images; got {len(request.images)}")
    scenes = [read_scene(picture_of(image)) for image in request.images]
    found: list[str | None] = []
    if scenes[0] is None:
        stated = [stated_difference(plan) for plan in brief.differences]
        anchor = "".join(dict.fromkeys(one.anchor for one in stated if one))
        found = [closed(brief.caption, one.sibling) if one else None for one in stated]
        found.insert(0, closed(brief.caption, anchor))
    elif None not in scenes:
        contents = [content_of(scene) for scene in scenes if scene is not None]
        for place, one in enumerate(contents):
            others = contents[:place] + contents[place + 1 :]
            found.append(distinguished(brief.caption, one, others, _FURTHER_DETAILS))
    captions = [caption for caption in found if caption is not None]
    if len(set(captions)) < len(request.images):
        raise FormatError("the images cannot be distinguished by what is known of them")
    return captions
