"""The strata of a person: what the captions of an image state, never what the image shows."""

from collections import defaultdict
from collections.abc import Sequence

from loupe.checks.person.lexicon import load_lexicon
from loupe.checks.person.parser import parse_description
from loupe.schemas.faithfulness import Attribute
from loupe.schemas.plugins import NOT_STATED

DISPUTED = "stated differently"
_STATED = {"sex": Attribute.SEX, "age": Attribute.AGE, "skin": Attribute.SKIN}
_CLOTHES = "clothing"
_WORN_BELOW = ("whole", "lower")
"""Where clothes are worn that tell kinds of clothing apart: a dress, a skirt, trousers, shorts."""


def strata_of(texts: Sequence[str]) -> dict[str, str]:
    """Return sex, age, skin tone and kind of clothing of a person, as captions state them.

    A value that no caption states is `not stated`; one on which they differ `stated differently`.
    """
    stated: defaultdict[str, set[str]] = defaultdict(set)
    lexicon = load_lexicon()
    for text in texts:
        description = parse_description(text)
        for name, attribute in _STATED.items():
            stated[name].update(description.person.values(attribute)[:1])
        for item in description.items:
            if lexicon.slot(item.kind) in _WORN_BELOW and not item.negated:
                stated[_CLOTHES].add(lexicon.lineages[item.kind][-1])  # trousers for jeans
                break
    return {name: _one_of(stated[name]) for name in (*_STATED, _CLOTHES)}


def _one_of(values: set[str]) -> str:
    if not values:
        return NOT_STATED
    return values.pop() if len(values) == 1 else DISPUTED
