"""Articles and lists in English."""

import re
from collections.abc import Sequence

_VOWEL_SOUND = re.compile(r"(?!uni|one|us[ei]|eu)[aeiou]|hour|heir|honest|slr\b", re.IGNORECASE)


def with_article(phrase: str) -> str:
    """Return the phrase with `a` or `an`."""
    return f"{'an' if _VOWEL_SOUND.match(phrase) else 'a'} {phrase}"


def joined(phrases: Sequence[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`; "" if there are none."""
    if len(phrases) < 2:
        return "".join(phrases)
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"
