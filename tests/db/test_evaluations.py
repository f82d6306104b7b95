"""Evaluations are added, each once, and never changed."""

from sqlalchemy import func, select

from db.evaluations import evaluations_of, store_evaluation
from db.store import Store
from db.tables import Evaluation
from tests.schemas.evaluations import evaluation


def test_what_is_stored_comes_back(store: Store) -> None:
    result = evaluation()
    stored = store_evaluation(store, result)
    assert stored.is_new
    assert stored.evaluation.result == result
    assert evaluations_of(store, result.release.id) == [stored.evaluation]


def test_an_equal_evaluation_is_stored_once_and_the_first_stands(store: Store) -> None:
    first = store_evaluation(store, evaluation(seconds=1.0))
    again = store_evaluation(store, evaluation(seconds=2.0))
    assert not again.is_new
    assert again.evaluation == first.evaluation
    with store.read() as connection:
        assert connection.execute(select(func.count()).select_from(Evaluation)).scalar_one() == 1


def test_evaluations_are_found_by_release_and_split_oldest_first(store: Store) -> None:
    revision = "1" * 40
    for one in (
        evaluation(50.0),
        evaluation(51.0, split="val"),
        evaluation(52.0, "other"),
        evaluation(53.0, code_revision=revision),
    ):
        store_evaluation(store, one)
    values = [
        one.result.directions[0].scores["R@1"].value
        for one in evaluations_of(store, "a" * 64, "test")
    ]
    assert values == [50.0, 52.0, 53.0]
    assert len(evaluations_of(store, "a" * 64)) == 4
    assert evaluations_of(store, "b" * 64) == []
