"""What goes when something is taken back: found through the graph, each thing with the reason."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select
from sqlalchemy.orm import aliased

from db.derivation_roles import CONTRAST, COPY, EMPTIED, Bond, bond_of, empties
from db.entities import pages
from db.tables.provenance import Derivation, Entity
from db.withdrawal_bytes import PICTURED, own_digests, payloads_naming

TARGET, SAME, EMPTY = "target", "same bytes", "left empty"
"""Why a thing goes that no role leads to: it was asked for, has the bytes of one that goes, or is
what all that hung on it showed."""


class Reached(NamedTuple):
    """A thing that goes.

    Attributes:
        id: its entity.
        seq: its number in the store.
        dataset: where it stands.
        kind: what it is.
        state: what was decided on it so far.
        holds: whether it is, shows or retells what is taken back; else it only needs it.
        because: the role that led here, or `TARGET`, `SAME`, `EMPTY`
        of: the entity that it led from; empty for targets.
    """

    id: str
    seq: int
    dataset: str
    kind: str
    state: str
    holds: bool
    because: str
    of: str


Closure = Mapping[str, Reached]


def closure(connection: Connection, targets: Iterable[str], *, reaches: bool) -> Closure:
    """All that goes with `targets`, themselves included, by id, in the order it was found.

    Children go as their roles say (`db.derivation_roles`). Where it `reaches` beyond them, it also
    takes what is the same thing elsewhere: the same bytes, the original of a copy, and what nothing
    is left of but what hung on it. The order of `targets` does not matter but for the reasons.
    """
    spread = _Spread(connection, reaches)
    spread.add((id_, True, TARGET, "") for id_ in dict.fromkeys(targets))
    spread.run()
    return spread.found


_Step = tuple[str, bool, str, str]
"""The id that is led to, whether it holds, why, and where from."""


class _Spread:
    """One search: breadth first, and over again for what turns out to hold what it only needed."""

    def __init__(self, connection: Connection, reaches: bool) -> None:
        self._connection = connection
        self._reaches = reaches
        self.found: dict[str, Reached] = {}
        self._open: list[str] = []
        self._fresh: list[str] = []

    def add(self, steps: Iterable[_Step]) -> None:
        """Takes note of what is led to, where that is news."""
        news: dict[str, _Step] = {}
        for step in steps:
            id_, holds, _, _ = step
            known = self.found.get(id_)
            best = news.get(id_)
            if (known is None or (holds and not known.holds)) and (
                best is None or (holds and not best[1])
            ):
                news[id_] = step
        for row in _entities(self._connection, news):
            _, holds, because, of = news[row[0]]
            self.found[row[0]] = Reached(*row, holds, because, of)
            self._open.append(row[0])
            if holds:
                self._fresh.append(row[0])

    def run(self) -> None:
        """Goes on until nothing is news."""
        while self._open or self._fresh:
            while self._open:
                level, self._open = self._open, []
                self.add(list(self._below(level)))
            fresh, self._fresh = self._fresh, []
            if self._reaches and fresh:
                self.add(list(self._beside(fresh)))

    def _below(self, ids: Sequence[str]) -> Iterator[_Step]:
        edges = list(_edges(self._connection, ids, None, down=True))
        found_how = _ways(self._connection, [one[0] for one in edges if one[1] == CONTRAST])
        for child, role, parent, _ in edges:
            bond = bond_of(role, found_how.get(child))
            if bond is not Bond.REFERS:
                holds = self.found[parent].holds and bond is Bond.HOLDS
                yield child, holds, role, parent

    def _beside(self, ids: Sequence[str]) -> Iterator[_Step]:
        """What is the same as `ids`, and what they leave empty."""
        for child, _, parent, _ in _edges(self._connection, ids, (COPY,), down=False):
            yield parent, True, COPY, child
        yield from self._same_bytes(ids)
        above: dict[str, str] = {}
        for child, role, parent, kind in _edges(self._connection, ids, EMPTIED, down=False):
            if empties(role, kind):
                above.setdefault(parent, child)
        kept = set()
        for child, role, parent, kind in _edges(self._connection, above, EMPTIED, down=True):
            reached = self.found.get(child)
            if empties(role, kind) and (reached is None or not reached.holds):
                kept.add(parent)
        yield from ((parent, True, EMPTY, of) for parent, of in above.items() if parent not in kept)

    def _same_bytes(self, ids: Sequence[str]) -> Iterator[_Step]:
        pictured = [id_ for id_ in ids if self.found[id_].kind in PICTURED]
        of: dict[str, str] = {}
        for id_, kind, payload in _payloads(self._connection, pictured):
            for digest in own_digests(kind, payload):
                of.setdefault(digest, id_)
        for id_, kind, payload in payloads_naming(self._connection, of):
            for digest in own_digests(kind, payload):
                if digest in of:
                    yield id_, True, SAME, of[digest]


def _entities(
    connection: Connection, ids: Iterable[str]
) -> Iterator[tuple[str, int, str, str, str]]:
    query = select(Entity.id, Entity.seq, Entity.dataset, Entity.kind, Entity.state)
    for page in pages(ids):
        rows = connection.execute(query.where(Entity.id.in_(page)).order_by(Entity.seq))
        yield from rows


def _payloads(connection: Connection, ids: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    query = select(Entity.id, Entity.kind, Entity.payload)
    for page in pages(ids):
        yield from connection.execute(query.where(Entity.id.in_(page)))


def _edges(
    connection: Connection, ids: Iterable[str], roles: Sequence[str] | None, *, down: bool
) -> Iterator[tuple[str, str, str, str]]:
    """(child, role, parent, its kind) of the links below or above `ids`, in these roles or all."""
    child, parent = aliased(Entity), aliased(Entity)
    near = parent if down else child
    query = (
        select(child.id, Derivation.role, parent.id, parent.kind)
        .join(Derivation, Derivation.child_seq == child.seq)
        .join(parent, parent.seq == Derivation.parent_seq)
        .order_by(child.seq, Derivation.role, parent.seq)
    )
    if roles is not None:
        query = query.where(Derivation.role.in_(roles))
    for page in pages(ids):
        yield from connection.execute(query.where(near.id.in_(page)))


def _ways(connection: Connection, ids: Iterable[str]) -> dict[str, str | None]:
    """How each contrastive image was come by."""
    found: dict[str, str | None] = {}
    for id_, _, payload in _payloads(connection, set(ids)):
        found[id_] = (json.loads(payload).get("contrast") or {}).get("way")
    return found
