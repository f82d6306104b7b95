"""Agents: those who act."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from sqlalchemy import Connection

from db.engine import insert_new
from db.tables.provenance import Agent
from schemas.base import digest_of
from schemas.chat import ModelRef

AgentKind = Literal["person", "model", "software"]


class AgentRef(NamedTuple):
    """A person (by pseudonym), a model at a revision, or a piece of software at a version."""

    kind: AgentKind
    name: str
    revision: str = ""

    @property
    def id(self) -> str:
        """The agent's content-derived id."""
        return digest_of("agent", self.kind, self.name, self.revision)

    @classmethod
    def of_model(cls, model: ModelRef) -> "AgentRef":
        """A model as an agent."""
        return cls("model", model.name, model.revision)


def register_agents(connection: Connection, agents: Sequence[AgentRef]) -> list[str]:
    """Stores agents that are new and gives the ids of all, in order."""
    rows = [{"id": agent.id, **agent._asdict()} for agent in agents]
    insert_new(connection, Agent, rows)
    return [agent.id for agent in agents]
