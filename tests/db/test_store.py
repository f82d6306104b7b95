"""Transactions: isolation, rollback, and errors of the database."""

import pytest
from sqlalchemy import select, text

from loupe.db.entities import AgentRef, register_agents
from loupe.db.store import Store
from loupe.db.tables import Agent
from loupe.schemas.errors import ServiceError

SOFTWARE = AgentRef("software", "loupe", "0.1.0")


def agents(store: Store) -> list[str]:
    with store.read() as connection:
        return list(connection.execute(select(Agent.name)).scalars())


@pytest.mark.usefixtures("database_url")
def test_a_reader_sees_one_state_and_a_failed_transaction_is_rolled_back(store: Store) -> None:
    def fail() -> None:
        with store.write() as connection:
            register_agents(connection, [SOFTWARE])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert agents(store) == []
    count = select(Agent.name)
    with store.read() as reader:
        before = reader.execute(count).all()
        with store.write() as connection:
            register_agents(connection, [SOFTWARE])
        assert reader.execute(count).all() == before == []
    assert agents(store) == ["loupe"]


def test_agents_are_registered_once(store: Store) -> None:
    person = AgentRef("person", "annotator-7")
    with store.write() as connection:
        first = register_agents(connection, [SOFTWARE, person, SOFTWARE])
        assert register_agents(connection, [person, SOFTWARE]) == [person.id, SOFTWARE.id]
    assert first == [SOFTWARE.id, person.id, SOFTWARE.id]
    assert sorted(agents(store)) == ["annotator-7", "loupe"]


def test_a_database_error_is_a_short_service_error(sqlite_store: Store) -> None:
    failure = pytest.raises(ServiceError, match=r"loupe\.db' failed: no such table")
    with failure, sqlite_store.read() as connection:
        connection.execute(text("SELECT * FROM nowhere"))
