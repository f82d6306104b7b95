"""The prediction of acceptance: its error is measured on other groups, and it decides nothing."""

from datetime import timedelta

import pytest

from annotate.acceptance import acceptance
from annotate.overview import overview
from db.entities import fetch
from db.store import Store
from schemas.errors import UsageError
from tests.annotate.review_history import CAREFUL, START, STEADY, History, captions_queue

QUEUE = captions_queue()


def decided(store: Store, accepted: int, rejected: int, waiting: int = 0) -> list[str]:
    """Store items of which long ones are accepted, with every tenth decided the other way.

    Returns the undecided items.
    """

    def is_long(number: int) -> bool:
        return number % 2 == 0

    history = History(
        store, QUEUE, text_of=lambda number: f"A coat{' that is red' * is_long(number)}, {number}."
    )
    history.people(CAREFUL, STEADY)
    ids = history.items(accepted + rejected + waiting)
    done = ids[: accepted + rejected]
    for number, item in enumerate(done):
        state = "accepted" if is_long(number) != (number % 10 == 0) else "rejected"
        for person in (CAREFUL, STEADY):
            history.answer(item, person, "accept", START)
        history.decide([item], state)
    history.write()
    return ids[len(done) :]


def test_acceptance_is_predicted_with_an_error_estimate(sqlite_store: Store) -> None:
    waiting = decided(sqlite_store, 100, 100, waiting=8)
    error, open_items = acceptance(sqlite_store, QUEUE)
    assert (error.decided, error.accepted) == (200, 80)
    assert "text: words" in error.evidence
    assert error.is_better
    by_chance = error.model_copy(update={"low": error.most_frequent})
    assert by_chance.sentence.endswith("not shown to predict anything here.")
    assert error.accuracy > 85 > error.most_frequent == 60
    assert error.brier < error.brier_of_share
    assert error.least_trusted > 0.3
    assert "of 200 decided items people accepted 80 unchanged" in error.sentence
    assert set(open_items) == set(waiting)
    likely = [open_items[one] for one in waiting[::2]]
    unlikely = [open_items[one] for one in waiting[1::2]]
    assert min(likely) > 0.5 > max(unlikely)
    assert {one.state for one in fetch(sqlite_store, waiting).values()} == {"proposed"}


def test_too_few_decisions_are_an_error(sqlite_store: Store) -> None:
    decided(sqlite_store, 3, 3)
    with pytest.raises(UsageError, match="6 items are decided by people, 2 of them accepted"):
        acceptance(sqlite_store, QUEUE)


def test_the_cost_of_an_accepted_item(sqlite_store: Store) -> None:
    decided(sqlite_store, 10, 10)
    (cost,) = overview(sqlite_store, [QUEUE], START + timedelta(days=2)).costs
    assert cost.accepted == 8
    assert cost.minutes == pytest.approx(40 * 0.5 / 8, rel=1)
    assert (cost.calls, cost.tokens, cost.price) == (0, 0, {})
    assert cost.sentence.startswith(f"{QUEUE.name}: 8 accepted; each {cost.minutes:.1f} minutes")
