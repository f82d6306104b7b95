"""What a gate decided without anybody looking, under another policy than it has now."""

from sqlalchemy import exists, select
from sqlalchemy.orm import aliased

from db.entities import StoredEntity, select_entities
from db.store import Store, retried
from db.tables.provenance import Agent, Decision, Entity


@retried
def decided_under_other_policies(
    store: Store, dataset: str, kind: str, gate: str, policy: str, reason: str
) -> list[StoredEntity]:
    """The entities whose last word is that of `gate` under another policy, oldest first.

    Args:
        store: the provenance store.
        dataset: whose entities.
        kind: which of them.
        gate: the name of the agent that decides where the policy does.
        policy: the policy of now, which such an agent has as its revision.
        reason: how the reasons of the decisions that are meant begin.
    """
    others = select(Agent.id).where(
        Agent.kind == "software", Agent.name == gate, Agent.revision != policy
    )
    later = aliased(Decision)
    query = (
        select_entities()
        .join(Decision, Decision.entity_id == Entity.id)
        .where(
            Entity.dataset == dataset,
            Entity.kind == kind,
            Entity.state.in_(("accepted", "rejected")),
            Decision.reason.startswith(reason, autoescape=True),
            ~exists().where(later.entity_id == Decision.entity_id, later.id > Decision.id),
        )
        .order_by(Entity.seq)
    )
    with store.read() as connection:
        agents = list(connection.execute(others).scalars())
        if not agents:
            return []
        rows = connection.execute(query.where(Decision.agent_id.in_(agents)))
        return list(map(StoredEntity._make, rows))
