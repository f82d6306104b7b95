"""The error of the labels in a store, and which items are audited to know it better."""

import pytest

from loupe.annotate.assignment import allocate_weighted
from loupe.annotate.audits import DOUBT, draw_audit_sample
from loupe.annotate.queues import shipped
from loupe.annotate.statistics.label_errors import (
    EDITED,
    PASSED,
    UNMEASURED,
    Doubts,
    LabelErrors,
    doubts_of,
    label_errors,
    most_doubtful,
)
from loupe.db.entities import new_entity
from loupe.db.store import Store
from loupe.schemas.provenance import Role
from loupe.schemas.records import Rewrite
from tests.db.review_samples import Desk, store_rewrites
from tests.db.samples import store_entities

REWRITES = shipped().queue("people", "rewrites")


@pytest.fixture
def desk(sqlite_store: Store) -> Desk:
    return Desk(sqlite_store)


def accepted_by(desk: Desk, people: str, count: int, first: int, doubting: str = "") -> list[str]:
    """Store accepted items that each of `people` answered; `doubting` would reject them."""
    items = store_rewrites(desk.store, count, "street", first)
    for item in items:
        for person in doubting:
            desk.answer(item, person, "reject")
        keys = [desk.answer(item, person) for person in people]
        desk.decide(item, "accept", keys[-1])
    return items


def errors(desk: Desk) -> LabelErrors:
    found = label_errors(desk.store, REWRITES)
    assert found is not None
    return found


def test_items_that_one_of_three_doubted_are_the_most_doubtful(desk: Desk) -> None:
    agreed = accepted_by(desk, "abc", 40, 0)
    disputed = accepted_by(desk, "ab", 4, 100, doubting="c")
    found = errors(desk)
    assert {id_ for id_, _ in list(most_doubtful(found))[:4]} == set(disputed)
    assert found.probability.keys() == {*agreed, *disputed}
    assert found.statistics.answered == found.statistics.items == 44
    assert (found.statistics.people, found.statistics.audited) == (3, 0)
    assert [one.kind for one in found.statistics.kinds] == [PASSED]


def test_audits_gold_items_and_rejected_items_count_but_only_accepted_ones_are_estimated(
    desk: Desk,
) -> None:
    accepted = accepted_by(desk, "a", 30, 0)
    before = errors(desk).statistics
    for item in accepted[:20]:
        desk.answer(item, "b", "accept", "audit")
    audited = errors(desk).statistics
    assert (before.items, audited.items, audited.audited) == (30, 30, 20)
    assert audited.upper < before.upper
    for item in store_rewrites(desk.store, 10, "street", 200):
        desk.decide(item, "reject", desk.answer(item, "a", "reject"))
    after = errors(desk).statistics
    assert after.items == 30
    assert after.upper > audited.upper, "a quarter of what was proposed was wrong"


def test_a_kind_that_nobody_answered_about_is_not_measured(desk: Desk) -> None:
    shown = accepted_by(desk, "a", 5, 0)[0]
    record = Rewrite(source="street", text="put right", author="b")
    edited = new_entity(record, "people", parents=[(Role.EDITED_FROM, shown)], split="test")
    store_entities(desk.store, [edited])
    desk.decide(edited.id, "accept", desk.answer(shown, "b", "edit"))
    found = errors(desk)
    assert found.kinds[edited.id] == EDITED
    assert edited.id not in found.probability
    assert (found.statistics.unmeasured, found.statistics.items) == (1, 5)
    assert found.statistics.unmeasured_edits == 1
    assert Doubts(found.probability).strata([edited.id]) == {edited.id: UNMEASURED}


def test_an_audit_draws_more_where_items_vary_more(desk: Desk) -> None:
    accepted_by(desk, "abc", 60, 0)
    disputed = accepted_by(desk, "ab", 6, 100, doubting="c")
    found = errors(desk)
    doubts = doubts_of(desk.store, REWRITES)
    drawn = draw_audit_sample(desk.store, REWRITES, 12, 0, (DOUBT,), doubts=doubts)
    strata = doubts.strata(found.kinds)
    assert sum(drawn.strata.values()) == 66, "all are weighted by the sizes of their strata"
    weights = doubts.spreads(strata)
    assert weights[strata[disputed[0]]] == max(weights.values())
    sizes = {name: list(strata.values()).count(name) for name in weights}
    wanted = allocate_weighted(sizes, weights, 12)
    assert wanted[strata[disputed[0]]] > 12 * 6 / 66


def test_sample_sizes_follow_weights_and_never_exceed_a_stratum() -> None:
    sizes, weights = (
        {"sure": 1000, "doubtful": 20, "rare": 1},
        {"sure": 0.1, "doubtful": 0.5, "rare": 0.5},
    )
    assert allocate_weighted(sizes, weights, 24) == {"sure": 19, "doubtful": 4, "rare": 1}
    assert allocate_weighted(sizes, weights, 2000) == sizes
    assert sum(allocate_weighted(sizes, weights, 3).values()) == 3


def test_nobody_answered(desk: Desk) -> None:
    store_rewrites(desk.store, 3)
    assert label_errors(desk.store, REWRITES) is None
