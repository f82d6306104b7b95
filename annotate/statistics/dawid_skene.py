"""Who is right: the model of Dawid and Skene (1979) for answers "right" or "wrong".

Each item is right or wrong, with a chance that its kind has, and each person misses some wrong
items and doubts some right ones, at rates of their own. Neither is known, so all are inferred
together, from items that several people answered, items with a known answer, and audits. The rates
have prior distributions (a person is usually better than chance), and the model is sampled (Gibbs):
maximum likelihood, as by the expectation-maximisation of the paper, gives no intervals, and calls
whatever nobody contradicted certainly right.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.schemas.quality import CONFIDENCE, Interval

FloatArray = NDArray[np.float64]

DRAWS = 2000
BURN_IN = 500
SEED = 20260101
_SHARE = (0.5, 0.5)
"""The prior of the share of wrong items of a kind: Beta, Jeffreys'."""
_MISSES = (1.0, 3.0)
"""The prior of the share of wrong items that a person accepts: a quarter, and one in eight half.

With a narrower one, intervals missed too many wrong items where nothing measures people
(benchmarks/label_errors.py).
"""
_ALARMS = (1.0, 15.0)
"""The prior of the share of right items that a person does not accept: a sixteenth."""


class Vote(NamedTuple):
    """What a person said of an item."""

    person: str
    wrong: bool


class VotedItem(NamedTuple):
    """An item with its kind and answers.

    Attributes:
        kind: items of a kind have the same chance to be wrong.
        votes: at most one of each person, in any order.
        counts: whether it is part of the population to estimate: accepted, and not for training.
        wrong: the truth, where it is known.
    """

    kind: str
    votes: frozenset[Vote]
    counts: bool = True
    wrong: bool | None = None


class WrongShare(NamedTuple):
    """The estimated share of wrong items among `items`, with a 95 % interval."""

    items: int
    share: float
    interval: Interval


class WhoIsRight(NamedTuple):
    """What the model says.

    Attributes:
        probability: of each kind of item with the same answers, the chance to be wrong.
        shares: the share of wrong items of each kind, among the items that count.
        whole: the share of all kinds together.
        misses: the share of wrong items that each person accepts.
    """

    probability: Mapping[VotedItem, float]
    shares: Mapping[str, WrongShare]
    whole: WrongShare
    misses: Mapping[str, float]


def who_is_right(
    items: Iterable[VotedItem], draws: int = DRAWS, burn_in: int = BURN_IN, seed: int = SEED
) -> WhoIsRight:
    """Infer which items are wrong.

    Items of a kind with the same answers are counted together, so a million items take as long as a
    thousand. The result does not depend on the order of the items.
    """
    counted = Counter(items)
    groups = sorted(counted, key=_order)
    sampler = _Sampler(groups, np.array([counted[one] for one in groups], np.int64))
    rng = np.random.default_rng(seed)
    wrong = np.zeros((draws, len(groups)))
    probability = np.zeros(len(groups))
    misses = np.zeros(len(sampler.people))
    for number in range(-burn_in, draws):
        chances, missed = sampler.step(rng)
        if number >= 0:
            wrong[number] = sampler.wrong
            probability += chances / draws
            misses += missed / draws
    return WhoIsRight(
        dict(zip(groups, probability.tolist(), strict=True)),
        {
            kind: _share(wrong, sampler.sizes, sampler.counting & (sampler.kind == number))
            for number, kind in enumerate(sampler.kinds)
        },
        _share(wrong, sampler.sizes, sampler.counting),
        dict(zip(sampler.people, misses.tolist(), strict=True)),
    )


def _order(item: VotedItem) -> tuple[str, list[Vote], bool, str]:
    return item.kind, sorted(item.votes), item.counts, str(item.wrong)


def _share(wrong: FloatArray, sizes: NDArray[np.int64], chosen: NDArray[np.bool_]) -> WrongShare:
    items = int(sizes[chosen].sum())
    if not items:
        return WrongShare(0, 0.0, Interval(0.0, 1.0))
    shares = wrong[:, chosen].sum(axis=1) / items
    tail = 50 * (1 - CONFIDENCE)
    lower, upper = np.percentile(shares, [tail, 100 - tail])
    return WrongShare(items, float(shares.mean()), Interval(float(lower), float(upper)))


class _Sampler:
    """The state of the Gibbs sampler: how many items of each group are wrong.

    Attributes:
        people, kinds: their names, in the order of their numbers.
        sizes: number of items of each group, of shape (g,).
        kind: number of the kind of each group, of shape (g,).
        counting: which groups count, of shape (g,).
        wrong: number of wrong items of each group, of shape (g,).
    """

    def __init__(self, groups: Sequence[VotedItem], sizes: NDArray[np.int64]) -> None:
        self.people = sorted({vote.person for one in groups for vote in one.votes})
        self.kinds = sorted({one.kind for one in groups})
        numbers = {name: number for number, name in enumerate(self.people)}
        self.sizes = sizes
        self.kind = np.array([self.kinds.index(one.kind) for one in groups], np.int64)
        self.counting = np.array([one.counts for one in groups], bool)
        votes = [
            (group, numbers[vote.person], vote.wrong)
            for group, one in enumerate(groups)
            for vote in one.votes
        ]
        self._group, self._person, said = np.array(votes, np.int64).reshape(-1, 3).T
        self._said = said.astype(bool)
        self._known = np.array([one.wrong is not None for one in groups])
        truth = np.array([bool(one.wrong) for one in groups])
        doubted = np.bincount(self._group, self._said, len(groups))
        given = np.bincount(self._group, minlength=len(groups))
        majority = 2 * doubted > given
        self.wrong = np.where(np.where(self._known, truth, majority), sizes, 0)

    def step(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw all rates, then all items; return the chances of items and the rates of misses."""
        wrong, right = self.wrong, self.sizes - self.wrong
        missed, found = self._count(wrong, ~self._said), self._count(wrong, self._said)
        doubted, passed = self._count(right, self._said), self._count(right, ~self._said)
        misses = rng.beta(_MISSES[0] + missed, _MISSES[1] + found)
        alarms = rng.beta(_ALARMS[0] + doubted, _ALARMS[1] + passed)
        free = ~self._known
        of_kind = [
            np.bincount(self.kind[free], counts[free], len(self.kinds)) for counts in (wrong, right)
        ]
        shares = rng.beta(_SHARE[0] + of_kind[0], _SHARE[1] + of_kind[1])
        odds = np.where(
            self._said,
            np.log1p(-misses[self._person]) - np.log(alarms[self._person]),
            np.log(misses[self._person]) - np.log1p(-alarms[self._person]),
        )
        shares = np.clip(shares, 1e-12, 1 - 1e-12)
        prior = (np.log(shares) - np.log1p(-shares))[self.kind]
        evidence = prior + np.bincount(self._group, odds, len(self.sizes))
        chances = 1 / (1 + np.exp(-np.clip(evidence, -700, 700)))
        chances = np.where(self._known, self.wrong > 0, chances)
        self.wrong = np.where(self._known, self.wrong, rng.binomial(self.sizes, chances))
        return chances, misses

    def _count(self, items: NDArray[np.int64], said: NDArray[np.bool_]) -> FloatArray:
        """Return how many of `items` each person answered in a way, of shape (people,)."""
        weights = items[self._group] * said
        return np.bincount(self._person, weights, len(self.people)).astype(np.float64)
