"""What a run that is under way makes of things that were withdrawn meanwhile."""

import json
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, select

from db.derivation_roles import CONTRAST, Bond, bond_of
from db.entities import NewEntity, pages
from db.tables.withdrawals import WithdrawnEntity
from db.withdrawal_recording import opened_again, take_back

_Taken = dict[str, set[int]]


def withdraw_late_children(connection: Connection, entities: Sequence[NewEntity]) -> None:
    """Withdraws, in the transaction that stores them, those of `entities` that go with a parent.

    They are taken back by the same withdrawals as the parent, where their role says so
    (`db.derivation_roles`). Those are open again, to be carried out on what else is left of them.
    Where nothing was ever withdrawn this is one query.
    """
    if connection.exec_driver_sql("SELECT 1 FROM withdrawal LIMIT 1").first() is None:
        return
    taken = _taken(connection, {parent for one in entities for _, parent in one.parents})
    if not taken:
        return
    late: dict[int, set[str]] = {}
    while found := _next(entities, taken, late):
        for withdrawal, id_ in found:
            late.setdefault(withdrawal, set()).add(id_)
            taken.setdefault(id_, set()).add(withdrawal)
    for stored in opened_again(connection, late):
        take_back(connection, stored, late[stored.id])


def _next(
    entities: Iterable[NewEntity], taken: _Taken, late: dict[int, set[str]]
) -> list[tuple[int, str]]:
    """(withdrawal, id) of those whose parents are taken by it, and that are not known to be."""
    return [
        (withdrawal, entity.id)
        for entity in entities
        for role, parent in entity.parents
        if parent in taken and _goes(entity, role)
        for withdrawal in taken[parent]
        if entity.id not in late.get(withdrawal, ())
    ]


def _goes(entity: NewEntity, role: str) -> bool:
    way = None
    if role == CONTRAST:
        way = (json.loads(entity.payload).get("contrast") or {}).get("way")
    return bond_of(role, way) is not Bond.REFERS


def _taken(connection: Connection, ids: Iterable[str]) -> _Taken:
    """The withdrawals, by number, of those among `ids` that were taken back."""
    found: _Taken = {}
    query = select(WithdrawnEntity.entity_id, WithdrawnEntity.withdrawal_id)
    for page in pages(sorted(ids)):
        for id_, withdrawal in connection.execute(query.where(WithdrawnEntity.entity_id.in_(page))):
            found.setdefault(id_, set()).add(withdrawal)
    return found
