"""Assignment of items to annotators: enough per item, none twice, within limits, and evenly."""

import time
from collections import Counter, defaultdict
from itertools import combinations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.annotate.assignment import Assignment, Item, Worker, assign

NAMES = [f"reviewer-{number}" for number in range(6)]
names = st.sampled_from(NAMES)
workers_lists = st.lists(
    st.builds(Worker, names, st.integers(0, 8), st.none()),
    unique_by=lambda worker: worker.pseudonym,
)
limited_lists = st.lists(
    st.builds(Worker, names, st.integers(0, 8), st.none() | st.integers(0, 8)),
    unique_by=lambda worker: worker.pseudonym,
)
items_lists = st.lists(
    st.builds(
        Item, st.integers(0, 99).map(str), st.frozensets(names, max_size=4), st.integers(0, 3)
    ),
    unique_by=lambda item: item.entity_id,
    max_size=40,
)
overlaps = st.integers(1, 4)
seeds = st.text(max_size=3)


def people(assignments: list[Assignment], entity_id: str) -> set[str]:
    return {one.pseudonym for one in assignments if one.entity_id == entity_id}


def new_items(count: int) -> list[Item]:
    return [Item(f"item {number}", frozenset(), 0) for number in range(count)]


def idle_workers(count: int) -> list[Worker]:
    return [Worker(name, 0) for name in NAMES[:count]]


@settings(deadline=None)
@given(items_lists, workers_lists, overlaps, seeds)
def test_items_go_to_at_most_the_needed_number_of_new_annotators(
    items: list[Item], workers: list[Worker], overlap: int, seed: str
) -> None:
    found = assign(items, workers, overlap, seed)
    assert len(set(found)) == len(found)
    for item in items:
        got = people(found, item.entity_id)
        assert not got & item.past
        assert len(got) <= max(0, overlap - item.active)
        left = {worker.pseudonym for worker in workers} - item.past
        enough = item.active + len(got) >= overlap
        assert enough == (item.active + len(left) >= overlap)


@settings(deadline=None)
@given(items_lists, limited_lists, overlaps, seeds)
def test_limits_hold_and_every_free_annotator_is_used(
    items: list[Item], workers: list[Worker], overlap: int, seed: str
) -> None:
    found = assign(items, workers, overlap, seed)
    new = Counter(one.pseudonym for one in found)
    assert all(w.room is None or new[w.pseudonym] <= w.room for w in workers)
    free = {w.pseudonym for w in workers if w.room is None or new[w.pseudonym] < w.room}
    for item in items:
        got = people(found, item.entity_id)
        if len(got) + item.active < overlap:
            assert free <= got | item.past


@settings(deadline=None)
@given(items_lists, workers_lists, overlaps, seeds, st.randoms())
def test_the_order_of_items_and_workers_does_not_matter(
    items: list[Item],
    workers: list[Worker],
    overlap: int,
    seed: str,
    chance: Random,
) -> None:
    found = assign(items, workers, overlap, seed)
    other_items = chance.sample(items, len(items))
    other_workers = chance.sample(workers, len(workers))
    assert assign(other_items, other_workers, overlap, seed) == found


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(1, 6), overlaps, st.integers(0, 5), seeds)
def test_without_other_constraints_loads_differ_by_at_most_one(
    count: int, size: int, overlap: int, already: int, seed: str
) -> None:
    workers = [Worker(name, already) for name in NAMES[:size]]
    found = assign(new_items(count), workers, overlap, seed)
    loads = Counter({worker.pseudonym: 0 for worker in workers})
    loads.update(one.pseudonym for one in found)
    assert loads.total() == count * min(overlap, size)
    assert max(loads.values()) - min(loads.values()) <= 1


@settings(deadline=None, max_examples=6)
@given(st.integers(2, 6), st.integers(2, 4), seeds)
def test_all_pairs_of_annotators_share_items(size: int, overlap: int, seed: str) -> None:
    """With 2,000 items, a random pair never falls below half of its even share (133 or more)."""
    found = assign(new_items(2000), idle_workers(size), overlap, seed)
    teams: dict[str, list[str]] = defaultdict(list)
    for one in found:
        teams[one.entity_id].append(one.pseudonym)
    shared = Counter(pair for team in teams.values() for pair in combinations(sorted(team), 2))
    pairs = list(combinations(NAMES[:size], 2))
    even = shared.total() / len(pairs)
    assert all(even / 2 < shared[pair] < even * 2 for pair in pairs)


def test_new_tasks_go_to_the_annotator_with_fewest_open_tasks() -> None:
    workers = [Worker("busy", 10), Worker("free", 0)]
    found = assign(new_items(10), workers, 1, "")
    assert Counter(one.pseudonym for one in found) == {"free": 10}
    found = assign(new_items(30), workers, 1, "")
    assert Counter(one.pseudonym for one in found) == {"free": 20, "busy": 10}


def test_items_with_answers_are_assigned_first() -> None:
    started = Item("started", frozenset({"a"}), 1)
    found = assign([*new_items(20), started], [Worker("a", 0, 1), Worker("b", 0, 1)], 2, "")
    assert Assignment("started", "b") in found


def test_items_with_a_priority_are_assigned_before_those_with_answers() -> None:
    started, urgent = Item("started", frozenset({"b"}), 1), Item("urgent", frozenset(), 0, 2)
    found = assign([*new_items(20), started, urgent], [Worker("a", 0, 2)], 2, "")
    assert [one.entity_id for one in found] == ["urgent", "started"]


def test_without_workers_or_items_there_are_no_assignments() -> None:
    assert assign(new_items(3), [], 2, "") == []
    assert assign([], idle_workers(2), 2, "") == []


def test_twenty_thousand_items_are_assigned_within_seconds() -> None:
    items = new_items(20_000)
    workers = [Worker(f"reviewer-{number}", 0) for number in range(20)]
    started = time.process_time()
    found = assign(items, workers, 2, "seed")
    assert time.process_time() - started < 5
    assert len(found) == 40_000
