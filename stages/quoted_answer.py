"""A model's own answer, quoted to it as data when it is asked anew."""

import json

_MOST_CHARACTERS = 6000


def quoted_answer(raw: str) -> str:
    """`raw` as one JSON string without `<`, so that it can end no marker around it.

    Of a longer answer than 6,000 characters the middle is left out.
    """
    if len(raw) > _MOST_CHARACTERS:
        half = _MOST_CHARACTERS // 2
        raw = f"{raw[:half]} […] {raw[-half:]}"
    return json.dumps(raw, ensure_ascii=False).replace("<", "\\u003c")
