"""Agreement in a release equals the statistics of the queue."""

from pathlib import Path

from annotate.agreement import agreement
from annotate.statistics import queue_statistics, shared_answers
from db.store import Store
from flows.engine.releasing import agreement_statistics
from models.profiles.settings import Settings
from tests.annotate.review_history import captions_queue, weeks_of_work

QUEUE = captions_queue()


def test_a_release_states_the_agreement_of_the_queue(sqlite_store: Store, tmp_path: Path) -> None:
    now = weeks_of_work(sqlite_store, QUEUE, items=60)
    shown = queue_statistics(sqlite_store, QUEUE, now).agreement
    assert agreement(shared_answers(sqlite_store, QUEUE.name)) == shown
    lines = agreement_statistics(sqlite_store, Settings(home=tmp_path), QUEUE.dataset)
    choices = [one for one in lines if one.kind == "choice"]
    assert [one.control for one in choices] == [one.control for one in shown.choices]
    for line, choice in zip(choices, shown.choices, strict=True):
        assert line.items == choice.observed.items
        assert line.annotators == 3
        assert choice.observed.value is not None
        assert abs(line.observed - choice.observed.value) <= 0.0005
    assert agreement_statistics(sqlite_store, Settings(home=tmp_path), "another") == ()
