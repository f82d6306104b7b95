"""A lineage as a W3C PROV document, to be written as PROV-JSON."""

import json
from typing import Any

from prov.identifier import Identifier, Namespace, QualifiedName
from prov.model import PROV, ProvDocument

from db.lineage import ActivityNode, AgentNode, CallNode, EntityNode, Lineage

_Attributes = list[tuple[QualifiedName | str | Identifier, Any]]
_LOUPE = Namespace("loupe", "urn:loupe:")
_AGENT_TYPES = {
    "person": PROV["Person"],
    "model": _LOUPE["Model"],
    "software": PROV["SoftwareAgent"],
}


def prov_document(lineage: Lineage) -> ProvDocument:
    """Entities, activities and agents of `lineage` with the relations between them.

    Times, code revisions and flow runs stand in it where they are known: in a release they are not.
    Decisions are activities of their own: they use the entity that they are about.
    """
    document = ProvDocument()
    document.add_namespace(_LOUPE)
    for agent in lineage.agents.values():
        _add_agent(document, agent)
    for activity in lineage.activities.values():
        _add_activity(document, activity)
    for call in lineage.calls.values():
        _add_call(document, call)
    for node in lineage.entities.values():
        _add_entity(document, node)
    _add_decisions(document, lineage)
    return document


def prov_json(lineage: Lineage) -> dict[str, Any]:
    """The PROV-JSON serialisation of `lineage`."""
    text = prov_document(lineage).serialize(format="json") or "{}"
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def _attributes(values: dict[str, Any]) -> _Attributes:
    return [(name, value) for name, value in values.items() if value is not None]


def _add_agent(document: ProvDocument, agent: AgentNode) -> None:
    document.agent(
        f"loupe:agent-{agent.id}",
        _attributes(
            {
                "prov:type": _AGENT_TYPES.get(agent.kind, PROV["Agent"]),
                "prov:label": agent.name,
                "loupe:revision": agent.revision,
            }
        ),
    )


def _add_activity(document: ProvDocument, activity: ActivityNode) -> None:
    name = f"loupe:activity-{activity.id}"
    told = {
        "prov:label": f"{activity.stage} {activity.version}",
        "loupe:configuration": json.dumps(activity.configuration, sort_keys=True),
    }
    started_at = ended_at = None
    if (run := activity.run) is not None:
        started_at, ended_at = run.started_at, run.ended_at
        told |= {"loupe:code_revision": run.code_revision, "loupe:flow_run": run.flow_run}
    document.activity(name, started_at, ended_at, _attributes(told))
    for agent_id in activity.agent_ids:
        document.wasAssociatedWith(name, f"loupe:agent-{agent_id}")


def _add_call(document: ProvDocument, call: CallNode) -> None:
    name = f"loupe:call-{call.key}"
    document.activity(
        name,
        None,
        call.called_at,
        _attributes(
            {
                "prov:type": _LOUPE["ModelCall"],
                "loupe:prompt_digest": call.prompt_digest,
                "loupe:parameters": json.dumps(call.parameters, sort_keys=True),
                "loupe:tokens_in": call.tokens_in,
                "loupe:tokens_out": call.tokens_out,
            }
        ),
    )
    document.wasAssociatedWith(name, f"loupe:agent-{call.agent_id}")


def _add_entity(document: ProvDocument, node: EntityNode) -> None:
    entity = node.entity
    name = f"loupe:{entity.id}"
    told = {
        "prov:type": _LOUPE[entity.kind],
        "loupe:dataset": entity.dataset,
        "loupe:state": entity.state,
        "prov:value": entity.payload,
    }
    if entity.withheld:
        told["loupe:withheld"] = ", ".join(entity.withheld)
    document.entity(name, _attributes(told))
    document.wasGeneratedBy(name, f"loupe:activity-{node.activity_id}")
    if node.model_call_key:
        document.wasInfluencedBy(name, f"loupe:call-{node.model_call_key}")
    for role, parent in node.parents:
        document.wasDerivedFrom(
            name, f"loupe:{parent}", other_attributes=_attributes({"prov:type": _LOUPE[role]})
        )


def _add_decisions(document: ProvDocument, lineage: Lineage) -> None:
    for entity_id, decisions in lineage.decisions.items():
        for number, decision in enumerate(decisions):
            name = f"loupe:decision-{entity_id}-{number}"
            attributes = _attributes(
                {
                    "prov:type": _LOUPE[decision.verdict],
                    "prov:label": decision.reason,
                }
            )
            document.activity(name, decision.decided_at, decision.decided_at, attributes)
            document.used(name, f"loupe:{entity_id}")
            document.wasAssociatedWith(name, f"loupe:agent-{decision.agent_id}")
            if decision.successor_id:
                document.wasInfluencedBy(f"loupe:{decision.successor_id}", name)
