"""What speaks against the wording of a fine caption, by itself and beside its siblings."""

from collections.abc import Sequence

from flows.answers import words_of
from schemas.caption_contrast import Phrase, PhraseKind, phrases


def refused_phrase(caption: str, coarse: str) -> Phrase | None:
    """The first phrase by which a caption speaks of another image; None where it speaks of none.

    A phrase that the coarse caption has, too, speaks of what is seen: «two pictures on a wall».
    """
    allowed = {_folded(one.text) for one in phrases(coarse)}
    return next(
        (
            one
            for one in phrases(caption)
            if one.kind is PhraseKind.OTHER_IMAGE and _folded(one.text) not in allowed
        ),
        None,
    )


def doubtful_phrases(caption: str, coarse: str) -> list[Phrase]:
    """Phrases that compare with what is not shown, or name what is not there.

    Those that the coarse caption has, too, are left out.
    """
    allowed = {_folded(one.text) for one in phrases(coarse)}
    return [
        one
        for one in phrases(caption)
        if one.kind is not PhraseKind.OTHER_IMAGE and _folded(one.text) not in allowed
    ]


def same_captions(captions: Sequence[str]) -> list[tuple[int, int]]:
    """The positions of captions that say what an earlier one says, with that one's before them.

    See `caption_words`: neither case nor space nor punctuation counts.
    """
    first: dict[tuple[str, ...], int] = {}
    found = []
    for position, caption in enumerate(captions):
        earlier = first.setdefault(words_of(caption), position)
        if earlier != position:
            found.append((earlier, position))
    return found


def _folded(text: str) -> str:
    return " ".join(words_of(text))
