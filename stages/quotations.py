"""What a text says itself, beside what it quotes: captions quote signs, programs and answers."""

from schemas.caption_contrast import QUOTED


def beside_quotes(text: str) -> str:
    """`text` with a space for each quotation; what is quoted where that is all there is."""
    text = text.strip()
    if (whole := QUOTED.fullmatch(text)) is not None:
        return whole.group()[1:-1].strip()
    return QUOTED.sub(" ", text)
