"""Annotators: people with their roles and pseudonyms.

Only this table links a name to a pseudonym. Tasks, answers, decisions and releases contain the
pseudonym.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from sqlalchemy import ColumnElement, insert, update

from db.engine import select_columns
from db.reviews import pseudonyms
from db.store import Store, retried
from db.tables.review import Annotator
from schemas.errors import UsageError

Role = Literal["annotator", "adjudicator"]
AnnotatorState = Literal["active", "paused", "left"]


class StoredAnnotator(NamedTuple):
    """A person who reviews; `user_id` is their account on `server`."""

    pseudonym: str
    name: str
    server: str
    user_id: int
    roles: tuple[str, ...]
    state: str


@retried
def add_annotator(
    store: Store, name: str, server: str, user_id: int, roles: Iterable[Role]
) -> StoredAnnotator:
    """Store a person under the pseudonym of their account, or add `roles` to a known person.

    Raises:
        UsageError: another annotator has the name or the account.
    """
    pseudonym = pseudonyms(store, server, [user_id])[user_id]
    for known in annotators(store):
        if known.name == name and known.pseudonym == pseudonym:
            return _change(store, known, roles=_ordered({*known.roles, *roles}), state="active")
        if known.name == name or known.pseudonym == pseudonym:
            raise UsageError(
                f"{name!r} cannot be added with account {user_id} of {server}: there is already "
                f"an annotator {known.name!r} with account {known.user_id} of {known.server}"
            )
    added = StoredAnnotator(pseudonym, name, server, user_id, _ordered(roles), "active")
    row = {**added._asdict(), "roles": " ".join(added.roles), "added_at": datetime.now(UTC)}
    with store.write() as connection:
        connection.execute(insert(Annotator), row)
    return added


def annotators(store: Store) -> list[StoredAnnotator]:
    """Return all annotators, past ones included, by name."""
    return _fetched(store)


def names_of_annotators(store: Store) -> dict[str, str]:
    """Return the name of each pseudonym."""
    return {annotator.pseudonym: annotator.name for annotator in annotators(store)}


def active_annotators(store: Store, role: Role) -> list[StoredAnnotator]:
    """Return the people who have a role, paused ones included, by name."""
    found = _fetched(store, Annotator.state.in_(("active", "paused")))
    return [annotator for annotator in found if role in annotator.roles]


def paused_annotators(store: Store) -> set[str]:
    """Return the pseudonyms of people who get no tasks until they are resumed."""
    return {one.pseudonym for one in _fetched(store, Annotator.state == "paused")}


def annotator_named(store: Store, name: str) -> StoredAnnotator:
    """Return the annotator with this name.

    Raises:
        UsageError: there is no such annotator; the message lists the known ones.
    """
    found = {annotator.name: annotator for annotator in annotators(store)}
    if name not in found:
        known = ", ".join(found) or "none yet"
        raise UsageError(f"there is no annotator {name!r}; there are: {known}")
    return found[name]


def set_annotator_state(store: Store, name: str, state: AnnotatorState) -> StoredAnnotator:
    """Set whether an annotator is active, paused or left; their work stays.

    Raises:
        UsageError: there is no annotator with that name.
    """
    return _change(store, annotator_named(store, name), state=state)


@retried
def _fetched(store: Store, *conditions: ColumnElement[bool]) -> list[StoredAnnotator]:
    query = select_columns(Annotator, StoredAnnotator._fields).where(*conditions)
    with store.read() as connection:
        return [
            StoredAnnotator._make(row)._replace(roles=tuple(row.roles.split()))
            for row in connection.execute(query.order_by(Annotator.name))
        ]


@retried
def _change(
    store: Store,
    annotator: StoredAnnotator,
    roles: tuple[str, ...] | None = None,
    state: AnnotatorState | None = None,
) -> StoredAnnotator:
    changed = annotator._replace(roles=roles or annotator.roles, state=state or annotator.state)
    with store.write() as connection:
        connection.execute(
            update(Annotator)
            .where(Annotator.pseudonym == annotator.pseudonym)
            .values(roles=" ".join(changed.roles), state=changed.state)
        )
    return changed


def _ordered(roles: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(roles)))
