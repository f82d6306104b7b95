"""What can be asked to be taken back, and the entities that are meant by it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, select, true
from sqlalchemy.orm import aliased

from db.engine import escape_like
from db.entities import pages
from db.tables.provenance import Derivation, Entity
from db.withdrawal_bytes import own_digests, payloads_naming
from schemas.base import Record
from schemas.errors import UsageError

Sort = Literal["entity", "identity", "source", "video", "annotator", "file"]

_PAGE = 2000
_TEXTS = ("caption", "rewrite", "strategy", "caption_group")
"""Kinds that a person writes. What a person selects (a tracklet) is a judgement and no text."""


class WithdrawalTarget(Record):
    """What is asked to be taken back.

    Attributes:
        sort: of what kind it is.
        name: an entity's id, the name of an identity, a source or a video, a pseudonym, or the
            SHA-256 of a file.
        dataset: only there; None for all, or where the sort says it.
        source: only of this source, for identities: sources may name theirs alike.
        also: entities that somebody found to be the same file, though it has other bytes.
    """

    sort: Sort
    name: str
    dataset: str | None = None
    source: str | None = None
    also: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As it is spoken of."""
        what = f"{self.sort} {self.name[:12] if self.sort in ('entity', 'file') else self.name}"
        of = f" of {self.source}" if self.source else ""
        return f"{what}{of}{f' in {self.dataset}' if self.dataset else ''}"


def meant_by(connection: Connection, target: WithdrawalTarget) -> list[str]:
    """The ids of the entities that are meant, in the order in which they were stored.

    Raises:
        UsageError: there is none.
    """
    found = list(dict.fromkeys([*_FINDERS[target.sort](connection, target), *target.also]))
    if not found:
        raise UsageError(f"nothing is stored that can be meant by {target}")
    return found


def _entity(connection: Connection, target: WithdrawalTarget) -> Iterator[str]:
    yield from connection.execute(select(Entity.id).where(Entity.id == target.name)).scalars()


def _identity(connection: Connection, target: WithdrawalTarget) -> Iterator[str]:
    """The images of a person; as a dataset names persons by source, the source may have to be said.

    Raises:
        UsageError: several sources of the dataset have a person of that name.
    """
    if target.dataset is None:
        raise UsageError("an identity is named within a dataset: say which with --dataset")
    sources: dict[str, list[str]] = {}
    where = Entity.kind == "image", Entity.dataset == target.dataset
    for id_, payload in _naming(connection, _quoted(target.name), *where):
        if payload["identity"] == target.name and target.source in (None, payload["source"]):
            sources.setdefault(payload["source"], []).append(id_)
    if len(sources) > 1:
        raise UsageError(
            f"{target.dataset} has a person {target.name!r} in each of the sources "
            f"{', '.join(sorted(sources))}: say which with --source"
        )
    yield from (id_ for many in sources.values() for id_ in many)


def _source(connection: Connection, target: WithdrawalTarget) -> Iterator[str]:
    """A source as it was imported, whichever its files; or what one dataset took from it."""
    if target.dataset is None:
        for id_, payload in _naming(connection, _quoted(target.name), Entity.kind == "source"):
            if payload["name"] == target.name:
                yield id_
        return
    kinds = Entity.kind.in_(("source", "image", "video", "track", "caption"))
    name = _quoted(target.name)
    for id_, payload in _naming(connection, name, kinds, _within(target)):
        if target.name in (payload.get("source"), payload.get("name")):
            yield id_


def _video(connection: Connection, target: WithdrawalTarget) -> Iterator[str]:
    end = _quoted(target.name)[1:]
    for id_, payload in _naming(connection, end, Entity.kind == "video", _within(target)):
        path = payload["file_path"]
        if path == target.name or path.endswith(f"/{target.name}"):
            yield id_


def _annotator(connection: Connection, target: WithdrawalTarget) -> Iterator[str]:
    """The texts that a person wrote or edited, and the person's answers.

    Not the answers that made something else: what became of a selection is not the person's.
    """
    author = f'"author":{_quoted(target.name)}'
    kinds = Entity.kind.in_((*_TEXTS, "annotation"))
    wrote = [
        id_
        for id_, payload in _naming(connection, author, kinds, _within(target))
        if payload["author"] == target.name
    ]
    made, answer = aliased(Entity), aliased(Entity)
    query = (
        select(answer.id)
        .join(Derivation, Derivation.parent_seq == answer.seq)
        .join(made, made.seq == Derivation.child_seq)
        .where(Derivation.role == "annotated_by", made.kind.not_in(_TEXTS))
    )
    selecting: set[str] = set()
    for page in pages(wrote):
        selecting.update(connection.execute(query.where(answer.id.in_(page))).scalars())
    yield from (id_ for id_ in wrote if id_ not in selecting)


def _file(connection: Connection, target: WithdrawalTarget) -> Iterator[str]:
    for id_, kind, payload in payloads_naming(connection, [target.name]):
        if target.name in own_digests(kind, payload):
            yield id_


_FINDERS: Mapping[str, Callable[[Connection, WithdrawalTarget], Iterable[str]]] = {
    "entity": _entity,
    "identity": _identity,
    "source": _source,
    "video": _video,
    "annotator": _annotator,
    "file": _file,
}


def _within(target: WithdrawalTarget) -> ColumnElement[bool]:
    return true() if target.dataset is None else Entity.dataset == target.dataset


def _quoted(name: str) -> str:
    """A text as it stands in JSON."""
    return json.dumps(name, ensure_ascii=False)


def _naming(
    connection: Connection, text: str, *where: ColumnElement[bool]
) -> Iterator[tuple[str, Any]]:
    """(id, payload) of entities whose payload, as JSON, has `text` in it, page by page."""
    holds = Entity.payload.like(f"%{escape_like(text)}%", escape="\\")
    query = (
        select(Entity.seq, Entity.id, Entity.payload)
        .where(*where, holds)
        .order_by(Entity.seq)
        .limit(_PAGE)
    )
    after = 0
    while page := connection.execute(query.where(Entity.seq > after)).all():
        for _, id_, payload in page:
            yield id_, json.loads(payload)
        after = page[-1].seq
