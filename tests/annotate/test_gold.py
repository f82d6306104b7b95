"""Gold items: share, selection, positions among other items, and accuracy."""

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.annotate.assignment import Assignment
from loupe.annotate.gold import Rule, Seen, drift, gold_in_batch, mix
from loupe.db.gold import StoredCheck

START = datetime(2026, 1, 1, tzinfo=UTC)
entities = st.integers(0, 30).map(str)
people = st.sampled_from(["a", "b", "c"])
assignment_lists = st.lists(st.builds(Assignment, entities, people, st.just(False)), unique=True)
histories = st.dictionaries(
    people, st.builds(Seen, st.frozensets(entities), st.frozensets(entities))
)
plans = st.dictionaries(people, st.integers(0, 9))
gold_sets = st.sets(st.integers(20, 50).map(str))


def batch(start: int, count: int, pseudonym: str = "a") -> list[Assignment]:
    return [Assignment(f"item {number}", pseudonym) for number in range(start, start + count)]


def checks(*correct: bool) -> list[StoredCheck]:
    """Return checks of answers given in this order, newest first."""
    oldest_first = [
        StoredCheck(str(number), "a", str(number), right, START + timedelta(hours=number), {})
        for number, right in enumerate(correct)
    ]
    return oldest_first[::-1]


@settings(deadline=None, max_examples=30)
@given(assignment_lists, gold_sets, plans, histories, st.text(max_size=3))
def test_all_ordinary_items_stay_and_no_gold_item_is_repeated(
    assignments: list[Assignment],
    gold: set[str],
    planned: dict[str, int],
    seen: dict[str, Seen],
    seed: str,
) -> None:
    mixed = mix(assignments, gold, planned, seen, seed)
    assert sorted(one for one in mixed if not one.gold) == sorted(assignments)
    drawn = [one for one in mixed if one.gold]
    assert {one.entity_id for one in drawn} <= gold
    asked = Counter((one.pseudonym, one.entity_id) for one in mixed)
    assert set(asked.values()) <= {1}
    for one in drawn:
        history = seen.get(one.pseudonym, Seen())
        assert one.entity_id not in history.gold | history.ordinary
    counts = Counter(one.pseudonym for one in drawn)
    assert all(count <= planned[name] for name, count in counts.items())
    assert mix(assignments[::-1], sorted(gold, reverse=True), planned, seen, seed) == mixed


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(10, 40), max_size=12), st.floats(0.02, 0.3), st.text(max_size=3))
def test_the_share_of_gold_over_the_whole_history_follows_the_rate(
    sizes: list[int], rate: float, seed: str
) -> None:
    gold = [f"gold {number}" for number in range(600)]
    seen = Seen()
    for size in sizes:
        planned = gold_in_batch(size, gold, rate, seen, "a", seed)
        ordinary = batch(len(seen.ordinary), size - planned)
        mixed = mix(ordinary, gold, {"a": planned}, {"a": seen}, seed)
        seen = Seen(
            seen.ordinary | {one.entity_id for one in mixed if not one.gold},
            seen.gold | {one.entity_id for one in mixed if one.gold},
        )
        assert abs(len(seen.gold) - rate * (len(seen.ordinary) + len(seen.gold))) <= 2.5


def test_a_batch_is_never_all_gold() -> None:
    """Even if so many are missing that the share would allow it."""
    gold = [f"gold {number}" for number in range(50)]
    seen = Seen(frozenset(f"item {number}" for number in range(100)))
    for size in range(5):
        assert gold_in_batch(size, gold, 0.5, seen, "a", "") == max(0, size - 1)


def test_gold_items_of_the_qualification_count_for_no_share() -> None:
    gold = [f"gold {number}" for number in range(50)]
    ordinary, qualifying = frozenset(map(str, range(30))), frozenset(gold[:6])
    for seed in map(str, range(10)):
        without = gold_in_batch(20, gold, 0.2, Seen(ordinary), "a", seed)
        assert without > 0
        qualified = Seen(ordinary, qualifying, qualifying=6)
        assert gold_in_batch(20, gold, 0.2, qualified, "a", seed) == without


def test_gold_items_are_spread_evenly_over_a_batch() -> None:
    gold = [f"gold {number}" for number in range(10)]
    places: Counter[int] = Counter()
    for number in range(200):
        mixed = mix(batch(0, 90), gold, {"a": 10}, {}, f"seed {number}")
        places.update(place // 20 for place, one in enumerate(mixed) if one.gold)
    assert places.total() == 200 * 10
    assert all(330 < places[fifth] < 470 for fifth in range(5))


def test_the_size_of_small_batches_does_not_reveal_gold_items() -> None:
    """If every ninth item came with a gold item, annotators would learn to count."""
    first = [
        next(n for n in range(2, 40) if gold_in_batch(n, ["g"], 0.1, Seen(), "a", seed))
        for seed in map(str, range(30))
    ]
    assert len(set(first)) > 4


def test_each_annotator_has_another_order() -> None:
    gold = [f"gold {number}" for number in range(20)]
    planned = {"a": 7, "b": 7}
    mixed = mix([*batch(0, 30, "a"), *batch(0, 30, "b")], gold, planned, {}, "")
    orders = {name: [one[::2] for one in mixed if one.pseudonym == name] for name in "ab"}
    assert orders["a"] != orders["b"]


def test_without_a_rate_gold_items_or_assignments_nothing_is_mixed_in() -> None:
    assert gold_in_batch(500, ["g"], 0.0, Seen(), "a", "") == 0
    assert gold_in_batch(500, [], 0.5, Seen(), "a", "") == 0
    assert mix([], ["g"], {"a": 1}, {}, "") == []


def test_accuracy_covers_only_the_newest_answers() -> None:
    answered = checks(False, False, True, True, True)
    for window, accuracy in ((3, None), (4, (3, 4)), (20, (3, 5))):
        assert drift(answered, Rule(0.9, window, 1)) == accuracy
    assert drift([], Rule(0.9, 20, 1)) is None
