"""Lineage back to the sources, with agents, and its export as PROV."""

import json
from datetime import UTC, datetime

import pytest
from prov.model import (
    PROV,
    ProvActivity,
    ProvAgent,
    ProvAssociation,
    ProvDerivation,
    ProvDocument,
    ProvEntity,
)

from loupe.db.calls import NewCall, record_call
from loupe.db.entities import (
    ActivityRecord,
    AgentRef,
    NewDecision,
    NewEntity,
    WorkResult,
    new_entity,
)
from loupe.db.lineage import find_entity_id, prov_json, trace
from loupe.db.store import Store
from loupe.db.work import commit_chunk, register_plan
from loupe.schemas.base import digest_of
from loupe.schemas.chat import ChatAnswer, ChatRequest, ModelRef
from loupe.schemas.errors import UsageError
from loupe.schemas.provenance import Role
from loupe.schemas.records import Rewrite
from tests.db.samples import DATASET, SOFTWARE, activity_of, caption, store_entities

MODEL = ModelRef(name="Qwen/Qwen-14B-Chat", revision="abc")
PERSON = AgentRef("person", "annotator-7")
CALL = digest_of("a call")


@pytest.fixture
def rewrite(store: Store) -> NewEntity:
    """A rewrite of an edited caption, answered by a model and accepted by a person."""
    root, bystander = caption(1), caption(9)
    edited = caption(2, [(Role.EDITED_FROM, root.id), (Role.CHECKS, root.id)])
    store_entities(store, [root, edited, bystander])
    request = ChatRequest(purpose="rewrite", prompt="p", prompt_digest="d", subject="s")
    answer = ChatAnswer(text="rewritten", tokens_in=3, tokens_out=4, seconds=1)
    record_call(store, NewCall(CALL, MODEL, {"seed": 1}, request, answer, DATASET, 0.5, "USD"))
    rewrite = new_entity(
        Rewrite(source="test", text="rewritten", author=str(MODEL)),
        DATASET,
        parents=[(Role.REWRITE_OF, edited.id)],
        model_call=CALL,
    )
    plan_id = register_plan(store, "rewrite_descriptions", "3", {"model": "m"})
    now = datetime.now(UTC)
    agents = (SOFTWARE, AgentRef.of_model(MODEL))
    activity = ActivityRecord(plan_id, DATASET, "revision", "a run", now, agents)
    decision = NewDecision(rewrite.id, "accept", PERSON, reason="well said")
    commit_chunk(store, activity, [WorkResult(0, (rewrite,), (decision,))])
    return rewrite


@pytest.mark.usefixtures("database_url")
def test_trace_finds_all_ancestors_and_nothing_else(store: Store, rewrite: NewEntity) -> None:
    traced = trace(store, rewrite.id)
    assert set(traced.entities) == {
        rewrite.id,
        caption(1).id,
        caption(2, [(Role.EDITED_FROM, caption(1).id), (Role.CHECKS, caption(1).id)]).id,
    }
    node = traced.entities[rewrite.id]
    assert [role for role, _ in node.parents] == ["rewrite_of"]
    activity = traced.activities[node.activity_id]
    assert (activity.stage, activity.version) == ("rewrite_descriptions", "3")
    assert {str(traced.agents[one]) for one in activity.agent_ids} == {
        "software loupe@0.1.0",
        "model Qwen/Qwen-14B-Chat@abc",
    }
    assert traced.calls[CALL].parameters == {"seed": 1}
    (decision,) = traced.decisions[rewrite.id]
    assert (decision.verdict, decision.reason) == ("accept", "well said")
    assert str(traced.agents[decision.agent_id]) == "person annotator-7"


def test_another_prov_reader_finds_all_relations_of_the_export(
    store: Store, rewrite: NewEntity
) -> None:
    text = json.dumps(prov_json(trace(store, rewrite.id)))
    document = ProvDocument.deserialize(content=text, format="json")
    assert len(list(document.get_records(ProvEntity))) == 3
    agents = list(document.get_records(ProvAgent))
    assert len(agents) == 3
    types = {value for agent in agents for value in agent.get_asserted_types()}
    assert {PROV["Person"], PROV["SoftwareAgent"]} <= types, "types of the PROV standard"
    activities = list(document.get_records(ProvActivity))
    assert len(activities) == 2 + 1 + 1, "two stages, a call, a decision"
    roles = sorted(
        str(value)
        for record in document.get_records(ProvDerivation)
        for value in record.get_attribute(PROV["type"])
    )
    assert roles == ["loupe:checks", "loupe:edited_from", "loupe:rewrite_of"]
    assert len(list(document.get_records(ProvAssociation))) == 1 + 2 + 1 + 1


def test_an_entity_is_found_by_a_unique_prefix_of_its_id(store: Store, rewrite: NewEntity) -> None:
    assert find_entity_id(store, rewrite.id[:8].upper()) == rewrite.id
    assert find_entity_id(store, rewrite.id) == rewrite.id
    for prefix in ("", "abc", "%%%%%%", "______", "ffffff" * 6):
        with pytest.raises(UsageError, match="id"):
            find_entity_id(store, prefix)
    twins = [caption(1)._replace(id=f"abcdef{digit}{'0' * 25}") for digit in "12"]
    plan_id = register_plan(store, "import", "1", {})
    commit_chunk(store, activity_of(plan_id), [WorkResult(0, tuple(twins))])
    with pytest.raises(UsageError, match=r"several entities .* give more of it"):
        find_entity_id(store, "abcdef")
    assert find_entity_id(store, "abcdef1") == twins[0].id
