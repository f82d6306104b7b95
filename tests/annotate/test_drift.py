"""The drift rule: when it applies, which answers it revokes, and that every use is recorded."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.gold import Rule, drift, enforce, unreviewed_answers
from loupe.annotate.queues import SHARED, shipped
from loupe.db.annotations import GivenAnswer
from loupe.db.entities import fetch
from loupe.db.gold import StoredCheck, reinstate_annotator, revocations, suspended_annotators
from loupe.db.store import Store
from tests.db.review_samples import QUEUE, Desk, store_rewrites

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RULE = Rule(floor=0.7, window=10, least=5)


def checks(*correct: bool) -> list[StoredCheck]:
    return [StoredCheck(str(n), "a", str(n), right, NOW, {}) for n, right in enumerate(correct)]


def answered(
    entity_id: str, assignee: str, verdict: str = "accept", purpose: str = "review"
) -> GivenAnswer:
    key = f"{assignee} on {entity_id}"
    return GivenAnswer(
        *(entity_id, key, assignee, purpose, False, assignee, {"verdict": verdict}),
        *(None, f"answer of {key}", NOW),
    )


def same(one: ReviewAnswer, other: ReviewAnswer) -> bool:
    return one.verdict == other.verdict


def test_an_accuracy_below_the_floor_is_drift() -> None:
    assert drift(checks(True, True, True, False, False), RULE) == (3, 5)


def test_an_accuracy_at_the_floor_is_not_drift() -> None:
    assert drift(checks(*[True] * 7, *[False] * 3), RULE) is None
    assert drift(checks(), RULE) is None


def test_too_few_and_old_answers_do_not_count() -> None:
    assert drift(checks(*[False] * 4), RULE) is None
    assert drift(checks(*[True] * 10, *[False] * 90), RULE) is None


@given(st.lists(st.booleans()), st.floats(0, 1), st.integers(1, 30), st.integers(1, 30))
def test_a_lower_floor_finds_no_additional_drift(
    correct: list[bool], floor: float, window: int, least: int
) -> None:
    found = drift(checks(*correct), Rule(floor, window, least))
    if found is None:
        assert drift(checks(*correct), Rule(floor / 2, window, least)) is None
    else:
        assert found[0] / found[1] < floor


def test_answers_that_no_other_annotator_confirmed_are_revoked() -> None:
    answers = [
        answered("alone", "a"),
        answered("agreed", "a"),
        answered("agreed", "b"),
        answered("disputed", "a"),
        answered("disputed", "b", "reject"),
        answered("settled", "a"),
        answered("settled", "b", "reject"),
        answered("settled", "judge", "reject", "adjudication"),
        answered("disputed and with an adjudicator", "a"),
        answered("disputed and with an adjudicator", "b", "reject"),
        answered("looked at again", "a"),
        answered("looked at again", "c", "accept", "audit"),
        answered("somebody else's", "b"),
    ]
    found = unreviewed_answers(answers, "a", same, frozenset({"disputed and with an adjudicator"}))
    assert [answer.entity_id for answer in found] == ["alone", "disputed"]
    assert {answer.assignee for answer in found} == {"a"}


def test_an_annotator_cannot_confirm_their_own_answers() -> None:
    answers = [answered("x", "a"), answered("x", "a", "accept", "audit")]
    assert [answer.purpose for answer in unreviewed_answers(answers, "a", same)] == ["review"]


@pytest.fixture
def desk(sqlite_store: Store) -> Desk:
    return Desk(sqlite_store)


def record_drift(desk: Desk, items: list[str]) -> None:
    """Record answers of `a` to five gold items, three of them wrong."""
    for number, entity_id in enumerate(items[:5]):
        desk.check(entity_id, "a", correct=number < 2)


def test_drift_revokes_unconfirmed_answers_and_leaves_open_tasks(
    desk: Desk,
) -> None:
    queue = shipped().queue("people", "rewrites")
    items = store_rewrites(desk.store, 12)
    alone, confirmed, open_, open_gold, others = items[5:10]
    desk.decide(alone, "accept", desk.answer(alone, "a"))
    desk.decide(confirmed, "accept", desk.answer(confirmed, "a"))
    desk.answer(confirmed, "b")
    desk.give(open_, "a")
    desk.give(open_gold, "a", gold=True)
    desk.decide(others, "accept", desk.answer(others, "b"))
    record_drift(desk, items)
    with desk.store.write() as connection:
        assert enforce(connection, queue, same) == {"a": (1, 1)}
    (use,) = revocations(desk.store, QUEUE)
    assert (use.accuracy, use.answers) == (0.4, 5)
    states = {
        name: desk.task_state(id_, "a")
        for name, id_ in [
            ("alone", alone),
            ("confirmed", confirmed),
            ("open", open_),
            ("gold", open_gold),
            ("checked", items[0]),
        ]
    }
    assert states == {
        "alone": "returned",
        "confirmed": "answered",
        "open": "open",
        "gold": "open",
        "checked": "answered",
    }
    entities = fetch(desk.store, items)
    assert [entities[id_].state for id_ in (alone, confirmed, others)] == [
        "proposed",
        "accepted",
        "accepted",
    ]


def test_the_account_of_the_installation_is_not_suspended(desk: Desk) -> None:
    for entity_id in store_rewrites(desk.store, 5):
        desk.check(entity_id, SHARED, correct=False)
    with desk.store.write() as connection:
        assert enforce(connection, shipped().queue("people", "rewrites"), same) == {}


def test_a_revocation_is_recorded_once_and_suspends_until_reinstatement(desk: Desk) -> None:
    queue = shipped().queue("people", "rewrites")
    items = store_rewrites(desk.store, 12)
    record_drift(desk, items)
    for expected in (1, 0):
        with desk.store.write() as connection:
            assert len(enforce(connection, queue, same)) == expected
            assert suspended_annotators(connection, QUEUE) == {"a"}
    (use,) = revocations(desk.store, QUEUE)
    assert use.rule == {"floor": 0.7, "window": 20, "least": 5}
    assert (use.accuracy, use.answers, use.state, use.lifted_at) == (0.4, 5, "in force", None)
    assert reinstate_annotator(desk.store, QUEUE, "a") == 1
    assert reinstate_annotator(desk.store, QUEUE, "a") == 0
    with desk.store.write() as connection:
        assert suspended_annotators(connection, QUEUE) == set()
        assert enforce(connection, queue, same) == {}  # only new answers count
    (use,) = revocations(desk.store)
    assert use.state == "lifted"
    assert use.lifted_at is not None
