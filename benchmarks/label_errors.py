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
"""

import argparse
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from loupe.annotate.assignment import draw
from loupe.annotate.statistics.dawid_skene import Vote, VotedItem, WhoIsRight, who_is_right
from loupe.annotate.statistics.label_errors import Doubts

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
        self.doubted = rng.random(captions) < 0.2
        rates = rng.uniform(0.01, 0.06), rng.uniform(0.1, 0.35)
        self.wrong = rng.random(captions) < np.where(self.doubted, rates[1], rates[0])
        self.votes: list[dict[int, bool]] = [{} for _ in range(captions)]
        self.accepted = np.array([self._decide(at, plan.overlap) for at in range(captions)])
        self.gold = self._gold(round(plan.gold * captions * plan.overlap))
        chosen = rng.permutation(np.flatnonzero(self.accepted))[: plan.audits]
        self.audit(chosen.tolist())

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


def audits_to_find(plan: Plan, wanted: float, seed: int) -> float:
    """Return the share of accepted captions audited until `wanted` of the wrong ones are found.

    A wrong caption is found when an auditor who is always right looks at it.
    """
    world = World(plan, seed)
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


if __name__ == "__main__":
    main()
