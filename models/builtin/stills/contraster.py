"""A strategist and refiner of contrastive benchmarks that reads the code of drawn stills."""

import hashlib
import json
import random
from collections.abc import Iterator
from itertools import islice, zip_longest
from typing import Any

from models.adapter import BuiltinChatModel, picture_of
from models.builtin.stills.editor import (
    ASPECTS,
    Change,
    UneditableError,
    changed_scene,
    filled,
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
    of drawn stills from the strip along their lower edge. It proposes changes that the built-in
    editor supports, and refuses all other images. It writes only English. A repair has the answer
    of the first request.
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


def _strategies(request: ChatRequest) -> list[dict[str, str]]:
    """Return as many strategies as the brief requests, of different types if possible."""
    brief = StrategyBrief.parse(request.subject)
    if len(request.images) != 1:
        raise FormatError(f"strategies are made of one image; got {len(request.images)}")
    digest = hashlib.blake2b(request.images[0].data, digest_size=16).hexdigest()
    chance = random.Random(digest)  # noqa: S311 - a choice of changes
    scene = read_scene(picture_of(request.images[0]))
    if scene is None:
        raise FormatError(
            "the built-in strategist reads drawn stills only; for photographs choose a profile "
            "with a vision model, such as --profile hosted"
        )
    proposed = _changes(content_of(scene)).values()
    shuffled = [chance.sample(items, len(items))[:_TRIED] for items in proposed]
    changes = [change for some in shuffled for change in some]
    by_type: dict[DifferenceType, list[Change]] = {}
    for change in changes:
        by_type.setdefault(ASPECTS[change.aspect].difference, []).append(change)
    others = [one for one in by_type if one not in _RARE]
    turn = chance.randrange(len(others)) if others else 0  # begin with another type each time
    types = [*(one for one in by_type if one in _RARE), *others[turn:], *others[:turn]]
    rounds = zip_longest(*(_written(brief.caption, scene, by_type[one]) for one in types))
    found = [one for one in next(rounds, ()) if one is not None][: brief.count]
    further = (one for row in rounds for one in row if one is not None)
    found += islice(further, max(0, min(_ENOUGH, brief.count) - len(found)))
    if not found:
        raise FormatError("nothing in the image can be changed")
    return found


def _changes(content: Content) -> dict[str, list[Change]]:
    """Return possible changes of a still, by aspect."""
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


def _written(caption: str, scene: Scene, changes: list[Change]) -> Iterator[dict[str, str]]:
    """Return a strategy for each change that can be made and described."""
    for change in changes:
        about = ASPECTS[change.aspect]
        text = _contrastive(caption, scene, change)
        if text is not None:
            yield {
                DETAIL_FIELD: filled(about.detail, change),
                TYPE_FIELD: about.difference.value,
                PLAN_FIELD: filled(about.plan, change),
                CAPTION_FIELD: text,
                INSTRUCTION_FIELD: say_change(change),
            }


def _contrastive(caption: str, scene: Scene, change: Change) -> str | None:
    """Return the caption that is true for the changed image and false for the original."""
    try:
        after = changed_scene(scene, change)
    except UneditableError:
        return None
    return distinguished(caption, content_of(after), [content_of(scene)])


# Writes one fine caption for each image of a group that distinguishes it from the others.

_FURTHER_DETAILS = 2


def _captions(request: ChatRequest) -> list[str]:
    """Return a caption for each image that distinguishes it from all the others."""
    brief = RefinementBrief.parse(request.subject)
    if brief.second_language is not None:
        raise FormatError(
            f"captions are written in English only; got a request for {brief.second_language!r}"
        )
    if len(request.images) != brief.images:
        raise FormatError(f"the brief describes {brief.images} images; got {len(request.images)}")
    scenes = [read_scene(picture_of(image)) for image in request.images]
    contents = [content_of(scene) for scene in scenes if scene is not None]
    found = [
        distinguished(
            brief.caption, one, contents[:place] + contents[place + 1 :], _FURTHER_DETAILS
        )
        for place, one in enumerate(contents)
    ]
    captions = [caption for caption in found if caption is not None]
    if len(set(captions)) < len(request.images):
        raise FormatError("the images cannot be distinguished by what is known of them")
    return captions
