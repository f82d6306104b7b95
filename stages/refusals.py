"""Finds what a model says in the place of an answer: that it will not, or what it is about to do.

Both are looked for as a sentence or clause of its own, outside quotation marks: a caption may well
say that a card reads “I'm sorry”.
"""

import re

from stages.quotations import beside_quotes

_CANNOT = (
    r"(?:i|we) (?:(?:can(?:no|')t|can not|won't|will not|do not|don't)"
    r"|(?:am|are|'m|'re) (?:not able|unable|not allowed|not permitted))"
)
_TASK = (
    r"help|assist|comply|provide|rewrite|fulfil|do (?:that|this)|create|generate|describe|identify"
    r"|recogni[sz]e|process|continue|share|see|view|write|make|answer|feel comfortable"
)
_CLAUSE = r"(?:^|[.!?;,]\s+|\s[–—-]\s|\b(?:but|so|and|however|unfortunately)\s+)"
_REFUSAL = re.compile(
    rf"{_CLAUSE}(?P<clause>(?:i am|i'm)(?: so| very| really)? sorry\b|sorry, (?:but )?(?:i|we)\b"
    rf"|i apologi[sz]e\b|my apologies\b|{_CANNOT} (?:to )?(?:{_TASK})\b"
    r"|(?:i am |i'm )?unable to (?:assist|help|comply|fulfil)|(?:this|that|it) (?:request )?"
    r"(?:violates|is against) (?:the |our |my )?(?:content polic|guidelines))"
    r"|(?P<own>\bas an ai\b|\bas a (?:large )?language model\b"
    r"|\bagainst (?:my|our) (?:guidelines|policy|programming|content polic))",
    re.IGNORECASE,
)
_CHATTER = re.compile(
    r"^(?:(?:sure|certainly|of course|okay|ok|absolutely|great)\b[,.!]*\s+)?"
    r"here(?:'s| is| are)\b[^:.]{0,80}\b(?:caption|description|version|rewrite|strateg|answer|json)"
    r"[^:.]{0,60}:|^(?:sure|certainly|of course)[,.!]+\s+(?:here|i)\b",
    re.IGNORECASE,
)


def refusal_in(text: str) -> str | None:
    """The words by which a model refuses, or None where `text` refuses nothing."""
    match = _REFUSAL.search(_told(text))
    return (match["clause"] or match["own"]) if match else None


def chatter_in(text: str) -> str | None:
    """What a model says to whoever asked before it answers («Sure! Here is the caption:»)."""
    match = _CHATTER.search(_told(text))
    return match.group() if match else None


def _told(text: str) -> str:
    return beside_quotes(text).replace("’", "'")
