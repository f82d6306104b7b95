"""Counts and long texts in messages."""


def many(count: int, noun: str) -> str:
    """A count of things in words: "1 image", "1,200 images"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def shortened(text: str, most: int) -> str:
    """A text of at most `most` characters, which ends in "…" if some are left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
