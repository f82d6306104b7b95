"""A correct answer to a request for strategies, and helpers that build answers."""

import json
from typing import Any

from loupe.schemas.chat import ChatAnswer
from loupe.schemas.requests import ProposedStrategy, StrategyBrief
from loupe.schemas.taxonomy import DifferenceType

BRIEF = StrategyBrief(
    caption="Two brown dogs chase a cat over a green lawn.", facts=("There are two dogs.",)
)

STRATEGIES: list[dict[str, Any]] = [
    {
        "detail": "Two dogs are chasing the cat.",
        "type": "Event/Action Attribute",
        "plan": "Change the dogs chasing the cat into the cat chasing the dogs.",
        "caption": "A cat chases two brown dogs over a green lawn.",
        "instruction": "Swap the places of the dogs and the cat, so that the cat runs after them.",
    },
    {
        "detail": "The lawn is green, as in summer.",
        "type": "Scene Attribute",
        "plan": "Cover the green lawn with snow, as in winter.",
        "caption": "Two brown dogs chase a cat over a lawn under snow.",
        "instruction": "Put snow on all of the lawn; leave dogs and cat as they are.",
    },
    {
        "detail": "The dogs are brown.",
        "type": "Entity Attribute",
        "plan": "Change the coats of the dogs from brown to white.",
        "caption": "Two white dogs chase a cat over a green lawn.",
        "instruction": "Recolour the coats of both dogs white and keep everything else.",
    },
    {
        "detail": "It is an ordinary photograph.",
        "type": "Style & Presentation",
        "plan": "Turn the photograph into an ink drawing.",
        "caption": "An ink drawing of two brown dogs that chase a cat over a lawn.",
        "instruction": "Redraw the whole picture as an ink drawing with visible strokes.",
    },
]


def a_strategy(**changes: str) -> dict[str, Any]:
    """Return the third strategy with changes."""
    return {**STRATEGIES[2], **changes}


def answer_text(*strategies: Any) -> str:
    """Return the JSON of an answer."""
    return json.dumps({"strategies": list(strategies)}, ensure_ascii=False)


def answered(text: str, *, truncated: bool = False) -> ChatAnswer:
    return ChatAnswer(text=text, tokens_in=1, tokens_out=1, seconds=0.1, truncated=truncated)


def as_proposed(strategy: dict[str, Any]) -> ProposedStrategy:
    """Return the record of a strategy of an answer."""
    return ProposedStrategy(
        detail=strategy["detail"],
        difference=DifferenceType(strategy["type"]),
        plan=strategy["plan"],
        contrastive_caption=strategy["caption"],
        editing_instruction=strategy["instruction"],
    )
