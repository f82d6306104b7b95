"""Counts, long texts and long lists in messages."""

from collections.abc import Sequence


def many(count: int, noun: str) -> str:
    """A count of things in words: "1 image", "1,200 images"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def shortened(text: str, most: int) -> str:
    """A text of at most `most` characters, which ends in "…" if some are left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def first_of(names: Sequence[str], most: int) -> str:
    """The first names, and the number of the others: "a, b and 3 more"."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
