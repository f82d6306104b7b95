"""Who is right, inferred from the answers of several people."""

from random import Random

import numpy as np
import pytest

from loupe.annotate.statistics.dawid_skene import Vote, VotedItem, WhoIsRight, who_is_right


def voted(kind: str, counts: bool = True, wrong: bool | None = None, **votes: bool) -> VotedItem:
    said = frozenset(Vote(person, is_wrong) for person, is_wrong in votes.items())
    return VotedItem(kind, said, counts, wrong)


def quick(items: list[VotedItem]) -> WhoIsRight:
    return who_is_right(items, draws=1000, burn_in=200)


def test_the_answer_of_a_careful_person_outweighs_that_of_a_careless_one() -> None:
    """Gold items show who is careful; both then disagree on items with no known answer."""
    gold = [
        voted("gold", counts=False, wrong=True, careful=True),
        voted("gold", counts=False, wrong=True, careless=False),
        voted("gold", counts=False, wrong=False, careful=False),
        voted("gold", counts=False, wrong=False, careless=True),
    ] * 20
    doubts = voted("caption", careful=True, careless=False)
    passes = voted("caption", careful=False, careless=True)
    found = quick([*gold, *[doubts] * 10, *[passes] * 90])
    assert found.probability[doubts] > 0.8
    assert found.probability[passes] < 0.1
    assert found.misses["careless"] > 0.6 > 0.2 > found.misses["careful"]
    assert found.whole.items == 100
    assert found.whole.share == pytest.approx(0.1, abs=0.03)


def test_agreement_of_several_people_is_stronger_than_one_opinion() -> None:
    """Each item is seen by one or by three people, who pass nearly all."""
    one = voted("caption", first=False)
    three = voted("caption", first=False, second=False, third=False)
    found = quick([one] * 100 + [three] * 100 + [voted("caption", first=True, second=True)] * 20)
    assert found.probability[three] < found.probability[one] / 2


def test_items_nobody_saw_are_as_often_wrong_as_those_of_their_kind() -> None:
    seen = [voted("doubted", auditor=number < 30) for number in range(100)]
    passed = [voted("passed", auditor=False)] * 100
    unseen = {kind: voted(kind) for kind in ("doubted", "passed")}
    found = quick([*seen, *passed, *(one for one in unseen.values() for _ in range(50))])
    assert 0.3 < found.probability[unseen["doubted"]] < 0.6, "the only person may miss some"
    assert found.probability[unseen["passed"]] < 0.08
    assert found.shares["doubted"].items == found.shares["passed"].items == 150


def test_the_order_of_items_and_rejected_items_do_not_change_what_is_counted() -> None:
    items = [
        voted("caption", first=number % 7 == 0, second=number % 5 == 0) for number in range(99)
    ]
    rejected = [voted("caption", counts=False, first=True, second=True)] * 5
    shuffled = [*items, *rejected]
    Random(1).shuffle(shuffled)
    assert quick([*items, *rejected]) == quick(shuffled)
    assert quick(shuffled).whole.items == 99


def test_without_answers_nothing_is_known() -> None:
    found = quick([voted("caption")] * 10)
    assert found.whole.interval.lower < 0.05
    assert found.whole.interval.upper > 0.95


@pytest.mark.parametrize("overlap", [1, 2])
def test_intervals_contain_the_true_share(overlap: int) -> None:
    """A small version of `benchmarks/label_errors.py`: 20 worlds, of which 19 are expected."""
    covered = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        misses, alarms = rng.uniform(0.05, 0.4, 5), rng.uniform(0.01, 0.1, 5)
        wrong = rng.random(400) < rng.uniform(0.03, 0.15)
        items = []
        for is_wrong in wrong:
            who = rng.choice(4, overlap, replace=False).tolist()
            who += [4] if rng.random() < 0.2 else []  # the auditor
            said = [rng.random() < (1 - misses[one] if is_wrong else alarms[one]) for one in who]
            items.append(
                voted("caption", **{f"p{one}": bool(s) for one, s in zip(who, said, strict=True)})
            )
        found = quick(items).whole.interval
        covered += found.lower <= wrong.mean() <= found.upper
    assert covered >= 17
