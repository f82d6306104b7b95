"""Gold items: mixed in among the others so that nobody can tell, and what the answers say.

A gold item is one whose right answer is known. Whoever gets it sees a task like any other; what
they say is compared with what is known, and decides nothing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from annotate.assignment import Assignment
from db.gold import StoredCheck
from schemas.base import digest_of
from schemas.proportion import Interval, wilson_interval

_DIGEST_RANGE = 1 << 128


class Seen(NamedTuple):
    """What an annotator ever had in a queue: as an ordinary item, and as gold."""

    ordinary: frozenset[str] = frozenset()
    gold: frozenset[str] = frozenset()


class Accuracy(NamedTuple):
    """How many of the gold items that were judged were answered right."""

    correct: int
    total: int

    @property
    def share(self) -> float:
        """The share of right answers, 0 to 1; 1 where there are none, as nothing speaks against."""
        return self.correct / self.total if self.total else 1.0

    @property
    def interval(self) -> Interval:
        """The 95 % Wilson interval of the share."""
        return wilson_interval(self.correct, self.total)


class AccuracyAt(NamedTuple):
    """The accuracy over the newest answers as it stood when an answer came."""

    answered_at: datetime
    accuracy: Accuracy


def mix(
    assignments: Iterable[Assignment],
    gold: Collection[str],
    rate: float,
    seen: Mapping[str, Seen],
    seed: str,
) -> list[Assignment]:
    """The assignments with gold items among them, each annotator's in the order to send them in.

    The number of gold items is such that their share in all that the annotator ever had comes as
    close to `rate` as it can: never more than one item from it while there are gold items left.
    Which ones, and where they stand, hangs on digests with `seed`, so that neither place nor number
    tells anything. Nobody gets an item as gold that they had before or get now.

    Args:
        assignments: the ordinary ones.
        gold: the ids of the queue's gold items.
        rate: the wanted share of gold items, 0 to below 1.
        seen: what each annotator had before, by pseudonym; who is missing had nothing.
        seed: makes this draw another than that of another queue.
    """
    ordinary: dict[str, list[str]] = defaultdict(list)
    for assignment in assignments:
        ordinary[assignment.pseudonym].append(assignment.entity_id)
    mixed = []
    for pseudonym in sorted(ordinary):
        deck = _Deck(pseudonym, ordinary[pseudonym], seen.get(pseudonym, Seen()), seed)
        mixed.extend(deck.shuffled_with(deck.draw(gold, rate)))
    return mixed


class _Deck:
    """What one annotator gets now."""

    def __init__(self, pseudonym: str, ordinary: Sequence[str], seen: Seen, seed: str) -> None:
        self._pseudonym = pseudonym
        self._ordinary = ordinary
        self._seen = seen
        self._seed = seed

    def draw(self, gold: Collection[str], rate: float) -> list[str]:
        """The gold items for this time."""
        taken = self._seen.gold | self._seen.ordinary | set(self._ordinary)
        unseen = sorted(set(gold) - taken, key=lambda entity_id: self._digest("which", entity_id))
        return unseen[: max(0, self._wanted(rate) - len(self._seen.gold))]

    def shuffled_with(self, gold: Sequence[str]) -> list[Assignment]:
        """Gold and other items in an order that does not know which is which."""
        deck = [
            *(Assignment(entity_id, self._pseudonym) for entity_id in self._ordinary),
            *(Assignment(entity_id, self._pseudonym, gold=True) for entity_id in gold),
        ]
        return sorted(deck, key=lambda assignment: self._digest("where", assignment.entity_id))

    def _wanted(self, rate: float) -> int:
        """How many gold items there should be in all by now.

        Rounded up or down by chance: were it always down, the item that comes along whenever ten
        are full would be known for what it is.
        """
        ordinary = len(self._seen.ordinary | set(self._ordinary))
        chance = int(self._digest("round", str(ordinary)), 16) / _DIGEST_RANGE
        return int(ordinary * rate / (1 - rate) + chance)

    def _digest(self, what: str, subject: str) -> str:
        return digest_of("gold", what, self._seed, self._pseudonym, subject)


def accuracy(checks: Sequence[StoredCheck], window: int) -> Accuracy:
    """The accuracy over the `window` newest of `checks`, which come newest first."""
    newest = checks[:window]
    return Accuracy(sum(check.correct for check in newest), len(newest))


def accuracy_over_time(checks: Sequence[StoredCheck], window: int) -> list[AccuracyAt]:
    """How the accuracy stood after each answer, oldest first; `checks` come newest first."""
    return [
        AccuracyAt(checks[start].answered_at, accuracy(checks[start : start + window], window))
        for start in reversed(range(len(checks)))
    ]
