"""Evaluations are stored once and never changed."""

import pytest
from sqlalchemy import func, select

from loupe.db.decisions import append_decisions
from loupe.db.entities import NewDecision
from loupe.db.evaluations import evaluations_of, forget_examples, store_evaluation
from loupe.db.store import Store
from loupe.db.tables import Evaluation
from loupe.schemas.base import digest_of, sha256_of
from loupe.schemas.evaluation import EvaluationResult, HardQuery, Retrieved, ShownItem
from tests.db.samples import SOFTWARE, caption, store_entities
from tests.schemas.evaluations import evaluation


def test_an_equal_evaluation_is_not_stored_again(store: Store) -> None:
    result = evaluation(seconds=1.0)
    first = store_evaluation(store, result)
    assert first.is_new
    assert first.evaluation.result == result
    assert evaluations_of(store, result.release.id) == [first.evaluation]
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


def shown(name: str) -> ShownItem:
    id_ = digest_of("shown", name)[:32]
    return ShownItem(
        entity_id=id_, file_path=name, sha256=sha256_of(name.encode()), person=1, source="s"
    )


def with_examples(*examples: tuple[str, str]) -> EvaluationResult:
    """Return an evaluation whose hardest queries are the pairs (query, retrieved item)."""
    result = evaluation()
    hardest = tuple(
        HardQuery(
            query=shown(query),
            first_match_rank=2,
            retrieved=(Retrieved(item=shown(found), rank=1, similarity=0.5, is_match=False),),
        )
        for query, found in examples
    )
    directions = (result.directions[0].model_copy(update={"hardest": hardest}),)
    return result.model_copy(update={"directions": directions})


@pytest.mark.usefixtures("database_url")
def test_examples_that_show_an_erased_item_are_removed_and_scores_kept(store: Store) -> None:
    store_evaluation(store, with_examples(("a", "b"), ("c", "a"), ("c", "b")))
    assert forget_examples(store, [shown("z").entity_id]) == 0
    assert forget_examples(store, [shown("a").entity_id]) == 1
    (left,) = evaluations_of(store, "a" * 64)
    assert left.result == with_examples(("c", "b"))


def test_an_example_of_an_item_already_withdrawn_is_not_stored(store: Store) -> None:
    text = caption()
    store_entities(store, [text])
    with store.write() as connection:
        append_decisions(connection, [NewDecision(text.id, "withdraw", SOFTWARE, "asked")])
    output = with_examples(("a", "b"), ("c", "b"))
    (direction,) = output.directions
    first, second = direction.hardest
    withdrawn = first.model_copy(
        update={"query": first.query.model_copy(update={"entity_id": text.id})}
    )
    update = {"directions": (direction.model_copy(update={"hardest": (withdrawn, second)}),)}
    stored = store_evaluation(store, output.model_copy(update=update))
    assert stored.evaluation.result == with_examples(("c", "b"))
