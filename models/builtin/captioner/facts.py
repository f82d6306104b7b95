"""Captions made of facts that are told: the facts themselves, a few at a time."""

from collections.abc import Iterator, Sequence
from itertools import permutations

from models.builtin.captioner.telling import choices

_MOST_FACTS = 10


class FactTeller:
    """Joins facts to sentences; a detail is a fact."""

    def __init__(self, facts: Sequence[str]) -> None:
        self._facts = tuple(dict.fromkeys(clause(fact) for fact in facts))[:_MOST_FACTS]

    def size_of(self, text: str) -> int:
        """How many of the facts stand in a caption, word by word; at least one."""
        folded = text.casefold()
        return max(1, sum(fact.casefold() in folded for fact in self._facts))

    def captions(self, size: int) -> Iterator[str]:
        """One sentence of `size` facts, in any of their orders."""
        chosen = list(choices(self._facts, size))
        for turn in range(2):
            for facts in chosen:
                orders = list(permutations(facts)) if len(facts) < 4 else [facts, facts[::-1]]
                if turn == 0 or len(orders) > 1:
                    yield sentence(orders[-1 if turn else 0])


def clause(fact: str) -> str:
    """A fact without what ends a sentence, as it stands in the middle of one."""
    plain = " ".join(fact.split()).rstrip(".")
    first, _, rest = plain.partition(" ")
    starts = first in ("The", "A", "An", "There", "It", "Three", "Two", "No")
    return f"{first.lower()} {rest}" if starts and rest else plain


def sentence(clauses: Sequence[str]) -> str:
    """Clauses joined by commas and `and`."""
    joined = clauses[0]
    if len(clauses) > 1:
        joined = f"{', '.join(clauses[:-1])}, and {clauses[-1]}"
    return f"{joined[0].upper()}{joined[1:]}."
