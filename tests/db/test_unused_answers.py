"""Unused answers of models, and counts of decisions by gate."""

import pytest

from loupe.db.calls import NewCall, has_answered, record_call
from loupe.db.entities import AgentRef, NewDecision, WorkResult, find, new_entity
from loupe.db.quarantine import UnusedAnswers, unused_answers, used_answers
from loupe.db.reviews import GATE_PREFIX, gate_counts
from loupe.db.store import Store
from loupe.db.work import commit_chunk, register_plan
from loupe.schemas.chat import ChatAnswer, ChatRequest, ModelRef
from loupe.schemas.provenance import Role
from loupe.schemas.records import Rejection, Rewrite
from tests.db.samples import DATASET, activity_of, caption, store_entities

MODEL = ModelRef(name="m", revision="1")
STAGE, CHECK = "rewrite_description", "check_faithfulness"
KEYS = ("a" * 32, "b" * 32)
ANSWERED_BY = {0: KEYS[0], 1: KEYS[1], 4: KEYS[1]}
PARAMETERS = {"temperature": 0.7, "seed": None}


def rejected(number: int, stage: str, reason: str) -> WorkResult:
    return WorkResult(number, rejection=Rejection(stage=stage, reason=reason, detail="no"))


def ask_and_check(store: Store) -> int:
    """Rewrite five captions: three succeed, one of them wrongly; one is refused, one unparsable.

    The last has the same text as the second, and so its answer.
    """
    captions = [caption(number) for number in range(5)]
    store_entities(store, captions)
    plan_id = register_plan(store, STAGE, "1", {})
    for key in KEYS:
        request = ChatRequest(purpose=STAGE, prompt="p", prompt_digest="d")
        answer = ChatAnswer(text="x", tokens_in=1, tokens_out=1, seconds=1)
        record_call(store, NewCall(key, MODEL, PARAMETERS, request, answer, DATASET, None, None))
    rewrites = [
        new_entity(
            Rewrite(source="test", text=key, author=str(MODEL)),
            DATASET,
            parents=[(Role.REWRITE_OF, captions[number].id)],
            model_call=key,
        )
        for number, key in ANSWERED_BY.items()
    ]
    results = [
        *(WorkResult(n, entities=(one,)) for n, one in zip(ANSWERED_BY, rewrites, strict=True)),
        rejected(2, STAGE, "refused_request"),
        rejected(3, STAGE, "unparseable_answer"),
    ]
    activity = activity_of(plan_id)._replace(agents=(AgentRef.of_model(MODEL),))
    commit_chunk(store, activity, results)
    checking = register_plan(store, CHECK, "1", {})
    (first, *_) = find(store, DATASET, Rewrite.kind)
    commit_chunk(store, activity_of(checking), [rejected(first.seq, CHECK, "unrelated")])
    return plan_id


@pytest.mark.usefixtures("database_url")
def test_unused_answers_are_counted_by_model_stage_and_reason(store: Store) -> None:
    plan_id = ask_and_check(store)
    found = unused_answers(store, DATASET)
    assert found == (
        UnusedAnswers("m@1", CHECK, "unrelated", 1),
        UnusedAnswers("m@1", STAGE, "refused_request", 1),
        UnusedAnswers("m@1", STAGE, "unparseable_answer", 1),
    )
    assert unused_answers(store, DATASET, [plan_id]) == found
    assert unused_answers(store, DATASET, [plan_id + 100]) == ()
    assert unused_answers(store, "other") == ()
    assert used_answers(store, DATASET, plan_id) == 3
    assert has_answered(store, MODEL, PARAMETERS, [STAGE])
    assert not has_answered(store, MODEL, {**PARAMETERS, "seed": 1}, [STAGE])
    assert not has_answered(store, MODEL, PARAMETERS, ["caption_image"])


def test_decisions_of_policies_are_counted_by_gate(store: Store) -> None:
    store_entities(store, [caption(number) for number in range(3)])
    gate = AgentRef("software", f"{GATE_PREFIX}{DATASET}-rewrites", "auto")
    ids = [one.id for one in find(store, DATASET, "caption")]
    accepted = [NewDecision(one, "accept", gate) for one in (*ids[1:], ids[1])]
    decisions = (NewDecision(ids[0], "reject", gate), *accepted)
    plan_id = register_plan(store, "gate", "1", {})
    commit_chunk(store, activity_of(plan_id), [WorkResult(0, decisions=decisions)])
    ((queue, policy, entities, rejected, _),) = gate_counts(store, DATASET)
    assert (queue, policy, entities, rejected) == (f"{DATASET}-rewrites", "auto", 3, 1)
    assert gate_counts(store, "other") == []
