"""The error of the labels: how likely each accepted item of a queue is wrong, by all answers."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import pi, sqrt
from typing import NamedTuple

from loupe.annotate.queues import Queue, judged, without_left_out
from loupe.annotate.statistics.dawid_skene import (
    Vote,
    VotedItem,
    WhoIsRight,
    WrongShare,
    who_is_right,
)
from loupe.db.annotations import given_answers
from loupe.db.entities import StoredEntity, fetch, find, pages, parents_of
from loupe.db.gold import gold_items
from loupe.db.store import Store
from loupe.schemas.proposals import ChoiceTest
from loupe.schemas.provenance import Role
from loupe.schemas.quality import ErrorStatistics, KindErrors
from loupe.schemas.records import Image

EDITED, DOUBTED, PASSED = "edited by a person", "doubted by a check", "not doubted by a check"
_KNOWN = "known answer"
_WITHOUT_VERDICT = (Image.kind, ChoiceTest.kind)
"""Kinds of items that people describe or choose from, instead of judging them."""
_PAGE = 500
_PLACES = 4

DOUBTS = (0.01, 0.03, 0.1, 0.3)
"""The ends of the strata of probabilities to be wrong."""
UNMEASURED = "not measured"
_UNKNOWN_SPREAD = 1 / pi
"""The expected standard deviation of an item of which nothing is known (Jeffreys' prior)."""


class LabelErrors(NamedTuple):
    """The error of the labels of a queue.

    Attributes:
        statistics: the shares of wrong items.
        probability: of each accepted item to be wrong; without items of which nothing is known.
        kinds: the kind of each accepted item.
    """

    statistics: ErrorStatistics
    probability: Mapping[str, float]
    kinds: Mapping[str, str]


def label_errors(store: Store, queue: Queue) -> LabelErrors | None:
    """Infer which accepted items of a queue are wrong; None if nobody answered.

    First opinions, adjudications, audits and answers to gold items count, each as one person's
    vote for or against the item as it was shown. Accepted items that nobody saw are as often wrong
    as those of their kind that somebody did.
    """
    if queue.kind in _WITHOUT_VERDICT:
        return None
    votes, gold, audited = _votes(store, queue)
    if not votes:
        return None
    accepted = find(store, queue.dataset, queue.kind, states=("accepted",))
    kinds = _kinds(store, queue, without_left_out(store, queue, accepted))
    shown = fetch(store, votes.keys() - kinds.keys()).values()
    others = _kinds(store, queue, (one for one in shown if one.state != "withdrawn"))
    items = {
        id_: VotedItem(kind, frozenset(votes.get(id_, ())), counts=id_ in kinds)
        for id_, kind in (kinds | others).items()
    }
    measured = {item.kind for item in items.values() if item.votes}
    known = {id_: item for id_, item in items.items() if item.kind in measured}
    found = who_is_right([*known.values(), *gold])
    probability = {id_: found.probability[known[id_]] for id_ in kinds if id_ in known}
    statistics = _statistics(queue, found, kinds, votes.keys(), audited, len(gold))
    return LabelErrors(statistics, probability, kinds)


def _votes(
    store: Store, queue: Queue
) -> tuple[dict[str, set[Vote]], list[VotedItem], frozenset[str]]:
    """Return the votes on each item, those on gold items, and the audited items."""
    with store.read() as connection:
        known = gold_items(connection, queue.name)
    said: dict[str, dict[str, bool]] = defaultdict(dict)  # the last of each person
    gold: list[VotedItem] = []
    audited: set[str] = set()
    for one in given_answers(store, queue.name):
        wrong = one.answer["verdict"] != "accept"
        if not one.gold:
            said[one.entity_id][one.person] = wrong
            audited.update([one.entity_id] if one.purpose == "audit" else [])
        elif one.entity_id in known:
            truth = known[one.entity_id].answer["verdict"] != "accept"
            vote = frozenset([Vote(one.person, wrong)])
            gold.append(VotedItem(_KNOWN, vote, counts=False, wrong=truth))
    votes = {
        id_: {Vote(person, wrong) for person, wrong in of_item.items()}
        for id_, of_item in said.items()
    }
    return votes, gold, frozenset(audited)


def _kinds(store: Store, queue: Queue, entities: Iterable[StoredEntity]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for page in pages(entities, _PAGE):
        edits = parents_of(store, [one.id for one in page], Role.EDITED_FROM)
        doubted = {one.entity.id for one in judged(store, queue, page) if one.suspect}
        for one in page:
            checked = DOUBTED if one.id in doubted else PASSED
            kinds[one.id] = EDITED if one.id in edits else checked
    return kinds


def _statistics(
    queue: Queue,
    found: WhoIsRight,
    kinds: Mapping[str, str],
    answered: Iterable[str],
    audited: frozenset[str],
    gold: int,
) -> ErrorStatistics:
    sizes, seen = Counter(kinds.values()), Counter(kinds[one] for one in answered if one in kinds)
    checked = Counter(kinds[one] for one in audited if one in kinds)
    rows = [
        KindErrors(
            kind=kind,
            answered=seen[kind],
            audited=checked[kind],
            **_rounded(share),
        )
        for kind, share in found.shares.items()
        if share.items
    ]
    return ErrorStatistics(
        queue=queue.name,
        people=len(found.misses),
        gold_answers=gold,
        answered=sum(seen.values()),
        audited=sum(checked.values()),
        unmeasured=sizes.total() - found.whole.items,
        unmeasured_edits=(sizes[EDITED] or None) if EDITED not in found.shares else None,
        kinds=tuple(rows),
        **_rounded(found.whole),
    )


def _rounded(share: WrongShare) -> dict[str, float]:
    low, high = share.interval
    values = {"error_rate": share.share, "lower": low, "upper": high}
    return {"items": share.items} | {name: round(one, _PLACES) for name, one in values.items()}


def doubts_of(store: Store, queue: Queue) -> "Doubts":
    """Return how doubtful the accepted items of a queue are."""
    found = label_errors(store, queue)
    return Doubts({} if found is None else found.probability)


class Doubts(NamedTuple):
    """How doubtful items are, by their probability to be wrong, if it is known.

    An audit by strata of doubt makes the interval of the share of wrong items narrower than one in
    proportion, because it has more of the items that vary more (Neyman 1934).
    """

    probability: Mapping[str, float]

    def strata(self, items: Iterable[str]) -> dict[str, str]:
        """Return the stratum of each item."""
        return {one: _stratum(self.probability.get(one)) for one in items}

    def spreads(self, strata: Mapping[str, str]) -> dict[str, float]:
        """Return how much the items of each stratum vary: the mean standard deviation of one."""
        deviations: dict[str, list[float]] = defaultdict(list)
        for one, stratum in strata.items():
            chance = self.probability.get(one)
            spread = _UNKNOWN_SPREAD if chance is None else sqrt(chance * (1 - chance))
            deviations[stratum].append(spread)
        return {stratum: sum(found) / len(found) for stratum, found in deviations.items()}


def _stratum(chance: float | None) -> str:
    if chance is None:
        return UNMEASURED
    ends = (0.0, *DOUBTS, 1.0)
    at = sum(chance >= one for one in DOUBTS)
    return f"wrong at {100 * ends[at]:g} to {100 * ends[at + 1]:g} %"


def most_doubtful(found: LabelErrors) -> Iterator[tuple[str, float]]:
    """Yield the accepted items with their probability to be wrong, the most doubtful first."""
    yield from sorted(found.probability.items(), key=lambda one: (-one[1], one[0]))
