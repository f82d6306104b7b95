"""How close a fine caption is to the style of its coarse one."""

import re
from typing import NamedTuple

from schemas.caption_contrast import WORD, content_words
from schemas.refinement_request import StyleLimits

_SENTENCE_END = re.compile(r"[.!?]+[\"”’»)]*(?=\s+\S|$)")
_ABOUT_THE_IMAGE = re.compile(
    r"^\W*(?:(?:in )?(?:the|this|an?) (?:\w+ )?(?:image|picture|photo|photograph|scene)"
    r"(?:,|\s+(?:shows?|depicts?|captures?|features?|is of|of|displays?|showing|depicting)\b)"
    r"|(?:this|it) is (?:an?|the) (?:image|picture|photo|photograph)\b"
    r"|(?:we|you) (?:can )?see\b|there (?:can be seen|is shown)\b|shown (?:here )?(?:is|are)\b)",
    re.IGNORECASE,
)
_SPOKEN_TO = re.compile(r"\b(?:i|we|you|your|our|us)\b", re.IGNORECASE)
_COMPARED_LETTERS = 4


class Style(NamedTuple):
    """The measures of a fine caption beside its coarse one.

    Attributes:
        words: of the fine caption.
        length_ratio: its words to those of the coarse caption.
        kept_share: the share of the coarse caption's content words of which it has a form.
        sentences: how many it has.
        further_sentences: how many more than the coarse caption.
        new_forms: ways of speaking that the coarse caption has not: `is about the image` («The
            picture shows …»), `speaks to somebody` (I, we, you), `asks or exclaims`.
    """

    words: int
    length_ratio: float
    kept_share: float
    sentences: int
    further_sentences: int
    new_forms: tuple[str, ...]


def style_beside(fine: str, coarse: str) -> Style:
    """The measures of a fine caption beside its coarse one.

    Forms of a word are words that begin alike: by four letters, or by all but one where one has
    fewer. Sentences end with `.`, `!` or `?`; a text without has one.
    """
    words, coarse_words = len(WORD.findall(fine)), len(WORD.findall(coarse))
    wanted, said = content_words(coarse), content_words(fine)
    kept = sum(any(_is_form(word, one) for one in said) for word in wanted)
    sentences, coarse_sentences = _sentences(fine), _sentences(coarse)
    forms = _forms(fine) - _forms(coarse)
    return Style(
        words=words,
        length_ratio=words / max(1, coarse_words),
        kept_share=kept / len(wanted) if wanted else 1.0,
        sentences=sentences,
        further_sentences=max(0, sentences - coarse_sentences),
        new_forms=tuple(sorted(forms)),
    )


def style_doubts(fine: str, coarse: str, limits: StyleLimits) -> list[str]:
    """What of a fine caption's style speaks against it, as ends of a sentence about it."""
    style = style_beside(fine, coarse)
    doubts = []
    if style.length_ratio < limits.shortest_ratio:
        doubts.append("is much shorter than the coarse caption")
    if style.length_ratio > limits.longest_ratio and style.words > limits.free_words:
        doubts.append(f"is {style.length_ratio:.1f} times as long as the coarse caption")
    if style.kept_share < limits.kept_share:
        doubts.append(f"keeps {style.kept_share:.0%} of the coarse caption's words")
    if style.further_sentences > limits.further_sentences:
        doubts.append(f"has {style.sentences} sentences")
    return [*doubts, *style.new_forms]


def _forms(text: str) -> set[str]:
    found = {
        "is about the image": _ABOUT_THE_IMAGE.search(text) is not None,
        "speaks to somebody": _SPOKEN_TO.search(text) is not None,
        "asks or exclaims": text.rstrip(' "”’»)').endswith(("?", "!")),
    }
    return {form for form, has in found.items() if has}


def _sentences(text: str) -> int:
    return max(1, len(_SENTENCE_END.findall(text.strip())))


def _is_form(one: str, other: str) -> bool:
    letters = min(_COMPARED_LETTERS, max(2, min(len(one), len(other)) - 1))
    return one[:letters] == other[:letters] if min(len(one), len(other)) > 2 else one == other
