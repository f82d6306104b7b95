"""When a change changes nothing: «change the red car into a red car»."""

import re
from collections.abc import Iterator

from schemas.strategy_request import ProposedStrategy

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_ARTICLES = frozenset(("a", "an", "the", "some", "one"))
_EMPTY = frozenset(
    re.findall(
        r"\w+",
        """
        color colour type kind style shape pattern material shade of is are was were be being been
        it its his her their that which
        """,
    )
)
"""Words that only say of what a value is one: «the colour of the car is red» is «car red»."""

_VERB = (
    r"\b(?:chang|turn|transform|convert|switch|alter|modif|shift|recolou?r|repaint|paint|dy"
    r"|replac|swap|substitut|exchang|adjust|edit|remak|restyl|render)(?:e|es|ed|ing|y|s|ies|ied)?\b"
)
_END = (
    r"(?=[,.;:!?()]|\s+(?:while|whilst|keeping|and|but|so|without|leaving|with\s+everything)\b|$)"
)
_INTO = re.compile(
    rf"{_VERB}\s+(?P<before>[^.;:!?]+?)\s+(?:into|to(?:\s+be)?|with|for|by|as)\s+"
    rf"(?P<after>[^.;:!?]+?){_END}",
    re.IGNORECASE,
)
_BECOMES = re.compile(
    rf"(?P<before>[^.,;:!?]+?)\s+(?:becomes?|becoming|turns?\s+into|changes?\s+(?:in)?to)\s+"
    rf"(?P<after>[^.;:!?]+?){_END}",
    re.IGNORECASE,
)
_INSTEAD = re.compile(
    rf"(?P<after>\S+)\s+instead\s+of\s+(?P<before>[^.,;:!?]+?){_END}", re.IGNORECASE
)
_FROM = re.compile(r"\bfrom\s+", re.IGNORECASE)


def folded(text: str) -> tuple[str, ...]:
    """The words of a text in their order; neither case nor punctuation nor articles count."""
    words = (word.casefold() for word in _WORD.findall(text))
    return tuple(word for word in words if word not in _ARTICLES)


def what_stays(strategy: ProposedStrategy, caption: str) -> str | None:
    """Why a strategy changes nothing, as a sentence; None where it does change something.

    It does not where the caption of the contrastive image says what the anchor's says, where plan
    or instruction names the same value before and after, or where what the detail becomes is what
    it is. The order of words counts: dogs that chase a cat are not a cat that chases dogs.

    Args:
        strategy: what was proposed.
        caption: of the anchor.
    """
    if folded(strategy.contrastive_caption) == folded(caption):
        return "The caption of the contrastive image says what the caption of the image says."
    detail = _values(strategy.detail)
    if _values(strategy.plan) == detail:
        return "The plan says the detail as it is and no change."
    for text in (strategy.plan, strategy.editing_instruction):
        for before, after in named_changes(text):
            value = _values(after)
            if value and value == _values(before):
                return f"It names the same before and after the change: {after.strip()!r}."
            if value and detail in (value, _values(before) + value):
                return f"The detail is already what it would become: {after.strip()!r}."
    return None


def named_changes(text: str) -> Iterator[tuple[str, str]]:
    """What a text says is changed, and into what: (before, after) of each change that it names.

    «Change the colour of the car from red to blue» is a change of «red» to «blue».
    """
    for pattern in (_INTO, _BECOMES, _INSTEAD):
        for match in pattern.finditer(text):
            before = match["before"]
            origin = _FROM.split(before)
            yield (origin[-1], match["after"]) if len(origin) > 1 else (before, match["after"])


def _values(text: str) -> tuple[str, ...]:
    return tuple(word for word in folded(text) if word not in _EMPTY)
