"""The error of the labels: do intervals contain the truth, and how soon are wrong labels found?

    python -m benchmarks.label_errors [--runs 300]

Worlds of drawn people and captions, of which it is known which are wrong. In each, people answer
as in a queue (once, or twice with an adjudicator), some answer gold items, and a sample is audited.
The people's rates differ from run to run and are not those of the model's priors.

1. In how many runs does the 95 % interval of the share of wrong accepted captions contain the true
   share, and how wide is it?
2. By how much narrower is it after an audit by doubt than after one of the same size in proportion?
3. How many audits find 95 % of the wrong accepted captions? At random, 95 % of all captions have to
   be audited. Here the most doubtful are asked about, 2 % at a time, and doubts are inferred again.
4. Do further signals find them sooner? Captions are now the shipped pairs of texts with known
   truth, with what the check of rewrites really says of them: its findings by kind, lengths, shared
   words, similarity. A logistic regression on what is inferred of other captions puts each caption
   into a fifth, and fifths have chances of their own to be wrong. A second regression learns from
   the truth of the other pairs, which no queue is: the most that these signals can give.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from loupe.annotate.assignment import draw
from loupe.annotate.statistics.dawid_skene import Vote, VotedItem, WhoIsRight, who_is_right
from loupe.annotate.statistics.label_errors import Doubts
from loupe.checks.known_pairs import shipped_pairs
from loupe.checks.rewrites import judge_rewrite
from loupe.checks.support import content_words, length_share
from loupe.checks.text import Defect
from loupe.schemas.build import PEOPLE_CHECKS
from loupe.schemas.faithfulness import RewritePair
from loupe.schemas.profile import FaithfulnessSettings

Flags = NDArray[np.bool_]

_PEOPLE, _AUDITORS = 6, 2
_ADJUDICATOR = _PEOPLE
_STEP = 0.02


class Plan(NamedTuple):
    """How people answer: how many each caption, the share of gold answers, the first audit."""

    name: str
    overlap: int
    gold: float
    audits: int
    is_one_careless: bool = True


PLANS = (
    Plan("one answer, gold 10 %, 80 audits", 1, 0.1, 80),
    Plan("one answer, no gold, 120 audits", 1, 0.0, 120),
    Plan("one answer, gold 10 %, no audit", 1, 0.1, 0),
    Plan("two answers, adjudicated, gold 10 %, 80 audits", 2, 0.1, 80),
    Plan("two answers, adjudicated, no gold, 40 audits", 2, 0.0, 40),
    Plan("three answers, the majority decides, nothing else", 3, 0.0, 0),
)


class World:
    """Captions that people have decided on, and what they would answer to further questions."""

    def __init__(self, plan: Plan, seed: int, captions: int = 800) -> None:
        self.rng = rng = np.random.default_rng(seed)
        people = _PEOPLE + 1 + _AUDITORS
        self.misses, self.alarms = rng.uniform(0.05, 0.4, people), rng.uniform(0.01, 0.12, people)
        if plan.is_one_careless:
            self.misses[0] = 0.8
        self.doubted, self.wrong = self._captions(captions)
        self.votes: list[dict[int, bool]] = [{} for _ in range(captions)]
        self.accepted = np.array([self._decide(at, plan.overlap) for at in range(captions)])
        self.gold = self._gold(round(plan.gold * captions * plan.overlap))
        chosen = rng.permutation(np.flatnonzero(self.accepted))[: plan.audits]
        self.audit(chosen.tolist())

    def _captions(self, captions: int) -> tuple[Flags, Flags]:
        """Return which captions a check doubts, and which are wrong."""
        doubted = self.rng.random(captions) < 0.2
        rates = self.rng.uniform(0.01, 0.06), self.rng.uniform(0.1, 0.35)
        return doubted, self.rng.random(captions) < np.where(doubted, rates[1], rates[0])

    def audit(self, captions: Sequence[int]) -> None:
        """Have an auditor answer about captions."""
        for at in captions:
            self._ask(at, _PEOPLE + 1 + int(self.rng.integers(_AUDITORS)))

    def infer(self, draws: int = 800) -> WhoIsRight:
        """Return what the model says of the answers so far."""
        items = [*map(self.item, range(len(self.wrong))), *self.gold]
        return who_is_right(items, draws, draws // 4)

    def item(self, at: int) -> VotedItem:
        """Return a caption with its answers so far."""
        kind = "doubted" if self.doubted[at] else "passed"
        votes = frozenset(Vote(str(person), said) for person, said in self.votes[at].items())
        return VotedItem(kind, votes, bool(self.accepted[at]))

    def _ask(self, at: int, person: int) -> bool:
        says = self._says(person, is_wrong=bool(self.wrong[at]))
        self.votes[at][person] = says
        return says

    def _says(self, person: int, *, is_wrong: bool) -> bool:
        chance = 1 - self.misses[person] if is_wrong else self.alarms[person]
        return bool(self.rng.random() < chance)

    def _decide(self, at: int, overlap: int) -> bool:
        who = self.rng.choice(_PEOPLE, overlap, replace=False).tolist()
        said = [self._ask(at, person) for person in who]
        if overlap == 2 and said[0] != said[1]:
            return not self._ask(at, _ADJUDICATOR)
        return 2 * sum(said) < overlap

    def _gold(self, answers: int) -> list[VotedItem]:
        items: list[VotedItem] = []
        for number in range(answers):
            person, truth = number % _PEOPLE, bool(self.rng.random() < 0.5)
            vote = Vote(str(person), self._says(person, is_wrong=truth))
            items.append(VotedItem("gold", frozenset([vote]), counts=False, wrong=truth))
        return items


class Signals(NamedTuple):
    """Pairs of texts: whether each is wrong and doubted, and signals of shape (n, d)."""

    wrong: Flags
    doubted: Flags
    values: NDArray[np.float64]


@cache
def real_signals() -> Signals:
    """Return what the check of rewrites says of the shipped pairs that it does not refuse."""
    settings = FaithfulnessSettings()
    wrong: list[bool] = []
    doubted: list[bool] = []
    values: list[list[float]] = []
    for known in shipped_pairs():
        pair = RewritePair(source=known.source, rewrite=known.rewrite)
        report = judge_rewrite(pair, settings, PEOPLE_CHECKS)
        if isinstance(report, Defect):
            continue
        major = Counter(one.change for one in report.findings if not one.minor)
        shared = content_words(pair.source) & content_words(pair.rewrite)
        signals: list[float] = [major[one] for one in ("added", "contradicted", "unsupported")]
        signals += [major["lost"], sum(one.minor for one in report.findings), len(shared)]
        signals += [len(pair.rewrite), fuzz.ratio(pair.source, pair.rewrite)]
        signals.append(length_share(pair.source, pair.rewrite))
        wrong.append(not known.faithful)
        doubted.append(report.verdict == "suspect")
        values.append(signals)
    return Signals(np.array(wrong), np.array(doubted), np.array(values, np.float64))


class SignalWorld(World):
    """Captions with real signals; their kinds are fifths of a logistic regression, once learned."""

    fifths: NDArray[np.intp] | None = None

    def _captions(self, captions: int) -> tuple[Flags, Flags]:
        known = real_signals()
        wrong = self.rng.random(captions) < self.rng.uniform(0.04, 0.12)
        right_ones, wrong_ones = np.flatnonzero(~known.wrong), np.flatnonzero(known.wrong)
        drawn = self.rng.choice(right_ones, captions), self.rng.choice(wrong_ones, captions)
        pairs = np.where(wrong, drawn[1], drawn[0])
        self.signals = np.column_stack([known.values, known.doubted])[pairs]
        return known.doubted[pairs], wrong

    def item(self, at: int) -> VotedItem:
        """Return a caption, whose kind is its fifth."""
        item = super().item(at)
        return item if self.fifths is None else item._replace(kind=f"fifth {self.fifths[at]}")

    def infer(self, draws: int = 800) -> WhoIsRight:
        """Return what the model says, with the fifths by what it says without them."""
        self.fifths = None
        found = super().infer(draws).probability
        chances = np.array([found[self.item(at)] for at in range(len(self.wrong))])
        scores = held_out_scores(self.signals, chances)
        self.fifths = np.digitize(scores, np.quantile(scores, (0.2, 0.4, 0.6, 0.8)))
        return super().infer(draws)


class WorldWithoutSignals(SignalWorld):
    """The same captions, in the kinds that queues have: doubted or not."""

    def infer(self, draws: int = 800) -> WhoIsRight:
        """Return what the model says."""
        return World.infer(self, draws)


def held_out_scores(signals: NDArray[np.float64], chances: NDArray[np.float64]) -> Any:
    """Return the scores of a logistic regression on the chances of four fifths, for the last."""
    scores, fold = np.zeros(len(chances)), np.arange(len(chances)) % 5
    for held_out in range(5):
        fitted = np.flatnonzero(fold != held_out)
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
        both = np.concatenate([signals[fitted], signals[fitted]])  # as wrong, and as right
        labels = np.repeat([1, 0], len(fitted))
        weights = np.concatenate([chances[fitted], 1 - chances[fitted]])
        model.fit(both, labels, logisticregression__sample_weight=weights)
        scores[fold == held_out] = model.decision_function(signals[fold == held_out])
    return scores


def audits_by_truth(wanted: float, share_wrong: float = 0.05) -> float:
    """Return the share audited to find `wanted` of wrong pairs, by signals that know the truth."""
    known = real_signals()
    order = np.random.default_rng(1).permutation(len(known.wrong))
    wrong, values = known.wrong[order], known.values[order]
    scores = held_out_scores(values, wrong.astype(np.float64))
    weights = np.where(wrong, share_wrong / wrong.mean(), (1 - share_wrong) / (~wrong).mean())
    first = np.argsort(-scores, kind="stable")
    last = int(np.searchsorted(np.cumsum(wrong[first]), wanted * wrong.sum()))
    return float(weights[first[: last + 1]].sum() / weights.sum())


def coverage(plan: Plan, runs: int) -> tuple[float, float, float]:
    """Return the share of intervals that contain the truth, their mean width and the mean bias."""
    covered, widths, errors = 0, [], []
    for seed in range(runs):
        world = World(plan, seed)
        found, true = world.infer().whole, float(world.wrong[world.accepted].mean())
        covered += found.interval.lower <= true <= found.interval.upper
        widths.append(found.interval.upper - found.interval.lower)
        errors.append(found.share - true)
    return covered / runs, float(np.mean(widths)), float(np.mean(errors))


Choice = Callable[[World, int, int], list[int]]


def in_proportion(world: World, size: int, seed: int) -> list[int]:
    """Draw accepted captions at random."""
    ids = {str(at): "all" for at in np.flatnonzero(world.accepted)}
    return [int(one) for one in draw(ids, size, str(seed))]


def by_doubt(world: World, size: int, seed: int) -> list[int]:
    """Draw accepted captions as `loupe queue audit` does."""
    found = world.infer()
    accepted = np.flatnonzero(world.accepted).tolist()
    chances = {str(at): found.probability[world.item(at)] for at in accepted}
    doubts = Doubts(chances)
    strata = doubts.strata(chances)
    return [int(one) for one in draw(strata, size, str(seed), doubts.spreads(strata))]


def width_after(plan: Plan, choose: Choice, size: int, runs: int) -> float:
    """Return the mean width of the interval after an audit of `size` captions."""
    widths = []
    for seed in range(runs):
        world = World(plan, seed)
        world.audit(choose(world, size, seed))
        interval = world.infer().whole.interval
        widths.append(interval.upper - interval.lower)
    return float(np.mean(widths))


def audits_to_find(
    plan: Plan, wanted: float, seed: int, make_world: Callable[[Plan, int], World] = World
) -> float:
    """Return the share of accepted captions audited until `wanted` of the wrong ones are found.

    A wrong caption is found when an auditor who is always right looks at it.
    """
    world = make_world(plan, seed)
    auditor = _PEOPLE + 1
    world.misses[auditor:], world.alarms[auditor:] = 0.0, 0.0
    accepted = np.flatnonzero(world.accepted).tolist()
    left = {at for at in accepted if world.wrong[at]}
    goal = (1 - wanted) * len(left)
    seen: set[int] = set()
    while len(left) > goal:
        found = world.infer(200).probability
        chances = {at: found[world.item(at)] for at in accepted if at not in seen}
        most = sorted(chances, key=lambda at: -chances[at])[: round(_STEP * len(accepted))]
        for at in most:
            world._ask(at, auditor)
        seen.update(most)
        left.difference_update(most)
    return len(seen) / len(accepted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    runs = parser.parse_args().runs
    print(f"intervals of the share of wrong accepted captions, {runs} runs of 800 captions each")
    for plan in PLANS:
        covered, width, bias = coverage(plan, runs)
        print(f"  {plan.name}: {100 * covered:.1f} % contain it; width {100 * width:.1f} points, "
              f"bias {100 * bias:+.2f} points", flush=True)  # fmt: skip
    few = max(1, runs // 10)
    print(f"width after an audit of 60 captions, in proportion and by doubt, {few} runs")
    for plan in PLANS:
        widths = [width_after(plan, choose, 60, few) for choose in (in_proportion, by_doubt)]
        print(f"  {plan.name}: {100 * widths[0]:.2f} and {100 * widths[1]:.2f} points", flush=True)
    print(f"share of accepted captions audited until 95 % of the wrong ones are found, {few} runs")
    print("  at random: 95 %")
    for plan in PLANS:
        shares = [audits_to_find(plan, 0.95, seed) for seed in range(few)]
        print(f"  {plan.name}: {100 * float(np.mean(shares)):.0f} %", flush=True)
    print(f"the same with real signals: {PLANS[0].name}, {few} runs; found: 50 %, 95 %")
    for name, kind in (("doubted or not", WorldWithoutSignals), ("by signals", SignalWorld)):
        halves = [
            [audits_to_find(PLANS[0], part, seed, kind) for seed in range(few)]
            for part in (0.5, 0.95)
        ]
        shown = ", ".join(f"{100 * float(np.mean(one)):.0f} %" for one in halves)
        print(f"  {name}: {shown}", flush=True)
    print(f"  signals learned from the truth: {100 * audits_by_truth(0.95):.0f} % for 95 %")


if __name__ == "__main__":
    main()
