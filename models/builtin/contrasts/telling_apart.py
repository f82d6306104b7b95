"""A caption of one still that is true of no other one of its group."""

from models.builtin.captioner.confusing import confused, is_true
from models.builtin.contrasts.inserting import insertions
from models.builtin.stills.reading import read_still_text
from models.builtin.stills.saying import Content, content_of_text

_MOST_INSERTIONS = 8


def is_exactly_true(text: str, content: Content) -> bool:
    """Whether all that is read in `text` is in `content`, its style included."""
    style = content_of_text(read_still_text(text)).style
    return is_true(text, content) and style in (None, content.style)


def made_true(caption: str, content: Content) -> str | None:
    """The caption with those words changed that are not true of `content`; None if in vain."""
    if is_exactly_true(caption, content):
        return caption
    text = confused(caption, content)
    return text if text is not None and is_exactly_true(text, content) else None


def told_apart(caption: str, content: Content, others: list[Content]) -> str | None:
    """`caption`, true of `content`, with the fewest details that make it untrue of all others.

    None where nothing that is seen does so.
    """
    text = caption
    for _ in range(_MOST_INSERTIONS):
        left = [other for other in others if is_exactly_true(text, other)]
        if not left:
            return text
        best, most = text, 0
        for insertion in insertions(text, content):
            if not is_exactly_true(insertion.text, content):
                continue
            excluded = sum(not is_exactly_true(insertion.text, other) for other in left)
            if excluded > most:
                best, most = insertion.text, excluded
        if not most:
            return None
        text = best
    return None


def detailed(text: str, content: Content, details: int) -> str:
    """`text` with up to `details` true details more, of those that keep its sentence plain."""
    for _ in range(details):
        found = (
            insertion.text
            for insertion in insertions(text, content)
            if insertion.name not in ("relation", "style")
            and is_exactly_true(insertion.text, content)
        )
        text = next(found, text)
    return text
