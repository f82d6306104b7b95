"""When two people have said the same, and how an answer is told to a third."""

from collections.abc import Iterable
from html import escape

from annotate.answers import ReviewAnswer


def text_similarity(one: str, other: str) -> float:
    """How alike two texts are, 0 to 1; neither case nor white space counts."""
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.normalized_similarity(_plain(one), _plain(other))


def same_answer(one: ReviewAnswer, other: ReviewAnswer, text_agreement: float) -> bool:
    """Whether two answers come to the same: equal choices, and texts that are alike.

    Two rejections do, whatever the reasons: what was shown falls either way.
    """
    if one.verdict == other.verdict == "reject":
        return True
    if one.verdict != other.verdict or one.choices != other.choices:
        return False
    return one.texts.keys() == other.texts.keys() and all(
        text_similarity(text, other.texts[control]) >= text_agreement
        for control, text in one.texts.items()
    )


def definition_list(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values as HTML, both escaped; rows without a value are left out."""
    items = [
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows if value.strip()
    ]
    return f"<dl>{''.join(items)}</dl>"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
