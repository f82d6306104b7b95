"""Audits: what is drawn, who is asked, and what the answers come to."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotate.audits import STRATA, allocate, draw, draw_audit_sample, wanted
from annotate.queues import shipped
from db.decisions import NewDecision, append_decisions
from db.entities import new_entity
from db.review_audits import accepted_items, audited_draws
from db.store import Store
from schemas.errors import UsageError
from schemas.provenance import Role
from schemas.quality import AuditedDraw, Stratum, summarise
from schemas.records import Rewrite
from tests.db.review_samples import QUEUE, Desk, store_rewrites
from tests.db.samples import SOFTWARE, store_entities

REWRITES = shipped().queue("people", "rewrites")


@pytest.fixture
def desk(store: Store) -> Desk:
    return Desk(store)


def accept(desk: Desk, count: int, source: str = "street", first: int = 0) -> list[str]:
    """Items that `a` accepted."""
    items = store_rewrites(desk.store, count, source, first)
    for entity_id in items:
        desk.decide(entity_id, "accept", desk.answer(entity_id, "a"))
    return items


def by_policy(desk: Desk, count: int) -> list[str]:
    """Items that nobody looked at."""
    items = store_rewrites(desk.store, count, "street", first=1000)
    with desk.store.write() as connection:
        append_decisions(connection, [NewDecision(one, "accept", SOFTWARE) for one in items])
    return items


def edit(desk: Desk, number: int) -> tuple[str, str]:
    """An item that `b` edited, and the edit."""
    (shown,) = store_rewrites(desk.store, 1, first=number)
    record = Rewrite(source="street", text=f"put right {number}", author="b")
    made = new_entity(record, "people", parents=[(Role.EDITED_FROM, shown)], split="test")
    store_entities(desk.store, [made])
    key = desk.answer(shown, "b", "edit")
    desk.decide(shown, "edit", key, made.id)
    desk.decide(made.id, "accept", key)
    return shown, made.id


def looked(desk: Desk) -> list[AuditedDraw]:
    with desk.store.read() as connection:
        return audited_draws(connection, "people")


def test_accepted_items_tell_how_they_came_to_be(desk: Desk) -> None:
    (plain,) = accept(desk, 1)
    (unseen,) = by_policy(desk, 1)
    _, edited = edit(desk, 50)
    (settled,) = store_rewrites(desk.store, 1, "park", first=60)
    desk.decide(settled, "accept", desk.answer(settled, "judge", purpose="adjudication"))
    (reopened,) = accept(desk, 1, first=70)
    with desk.store.write() as connection:
        append_decisions(connection, [NewDecision(reopened, "reopen", SOFTWARE)])
    found = {item.entity_id: item[1:] for item in accepted_items(desk.store, "people", "rewrite")}
    assert found == {
        plain: ("test", "street", "accept"),
        unseen: ("test", "street", "policy"),
        edited: ("test", "street", "edit"),
        settled: ("test", "park", "adjudicated"),
    }


def test_the_sample_is_in_proportion_and_stays_as_it_was(desk: Desk) -> None:
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


def test_strata_are_named_by_what_they_are(desk: Desk) -> None:
    accept(desk, 2)
    by_policy(desk, 1)
    drawn = draw_audit_sample(desk.store, REWRITES, 3, seed=1)
    assert drawn.strata == {"test · street · accept": 2, "test · street · policy": 1}
    assert draw_audit_sample(desk.store, REWRITES, 1, seed=1, by=()).strata == {"all": 3}
    with pytest.raises(UsageError, match="split, source, verdict; got colour"):
        draw_audit_sample(desk.store, REWRITES, 3, seed=1, by=("colour",))


def test_nothing_accepted_is_nothing_to_draw(desk: Desk) -> None:
    with pytest.raises(UsageError, match="nothing of queue 'people-rewrites' is accepted"):
        draw_audit_sample(desk.store, REWRITES, 3, seed=1)


def test_whoever_had_a_part_in_an_item_is_not_asked_again(desk: Desk) -> None:
    (plain,) = accept(desk, 1)
    desk.answer(plain, "c")
    _, edited = edit(desk, 50)
    draw_audit_sample(desk.store, REWRITES, 2, seed=1)
    past = {item.entity_id: item.past for item in wanted(desk.store, REWRITES)}
    assert past == {plain: {"a", "c"}, edited: {"b"}}


def test_an_item_is_asked_for_until_somebody_has_it(desk: Desk) -> None:
    (only,) = accept(desk, 1)
    draw_audit_sample(desk.store, REWRITES, 1, seed=1)
    desk.give(only, "b", "audit")
    assert wanted(desk.store, REWRITES) == []
    desk.close(only, "b")
    (item,) = wanted(desk.store, REWRITES)
    assert item.past == {"a", "b"}
    desk.answer(only, "c", "accept", "audit")
    assert wanted(desk.store, REWRITES) == []


def test_what_was_withdrawn_is_not_looked_at(desk: Desk) -> None:
    (only,) = accept(desk, 1)
    draw_audit_sample(desk.store, REWRITES, 1, seed=1)
    with desk.store.write() as connection:
        append_decisions(connection, [NewDecision(only, "withdraw", SOFTWARE)])
    assert wanted(desk.store, REWRITES) == []


def test_what_is_found_makes_an_error_rate(desk: Desk) -> None:
    street, park = accept(desk, 6), accept(desk, 4, "park", first=100)
    draw_audit_sample(desk.store, REWRITES, 10, seed=1, by=("source",))
    assert looked(desk) == []
    for entity_id in [*street[:5], *park[:2]]:
        desk.answer(entity_id, "b", "accept", "audit")
    desk.answer(park[2], "b", "reject", "audit")
    desk.answer(park[2], "c", "accept")  # an ordinary answer is no audit
    (draw,) = looked(desk)
    assert draw == AuditedDraw(
        QUEUE, ("source",), 10, {"park": Stratum(4, 3, 1), "street": Stratum(6, 5, 0)}, (park[2],)
    )
    found = summarise(draw)
    assert (found.drawn, found.audited, found.wrong) == (10, 8, 1)
    assert found.error_rate == pytest.approx(0.4 / 3, abs=1e-4)
    assert str(found).endswith("; 2 to come")


def test_the_newest_draw_in_which_somebody_looked_counts(desk: Desk) -> None:
    items = accept(desk, 10)
    draw_audit_sample(desk.store, REWRITES, 4, seed=1, by=())
    for item in wanted(desk.store, REWRITES):
        desk.answer(item.entity_id, "b", "accept", "audit")
    (first,) = looked(desk)
    assert first.drawn == 4
    draw_audit_sample(desk.store, REWRITES, 10, seed=2, by=())
    for item in wanted(desk.store, REWRITES):
        desk.answer(item.entity_id, "b", "reject", "audit")
    (second,) = looked(desk)
    assert second.strata == {"all": Stratum(10, 10, 6)}
    assert set(second.wrong_items) < set(items)
    with desk.store.read() as connection:
        assert audited_draws(connection, "others") == []
        assert audited_draws(connection, "people", "people-captions") == []


def test_the_sentence_is_as_the_card_has_it() -> None:
    draw = AuditedDraw(QUEUE, STRATA, 200, {"all": Stratum(5000, 200, 3)}, ())
    assert str(summarise(draw)) == "3 of 200 wrong, 1.5 % (95 % interval 0.5–4.3 %)"


def test_counts_of_strata_are_kept_from_the_time_of_the_draw(desk: Desk) -> None:
    accept(desk, 5)
    drawn = draw_audit_sample(desk.store, REWRITES, 2, seed=1, by=("verdict",))
    accept(desk, 5, first=300)
    desk.answer(wanted(desk.store, REWRITES)[0].entity_id, "b", "accept", "audit")
    (draw,) = looked(desk)
    assert Counter({name: one.population for name, one in draw.strata.items()}) == drawn.strata


populations = st.dictionaries(st.text(max_size=2), st.integers(0, 50), max_size=6)
wholes = st.dictionaries(st.integers().map(str), st.sampled_from("abc"), max_size=60)
sizes = st.integers(0, 80)


@given(populations, sizes)
def test_every_stratum_gets_its_proportion_to_within_one(counts: dict[str, int], size: int) -> None:
    given_ = allocate(counts, size)
    total = sum(counts.values())
    assert sum(given_.values()) == min(size, total)
    for name, count in counts.items():
        assert 0 <= given_[name] <= count
        if total:
            assert abs(given_[name] - min(size, total) * count / total) < 1


def test_remainders_go_to_the_largest() -> None:
    cases: list[tuple[dict[str, int], int, dict[str, int]]] = [
        ({"a": 50, "b": 30, "c": 20}, 10, {"a": 5, "b": 3, "c": 2}),
        ({"a": 53, "b": 24, "c": 23}, 10, {"a": 5, "b": 3, "c": 2}),
        ({"a": 1, "b": 1}, 1, {"a": 1, "b": 0}),
        ({"a": 2, "b": 0}, 5, {"a": 2, "b": 0}),
        ({}, 5, {}),
    ]
    for counts, size, expected in cases:
        assert allocate(counts, size) == expected, (counts, size)


@given(wholes, sizes, st.text(max_size=2))
def test_a_sample_is_drawn_from_all_without_regard_to_order(
    whole: dict[str, str], size: int, seed: str
) -> None:
    drawn = draw(whole, size, seed)
    assert len(set(drawn)) == len(drawn) == min(size, len(whole))
    assert draw(dict(reversed(whole.items())), size, seed) == drawn
    wanted = allocate(Counter(whole.values()), size)
    assert Counter(whole[entity_id] for entity_id in drawn) == Counter(wanted)


def test_a_larger_sample_of_one_stratum_holds_the_smaller() -> None:
    whole = {str(number): "all" for number in range(100)}
    assert set(draw(whole, 10, "s")) < set(draw(whole, 20, "s"))
    assert set(draw(whole, 10, "s")) != set(draw(whole, 10, "another"))
