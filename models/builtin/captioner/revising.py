"""How many details a caption is to have that is written anew."""

from models.builtin.captioner.telling import Teller, distinct
from schemas.caption_request import CaptionBrief, Direction

_ENOUGH = 40


def revised(teller: Teller, brief: CaptionBrief) -> str | None:
    """A caption in the place of `brief.caption`, as far in the wanted direction as is known.

    What was tried before bounds the number of details from both sides; the next one lies halfway.
    None where there is nothing new to say.
    """
    caption = brief.caption or ""
    size = teller.size_of(caption)
    less = brief.direction is Direction.LESS_DETAIL
    high = [teller.size_of(text) for text in brief.too_detailed]
    low = [teller.size_of(text) for text in brief.too_general]
    (high if less else low).append(size)
    if less:
        wanted = size - 1 if not low else (size + max(low)) // 2
    else:
        wanted = size + 1 if not high else -(-(size + min(high)) // 2)
    tried = (caption, *brief.too_detailed, *brief.too_general, *brief.taken)
    found = distinct(teller, max(1, wanted), _ENOUGH, without=tried)
    fitting = (
        text
        for text in found
        if (teller.size_of(text) <= size if less else teller.size_of(text) >= size)
    )
    return next(fitting, None)
