"""What tells captions apart, as marks in their text."""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from schemas.caption_contrast import WORD, PhraseKind, content_words, phrases

_MARKS = {
    PhraseKind.OTHER_IMAGE: "compares",
    PhraseKind.COMPARISON: "compares",
    PhraseKind.ABSENCE: "absent",
}


def marked_captions(captions: Sequence[str]) -> list[str]:
    """Each caption as HTML in which the words are marked that tell it from the others.

    Marked `loupe-own` are words of no other caption, `loupe-shared` those that only some others
    have, `loupe-compares` phrases that speak of another image, `loupe-absent` those that name what
    is not there. Function words tell nothing.
    """
    having = Counter(word for caption in captions for word in content_words(caption))
    return [_marked(caption, having, len(captions)) for caption in captions]


def _marked(caption: str, having: Mapping[str, int], count: int) -> str:
    """The caption with its marks, where `having` of `count` captions have each content word."""
    spoken = [(one.start, one.end, _MARKS[one.kind]) for one in phrases(caption)]
    spans = spoken.copy()
    for match in WORD.finditer(caption):
        captions = having.get(match.group().casefold(), count)
        if captions < count and not any(start <= match.start() < end for start, end, _ in spoken):
            spans.append((*match.span(), "own" if captions == 1 else "shared"))
    pieces, position = [], 0
    for start, end, kind in sorted(spans):
        pieces.append(escape(caption[position:start]))
        pieces.append(f'<mark class="loupe-{kind}">{escape(caption[start:end])}</mark>')
        position = end
    return "".join(pieces) + escape(caption[position:])
