"""Sentences that say how many of a thing there are."""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import inflect

_IN_PAIRS = frozenset({"skis", "scissors", "glasses", "sunglasses", "trousers", "jeans", "shorts"})
_WITHOUT_NUMBER = frozenset({"broccoli", "grass", "water", "bread", "fruit", "food", "furniture"})
_SPELLED = {"tv": "TV"}
_WORDS_UP_TO = 12


def there_are(name: str, count: int | None) -> str:
    """`There are two dogs.`; None is for many that nobody counted."""
    name = _SPELLED.get(name, name)
    if name in _WITHOUT_NUMBER:
        return f"There is {name}."
    if name in _IN_PAIRS:
        return _there_are_pairs(name, count)
    if count is None:
        return f"There are many {_words().plural_noun(name)}."
    if count == 1:
        return f"There is {_words().a(name)}."
    return f"There are {_number(count)} {_words().plural_noun(name)}."


def _there_are_pairs(name: str, count: int | None) -> str:
    if count == 1:
        return f"There is a pair of {name}."
    return f"There are {'many' if count is None else _number(count)} pairs of {name}."


def _number(count: int) -> str:
    return str(_words().number_to_words(count)) if count <= _WORDS_UP_TO else str(count)


@cache
def _words() -> "inflect.engine":
    import inflect

    return inflect.engine()
