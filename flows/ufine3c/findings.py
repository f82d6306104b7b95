"""Findings of the comparison of two descriptions, each with its sentence for the reviewer."""

import re
from collections.abc import Collection

from models.builtin.person.lexicon import load_lexicon
from schemas.faithfulness import Attribute, Fact, Finding, Span

LEXICON = load_lexicon()

_NAMES = frozenset((Attribute.GARMENT, Attribute.FOOTWEAR, Attribute.ACCESSORY))


def added(fact: Fact, minor: bool = False) -> Finding:
    """Return the finding that a rewrite states something its source does not."""
    message = f"The rewrite adds {said(fact)}, which the source does not say."
    return Finding(change="added", message=message, rewrite=fact, minor=minor)


def lost(fact: Fact) -> Finding:
    """Return the finding that a rewrite leaves something out."""
    message = f"The rewrite leaves out {said(fact)}."
    return Finding(change="lost", message=message, source=fact, minor=True)


def contradicted(source: Fact, rewrite: Fact, minor: bool = False) -> Finding:
    """Return the finding that a rewrite contradicts its source."""
    message = f"The rewrite says {said(rewrite)}; the source says {said(source)}."
    return Finding(
        change="contradicted", message=message, source=source, rewrite=rewrite, minor=minor
    )


def said(fact: Fact) -> str:
    """Return how a message names a fact."""
    if fact.attribute in _NAMES or fact.subject == "text":
        return f"«{fact.value}»"
    if fact.attribute is Attribute.PLACE:
        return f"that the {fact.subject} is at the {fact.value}"
    if fact.attribute is Attribute.SIDE:
        return f"that the {fact.subject} is on the {fact.value}"
    return f"{fact.attribute} «{fact.value}» of the {fact.subject}"


def word_fact(attribute: Attribute, value: str, span: Span) -> Fact:
    """Whether the text has this word, for any item."""
    return Fact(subject="text", attribute=attribute, value=value, span=span)


def has_colour(colours: Collection[str], colour: str) -> bool:
    """Whether one of `colours` may be another word for `colour`."""
    if colour in colours:
        return True
    return any(LEXICON.same_colour(colour, other) for other in colours)


def has_word(text: str, start: str) -> bool:
    """Whether a word of the text begins with `start`."""
    return bool(re.search(rf"\b{re.escape(start)}", text, re.IGNORECASE))
