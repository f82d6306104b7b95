"""English for messages and generated texts: counts, articles, lists, shortened texts."""

import re
from collections.abc import Sequence

_VOWEL_SOUND = re.compile(
    r"(?!uni|one|us[ei]|eu|u-)[aeiou]|hour|heir|honest|slr\b|l-", re.IGNORECASE
)
_CONSONANT_Y = re.compile(r"(?<=[^aeiou])y$")
_IRREGULAR = {"person": "people", "box": "boxes"}


def with_article(phrase: str) -> str:
    """Return the phrase with `a` or `an`: `an L-shaped figure`."""
    return f"{'an' if _VOWEL_SOUND.match(phrase) else 'a'} {phrase}"


def many(count: int, noun: str) -> str:
    """Return a count of things: `1 image`, `1,200 images`, `2 people`."""
    plural = _IRREGULAR.get(noun) or _CONSONANT_Y.sub("ies", noun)
    if plural == noun:
        plural = f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def joined(phrases: Sequence[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`; "" if there are none."""
    if len(phrases) < 2:
        return "".join(phrases)
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def first_of(names: Sequence[str], most: int) -> str:
    """Return the first names and the number of the others: `a, b and 3 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def shortened(text: str, most: int) -> str:
    """Return a text of at most `most` characters, ending in "…" if some are left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def storable(text: str) -> str:
    """Return `text` without lone surrogates, which UTF-8 cannot encode; they are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
