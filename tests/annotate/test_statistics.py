"""The statistics of a queue, compared with the history that it was created from."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pytest

from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.statistics.agreement import ItemAnswers, agreement
from loupe.annotate.statistics.queue import DayOfWork, ItemCounts, queue_statistics
from loupe.db.annotations import given_answers
from loupe.db.store import Store
from tests.annotate.review_history import (
    CAREFUL,
    CARELESS,
    SETTLER,
    START,
    STEADY,
    History,
    captions_queue,
    weeks_of_work,
)

QUEUE = captions_queue()
NOW = START + timedelta(days=4)


@pytest.fixture
def history(sqlite_store: Store) -> History:
    history = History(sqlite_store, QUEUE)
    history.people(CAREFUL, STEADY, CARELESS, SETTLER)
    return history


def test_every_item_is_counted_in_one_state(history: History, sqlite_store: Store) -> None:
    ids = history.items(9)
    waiting, opened, half, conflict, settling, accepted, edited, rejected, skipped = ids
    history.task(opened, CAREFUL.pseudonym)
    history.answer(half, CAREFUL, "accept", START)
    for item in (conflict, settling):
        history.answer(item, CAREFUL, "accept", START)
        history.answer(item, STEADY, "reject", START)
    history.task(settling, SETTLER.pseudonym, purpose="adjudication")
    for item, state in ((accepted, "accepted"), (edited, "superseded"), (rejected, "rejected")):
        history.answer(item, CAREFUL, "accept", START)
        history.answer(item, STEADY, "accept", START)
        history.decide([item], state)
    history.task(skipped, CAREFUL.pseudonym, "skipped")
    history.write()
    found = queue_statistics(sqlite_store, QUEUE, NOW)
    assert waiting != skipped
    assert found.items == ItemCounts(
        waiting=2, open=1, answered=1, conflicting=2, decided=3, accepted=1, edited=1, rejected=1
    )
    # two for each item without answers, one for the half answered, one for each conflict
    assert found.forecast.answers_needed == 3 * 2 + 1 + 2
    assert (found.work.skipped, found.work.waiting) == (1, 1)


def test_gold_items_and_adjudications_are_counted_separately(
    history: History, sqlite_store: Store
) -> None:
    item, gold = history.items(2)
    history.answer(item, CAREFUL, "accept", START)
    history.answer(item, STEADY, "edit", START + timedelta(days=1))
    history.answer(item, SETTLER, "reject", START + timedelta(days=1), purpose="adjudication")
    for person, verdict in ((CAREFUL, "accept"), (STEADY, "reject")):
        key = history.answer(gold, person, verdict, START, gold=True)  # type: ignore[arg-type]
        history.check(key, person, verdict == "accept", START)
    history.write()
    found = queue_statistics(sqlite_store, QUEUE, NOW)
    work = found.work
    assert (work.answers, work.gold_answers, work.adjudications) == (2, 2, 1)
    shares = work.verdicts
    assert (shares.accepted.count, shares.edited.count, shares.rejected.count) == (1, 1, 0)
    assert work.days == (
        DayOfWork(day=START.date(), reviews=1, gold=2),
        DayOfWork(day=START.date() + timedelta(days=1), reviews=1, adjudications=1),
    )
    assert found.agreement.items == 1
    assert (found.gold.count, found.gold.of) == (1, 2)
    settler = next(one for one in found.annotators if one.annotator == SETTLER.pseudonym)
    assert (settler.work.answers, settler.work.adjudications) == (0, 1)


def test_lead_times_cover_only_answers_that_state_them(
    history: History, sqlite_store: Store
) -> None:
    for item, seconds in zip(history.items(5), (10.0, 20.0, 30.0, 1000.0, None), strict=True):
        task = history.task(item, CAREFUL.pseudonym, "answered")
        answer = ReviewAnswer(verdict="accept", choices={"verdict": ("accept",)})
        history.annotate(task, CAREFUL.pseudonym, answer, START, seconds)
    history.write()
    lead = queue_statistics(sqlite_store, QUEUE, NOW).work.lead_time
    assert (lead.known, lead.median_seconds) == (4, 25.0)
    assert lead.p90_seconds == pytest.approx(709)


def test_the_counts_of_weeks_of_work_add_up(sqlite_store: Store) -> None:
    now = weeks_of_work(sqlite_store, QUEUE)
    found = queue_statistics(sqlite_store, QUEUE, now, names=True)
    items = found.items
    stages = (items.waiting, items.open, items.answered, items.conflicting, items.decided)
    assert sum(stages) == 240
    assert items.decided == items.accepted + items.edited + items.rejected
    for count in ("answers", "gold_answers", "adjudications", "waiting", "skipped", "returned"):
        parts = [getattr(one.work, count) for one in found.annotators]
        assert sum(parts) == getattr(found.work, count), count
    assert sum(day.reviews for day in found.work.days) == found.work.answers
    by_name = {one.name: one for one in found.annotators}
    assert set(by_name) == {person.name for person in (CAREFUL, STEADY, CARELESS, SETTLER)}
    careless, careful = by_name[CARELESS.name], by_name[CAREFUL.name]
    kappas = [one.agreement.choices[0].cohen.value or 0 for one in (careless, careful)]
    assert kappas[0] < kappas[1]
    assert (careless.gold.value or 0) < (careful.gold.value or 0)
    assert careless.returns == 1
    assert found.returns[0].annotator == CARELESS.pseudonym
    assert found.forecast.earliest is not None
    assert found.forecast.earliest > now.date()


def test_agreement_equals_that_of_the_stored_answers(sqlite_store: Store) -> None:
    now = weeks_of_work(sqlite_store, QUEUE, items=60)
    answers: dict[str, dict[str, ReviewAnswer]] = {}
    for given in given_answers(sqlite_store, QUEUE.name):
        if given.purpose == "review" and not given.gold:
            read = ReviewAnswer.model_validate(given.answer)
            answers.setdefault(given.entity_id, {})[given.person] = read
    expected = agreement(ItemAnswers(item, by_person) for item, by_person in answers.items())
    assert queue_statistics(sqlite_store, QUEUE, now).agreement == expected
    assert expected.items == sum(len(by_person) > 1 for by_person in answers.values()) > 40


def test_statistics_of_an_empty_queue(sqlite_store: Store) -> None:
    found = queue_statistics(sqlite_store, QUEUE, NOW)
    assert found.items == ItemCounts()
    assert found.work.lead_time.median_seconds is None
    assert found.gold.value is None
    assert found.annotators == ()
    assert found.forecast.answers_needed == 0


def test_days_are_in_utc(history: History, sqlite_store: Store) -> None:
    (item,) = history.items(1)
    history.answer(item, CAREFUL, "accept", datetime(2026, 3, 3, 23, 59, tzinfo=UTC))
    history.write()
    days = Counter(day.day for day in queue_statistics(sqlite_store, QUEUE, NOW).work.days)
    assert days == {date(2026, 3, 3): 1}
