"""The store as it was: up to which entity, decision and withdrawal a release was made from.

Entities and decisions are numbered as they are stored and never change, so the last number of each
tells a state of the store. What does change is the cached `entity.state`: it is folded anew for all
that was decided on since, which is little beside all that there is.

`look_back` puts temporary views before the tables `entity` and `decision`: whoever reads by that
connection sees the earlier state and need not know of it. SQLite looks among temporary names first,
PostgreSQL where `search_path` says so; its change also makes PostgreSQL read statements anew that
the driver had prepared with the tables. Links between entities need no view: they are part of an
entity's id and stored with it, and what reads them goes by way of `entity`.
"""

from typing import NamedTuple

from sqlalchemy import Connection, func, select

from db.decisions import STATE_AFTER
from db.tables.provenance import Decision, Entity
from db.tables.withdrawals import Withdrawal

_STATES = "entity_state_then"
_STATE_AFTER = tuple(STATE_AFTER.items())
_STATE = "coalesce((SELECT s.state FROM {states} AS s WHERE s.seq = e.seq), e.state) AS state"
_TAKEN_THEN = """
    d.verdict = 'withdraw' AND (d.id <= {decision} OR EXISTS (
        SELECT 1 FROM {schema}.withdrawn_entity AS taken
        WHERE taken.entity_id = d.entity_id AND taken.withdrawal_id <= {withdrawal}
    ))
"""
_TABLE = f"CREATE TEMPORARY TABLE {_STATES} (seq BIGINT PRIMARY KEY, state VARCHAR(16) NOT NULL)"
_FOLD = """
    INSERT INTO {states} (seq, state)
    WITH later AS (SELECT DISTINCT entity_id FROM {schema}.decision WHERE id > {{decision}}),
    last AS (
        SELECT d.entity_id, max(d.id) AS id FROM later
        JOIN {schema}.decision AS d ON d.entity_id = later.entity_id
        WHERE d.id <= {{decision}} GROUP BY d.entity_id
    ),
    withdrawn AS (
        SELECT DISTINCT d.entity_id FROM later
        JOIN {schema}.decision AS d ON d.entity_id = later.entity_id WHERE {taken}
    )
    SELECT e.seq, CASE WHEN withdrawn.entity_id IS NOT NULL THEN 'withdrawn'
        ELSE coalesce(CASE d.verdict {folded} END, 'proposed') END
    FROM later JOIN {schema}.entity AS e ON e.id = later.entity_id
    LEFT JOIN last ON last.entity_id = later.entity_id
    LEFT JOIN {schema}.decision AS d ON d.id = last.id
    LEFT JOIN withdrawn ON withdrawn.entity_id = later.entity_id
    WHERE e.seq <= {{entity}}
"""
_ENTITIES = """
    CREATE TEMPORARY VIEW entity AS
    SELECT {columns} FROM {schema}.entity AS e WHERE e.seq <= {{entity}}
"""
_DECISIONS = """
    CREATE TEMPORARY VIEW decision AS
    SELECT d.* FROM {schema}.decision AS d WHERE d.id <= {{decision}} OR ({taken})
"""
_STATEMENTS = (_TABLE, _FOLD, _ENTITIES, _DECISIONS)
"""With the names filled in first, then what these bring along and the numbers."""


class StateMark(NamedTuple):
    """The last numbers that count of `entity.seq`, `decision.id` and `withdrawal.id`."""

    entity: int
    decision: int
    withdrawal: int


UNMARKED = StateMark(0, 0, 0)
"""Of a release that was made before marks were stored."""


class PastState(NamedTuple):
    """A state of the store to look back to.

    What was taken back since counts as taken back, so that it never comes out again; with
    `then_withdrawn` only what was by then, which is for those who made sure of that otherwise.
    """

    mark: StateMark
    then_withdrawn: bool = False


def current_mark(connection: Connection) -> StateMark:
    """The mark of what `connection` sees, which must be a `db.release_rows.snapshot`."""
    last = (select(func.coalesce(func.max(one), 0)) for one in (Entity.seq, Decision.id))
    entity, decision = (connection.execute(query).scalar_one() for query in last)
    return StateMark(entity, decision, _last_withdrawal(connection))


def mark_after(connection: Connection, past: PastState) -> StateMark:
    """The mark of what `connection` sees as it looks back to `past`."""
    if past.then_withdrawn:
        return past.mark
    return past.mark._replace(withdrawal=_last_withdrawal(connection))


def _last_withdrawal(connection: Connection) -> int:
    query = select(func.coalesce(func.max(Withdrawal.id), 0))
    return connection.execute(query).scalar_one()


def look_back(connection: Connection, past: PastState) -> None:
    """Lets `connection` see the state `past` until its transaction is rolled back.

    The views are part of that transaction, so that none is left whatever happens.
    """
    schema, own = "main", "temp"
    if connection.dialect.name == "postgresql":
        schema, own = _schema_of_tables(connection), "pg_temp"
        before = connection.exec_driver_sql("SHOW search_path").scalar_one()
        connection.exec_driver_sql(f"SET LOCAL search_path TO pg_temp, {before}")
    for statement in _statements(past, schema, own):
        connection.exec_driver_sql(statement)


def _schema_of_tables(connection: Connection) -> str:
    """The schema that the tables are in, quoted where it must be."""
    query = "SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = 'entity'::regclass"
    return str(connection.exec_driver_sql(query).scalar_one())


def _statements(past: PastState, schema: str, own: str) -> list[str]:
    """Makes the states of entities that were decided on since, and the views over them."""
    names = {
        "schema": schema,
        "states": f"{own}.{_STATES}",
        "columns": ", ".join(
            _STATE if one.name == Entity.state.name else f"e.{one.name}"
            for one in Entity.__table__.columns
        ),
        "folded": " ".join(f"WHEN '{verdict}' THEN '{then}'" for verdict, then in _STATE_AFTER),
        "taken": _TAKEN_THEN if past.then_withdrawn else "d.verdict = 'withdraw'",
    }
    numbers = {name: int(number) for name, number in past.mark._asdict().items()}
    return [one.format_map(names).format_map(names | numbers) for one in _STATEMENTS]
