"""Audit samples: which items are drawn, who audits them, and the resulting error rates."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.annotate.assignment import allocate, draw
from loupe.annotate.audits import STRATA, draw_audit_sample, wanted
from loupe.annotate.queues import shipped
from loupe.db.decisions import append_decisions
from loupe.db.entities import NewDecision, find, new_entity
from loupe.db.review_audits import accepted_items, audited_draws
from loupe.db.reviews import gate_counts
from loupe.db.store import Store
from loupe.schemas.errors import UsageError
from loupe.schemas.provenance import Role
from loupe.schemas.quality import AuditedDraw, Stratum, summarise
from loupe.schemas.records import Rewrite
from tests.db.review_samples import QUEUE, Desk, store_rewrites
from tests.db.samples import SOFTWARE, caption, store_entities

REWRITES = shipped().queue("people", "rewrites")


@pytest.fixture
def desk(sqlite_store: Store) -> Desk:
    return Desk(sqlite_store)


def accept(desk: Desk, count: int, source: str = "street", first: int = 0) -> list[str]:
    """Store items that `a` accepted."""
    items = store_rewrites(desk.store, count, source, first)
    for entity_id in items:
        desk.decide(entity_id, "accept", desk.answer(entity_id, "a"))
    return items


def by_policy(desk: Desk, count: int) -> list[str]:
    """Store items that a policy accepted without review."""
    items = store_rewrites(desk.store, count, "street", first=1000)
    with desk.store.write() as connection:
        append_decisions(connection, [NewDecision(one, "accept", SOFTWARE) for one in items])
    return items


def edit(desk: Desk, number: int) -> tuple[str, str]:
    """Store an item that `b` edited, and return both ids."""
    (shown,) = store_rewrites(desk.store, 1, first=number)
    record = Rewrite(source="street", text=f"put right {number}", author="b")
    edited = new_entity(record, "people", parents=[(Role.EDITED_FROM, shown)], split="test")
    store_entities(desk.store, [edited])
    key = desk.answer(shown, "b", "edit")
    desk.decide(shown, "edit", key, edited.id)
    desk.decide(edited.id, "accept", key)
    return shown, edited.id


def audits(desk: Desk) -> list[AuditedDraw]:
    with desk.store.read() as connection:
        return audited_draws(connection, "people")


def test_accepted_items_state_how_they_were_accepted(desk: Desk) -> None:
    (plain,) = accept(desk, 1)
    (unreviewed,) = by_policy(desk, 1)
    _, edited = edit(desk, 50)
    (adjudicated,) = store_rewrites(desk.store, 1, "park", first=60)
    desk.decide(adjudicated, "accept", desk.answer(adjudicated, "judge", purpose="adjudication"))
    (reopened,) = accept(desk, 1, first=70)
    with desk.store.write() as connection:
        append_decisions(connection, [NewDecision(reopened, "reopen", SOFTWARE)])
    accepted = find(desk.store, "people", "rewrite", states=("accepted",))
    found = {item.entity_id: item[1:] for item in accepted_items(desk.store, accepted)}
    assert found == {
        plain: ("test", "street", "accept"),
        unreviewed: ("test", "street", "policy"),
        edited: ("test", "street", "edit"),
        adjudicated: ("test", "park", "adjudicated"),
    }


def test_items_are_counted_by_their_last_decision(desk: Desk) -> None:
    gate = REWRITES.agent
    kept, overruled, reopened = store_rewrites(desk.store, 3, first=1000)
    by_gate = [NewDecision(one, "accept", gate) for one in (kept, overruled, reopened)]
    with desk.store.write() as connection:
        append_decisions(connection, [*by_gate, NewDecision(reopened, "reopen", gate)])
    desk.decide(overruled, "reject", desk.answer(overruled, "a", "reject"))
    edit(desk, 50)
    _, asked_again = accept(desk, 2)
    with desk.store.write() as connection:
        append_decisions(connection, [NewDecision(asked_again, "reopen", SOFTWARE)])
    counts = {one.policy: one.entities for one in gate_counts(desk.store, "people")}
    assert counts == {"required": 1, "": 3}, "kept; overruled, edited (not its text) and plain"


def test_a_sample_is_proportional_and_drawing_again_does_not_change_it(desk: Desk) -> None:
    street, park = accept(desk, 30), accept(desk, 10, "park", first=100)
    drawn = draw_audit_sample(desk.store, REWRITES, 8, seed=1, by=("source",))
    assert (drawn.drawn, drawn.strata, drawn.is_new) == (8, {"park": 10, "street": 30}, True)
    items = {item.entity_id for item in wanted(desk.store, REWRITES)}
    assert (len(items & set(street)), len(items & set(park))) == (6, 2)
    accept(desk, 5, first=200)
    again = draw_audit_sample(desk.store, REWRITES, 8, seed=1, by=("source",))
    assert again == drawn._replace(is_new=False)
    assert {item.entity_id for item in wanted(desk.store, REWRITES)} == items
    draw_audit_sample(desk.store, REWRITES, 8, seed=2, by=("source",))
    assert {item.entity_id for item in wanted(desk.store, REWRITES)} > items


def test_strata_are_named_by_their_values(desk: Desk) -> None:
    accept(desk, 2)
    by_policy(desk, 1)
    drawn = draw_audit_sample(desk.store, REWRITES, 3, seed=1)
    assert drawn.strata == {"test · street · accept": 2, "test · street · policy": 1}
    assert draw_audit_sample(desk.store, REWRITES, 1, seed=1, by=()).strata == {"all": 3}
    with pytest.raises(UsageError, match="split, source, verdict, doubt; got colour"):
        draw_audit_sample(desk.store, REWRITES, 3, seed=1, by=("colour",))


def test_without_accepted_items_drawing_is_an_error(desk: Desk) -> None:
    with pytest.raises(UsageError, match="nothing of queue 'people-rewrites' is accepted"):
        draw_audit_sample(desk.store, REWRITES, 3, seed=1)


def test_items_that_another_queue_decides_are_not_drawn(desk: Desk) -> None:
    own = caption(1)
    of_v1 = caption(2, [(Role.CONFUSES, own.id)])
    store_entities(desk.store, [own, of_v1])
    decisions = [NewDecision(one.id, "accept", SOFTWARE) for one in (own, of_v1)]
    with desk.store.write() as connection:
        append_decisions(connection, decisions)
    captions = shipped().queue("people", "captions")
    assert draw_audit_sample(desk.store, captions, 9, seed=1).drawn == 1
    assert [item.entity_id for item in wanted(desk.store, captions)] == [own.id]


def test_earlier_annotators_of_an_item_are_not_asked_to_audit_it(desk: Desk) -> None:
    (plain,) = accept(desk, 1)
    desk.answer(plain, "c")
    _, edited = edit(desk, 50)
    draw_audit_sample(desk.store, REWRITES, 2, seed=1)
    past = {item.entity_id: item.past for item in wanted(desk.store, REWRITES)}
    assert past == {plain: {"a", "c"}, edited: {"b"}}


def test_a_drawn_item_is_pending_until_it_is_assigned(desk: Desk) -> None:
    (only,) = accept(desk, 1)
    draw_audit_sample(desk.store, REWRITES, 1, seed=1)
    desk.give(only, "b", "audit")
    assert wanted(desk.store, REWRITES) == []
    desk.close(only, "b")
    (item,) = wanted(desk.store, REWRITES)
    assert item.past == {"a", "b"}
    desk.answer(only, "c", "accept", "audit")
    assert wanted(desk.store, REWRITES) == []


def test_withdrawn_items_are_not_audited(desk: Desk) -> None:
    (only,) = accept(desk, 1)
    draw_audit_sample(desk.store, REWRITES, 1, seed=1)
    with desk.store.write() as connection:
        append_decisions(connection, [NewDecision(only, "withdraw", SOFTWARE)])
    assert wanted(desk.store, REWRITES) == []


def test_the_error_rate_follows_from_the_audit_answers(desk: Desk) -> None:
    street, park = accept(desk, 6), accept(desk, 4, "park", first=100)
    draw_audit_sample(desk.store, REWRITES, 10, seed=1, by=("source",))
    assert audits(desk) == []
    for entity_id in [*street[:5], *park[:2]]:
        desk.answer(entity_id, "b", "accept", "audit")
    desk.answer(park[2], "b", "reject", "audit")
    desk.answer(park[2], "c", "accept")  # not an audit answer
    (draw,) = audits(desk)
    assert draw == AuditedDraw(
        QUEUE, ("source",), 10, {"park": Stratum(4, 3, 1), "street": Stratum(6, 5, 0)}, (park[2],)
    )
    found = summarise(draw)
    assert (found.drawn, found.audited, found.wrong) == (10, 8, 1)
    assert found.error_rate == pytest.approx(0.4 / 3, abs=1e-4)
    assert str(found).endswith("; 2 to come")


def test_the_newest_draw_with_answers_counts(store: Store) -> None:
    desk = Desk(store)
    items = accept(desk, 10)
    draw_audit_sample(desk.store, REWRITES, 4, seed=1, by=())
    for item in wanted(desk.store, REWRITES):
        desk.answer(item.entity_id, "b", "accept", "audit")
    (first,) = audits(desk)
    assert first.drawn == 4
    draw_audit_sample(desk.store, REWRITES, 10, seed=2, by=())
    for item in wanted(desk.store, REWRITES):
        desk.answer(item.entity_id, "b", "reject", "audit")
    (second,) = audits(desk)
    assert second.strata == {"all": Stratum(10, 10, 6)}
    assert set(second.wrong_items) < set(items)
    with desk.store.read() as connection:
        assert audited_draws(connection, "others") == []
        assert audited_draws(connection, "people", "people-captions") == []


def test_the_summary_has_the_format_of_the_release_card() -> None:
    draw = AuditedDraw(QUEUE, STRATA, 200, {"all": Stratum(5000, 200, 3)}, ())
    assert str(summarise(draw)) == "3 of 200 wrong, 1.5 % (95 % interval 0.5–4.3 %)"


populations = st.dictionaries(st.text(max_size=2), st.integers(0, 50), max_size=6)
stratum_by_item = st.dictionaries(st.integers().map(str), st.sampled_from("abc"), max_size=60)
sizes = st.integers(0, 80)


@given(populations, sizes)
def test_every_stratum_gets_its_proportional_share_within_one_item(
    counts: dict[str, int], size: int
) -> None:
    allocated = allocate(counts, size)
    total = sum(counts.values())
    assert sum(allocated.values()) == min(size, total)
    for name, count in counts.items():
        assert 0 <= allocated[name] <= count
        if total:
            assert abs(allocated[name] - min(size, total) * count / total) < 1


def test_rounding_gives_the_remainder_to_the_largest_fractions() -> None:
    cases: list[tuple[dict[str, int], int, dict[str, int]]] = [
        ({"a": 50, "b": 30, "c": 20}, 10, {"a": 5, "b": 3, "c": 2}),
        ({"a": 53, "b": 24, "c": 23}, 10, {"a": 5, "b": 3, "c": 2}),
        ({"a": 1, "b": 1}, 1, {"a": 1, "b": 0}),
        ({"a": 2, "b": 0}, 5, {"a": 2, "b": 0}),
        ({}, 5, {}),
    ]
    for counts, size, expected in cases:
        assert allocate(counts, size) == expected, (counts, size)


@given(stratum_by_item, sizes, st.text(max_size=2))
def test_a_sample_does_not_depend_on_the_order_of_items(
    items: dict[str, str], size: int, seed: str
) -> None:
    drawn = draw(items, size, seed)
    assert len(set(drawn)) == len(drawn) == min(size, len(items))
    assert draw(dict(reversed(items.items())), size, seed) == drawn
    wanted = allocate(Counter(items.values()), size)
    assert Counter(items[entity_id] for entity_id in drawn) == Counter(wanted)


def test_a_larger_sample_of_one_stratum_contains_the_smaller() -> None:
    items = {str(number): "all" for number in range(100)}
    assert set(draw(items, 10, "s")) < set(draw(items, 20, "s"))
    assert set(draw(items, 10, "s")) != set(draw(items, 10, "another"))
