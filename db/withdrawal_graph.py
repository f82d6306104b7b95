"""The entities that a withdrawal covers: its targets, everything derived from them, their files."""

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, select, true

from loupe.db.entities import LIVE, links, rows_in, scan
from loupe.db.roles import EMPTIED, CascadePolicy, cascade_policy, empties
from loupe.db.tables import Derivation, Entity, WithdrawnDigest, alias, escape_like
from loupe.schemas.base import Record
from loupe.schemas.errors import UsageError
from loupe.schemas.provenance import Role


def contrast_method(payload: str) -> str | None:
    """Return how an image was obtained by its payload, if it is contrastive: edit, search."""
    return (json.loads(payload).get("contrast") or {}).get("method")


# The names that people use for entities: the file of an image, the words of a text.

_KNOWN = ("image", "video", "caption", "rewrite")
"""Kinds that people identify by a file or a text."""


class Named(NamedTuple):
    """The names that people use for an entity.

    Attributes:
        file_path: the source's name of the file of an image or video.
        source: the source of an image or video.
        identity: the source's name of the person in an image.
        text: the words of a text.
    """

    file_path: str | None = None
    source: str | None = None
    identity: str | None = None
    text: str | None = None


def names_of(connection: Connection, ids: Iterable[str]) -> dict[str, Named]:
    """Return the names of entities, by id; other kinds are left out."""
    found = {}
    for id_, kind, text in _payloads(connection, ids, _KNOWN):
        is_file = kind in ("image", "video")
        names = ("file_path", "source", "identity") if is_file else ("text",)
        payload = json.loads(text)
        found[id_] = Named(**{name: payload.get(name) for name in names})
    return found


# Files of entities in the blob store.

_DIGEST = re.compile(r"[0-9a-f]{64}")
_PAGE = 2000


class Blob(NamedTuple):
    """A file in the blob store."""

    sha256: str
    media_type: str


_Payload = Mapping[str, Any]
_Pictures = Callable[[_Payload], Iterable[_Payload]]

_PICTURED: dict[str, _Pictures] = {
    "image": lambda one: (one,),
    "video": lambda one: (one,),
    "found_picture": lambda one: (one["picture"], {"source_sha256": one["source_sha256"]}),
    "edited_picture": lambda one: (one["picture"],),
    "candidate": lambda one: (one["image"],),
}
"""Kinds that are an image or a video, and where it is in their payload.

Entities with the same bytes are the same image, whatever their origin.
"""
_CUT: dict[str, _Pictures] = {
    "candidate": lambda one: (one["overlay"],) if one.get("overlay") else (),
    "tracklet": lambda one: (frame["crop"] for frame in one["frames"]),
    "track": lambda one: (seen["crop"] for seen in one["observations"]),
}
"""Kinds with additional images, made for them, that belong to no other entity."""


WITH_FILES = frozenset(_PICTURED) | frozenset(_CUT)
"""Kinds that may have files in the blob store."""


def own_digests(kind: str, payload: str) -> set[str]:
    """Return the digests of an image or a video, that of its original file included.

    Empty for other kinds.
    """
    if kind not in _PICTURED:
        return set()
    pictures = _PICTURED[kind](json.loads(payload))
    names = ("sha256", "source_sha256")
    return {one[name] for one in pictures for name in names if name in one}


def own_blobs(kind: str, payload: str, erased: Collection[str] = ()) -> set[Blob]:
    """Return the files in the blob store that belong to an entity.

    Images made for it are left out if their digests are in `erased`.
    """
    if kind not in WITH_FILES:
        return set()
    record = json.loads(payload)
    pictures = [*_PICTURED[kind](record)] if kind in _PICTURED else []
    cut = _CUT[kind](record) if kind in _CUT else ()
    pictures += (one for one in cut if one["sha256"] not in erased)
    return {Blob(one["sha256"], one["media_type"]) for one in pictures if "media_type" in one}


def _payloads_naming(
    connection: Connection, digests: Collection[str]
) -> Iterator[tuple[str, str, str]]:
    """Iterate over (id, kind, payload) of images and videos of all datasets with one of `digests`.

    There is no index for this: all entities of these kinds are read in pages.
    """
    wanted = set(digests)
    for id_, kind, payload in _scan(connection, Entity.kind.in_(_PICTURED)) if wanted else ():
        if not wanted.isdisjoint(_DIGEST.findall(payload)):
            yield id_, kind, payload


def image_with(connection: Connection, sha256: str) -> str | None:
    """Return the id of the first image or video with that digest; None if there is none."""
    return next((id_ for id_, _, _ in _payloads_naming(connection, [sha256])), None)


def blobs_of(connection: Connection, ids: Iterable[str]) -> set[Blob]:
    """Return the files of entities in the blob store."""
    found = _payloads(connection, ids, WITH_FILES)
    return {blob for _, kind, payload in found for blob in own_blobs(kind, payload)}


def dropped_crops(
    connection: Connection, held: Collection[str], withdrawn: Collection[str]
) -> set[Blob]:
    """Return the crops in no tracklet in use whose neighbour in their track is withdrawn.

    The filter or a person dropped them. If the track stays, because it also shows somebody else,
    they may still show the person whose crops come before or after them.

    Args:
        connection: a connection.
        held: the entities that hold withdrawn content, by id.
        withdrawn: all withdrawn entities, by id.
    """
    own = select(Entity.group_key).where(Entity.kind == "tracklet")
    groups = {group for (group,) in rows_in(connection, own, Entity.id, held)}
    query = select(Entity.id, Entity.kind, Entity.state, Entity.group_key, Entity.payload)
    query = query.where(Entity.kind.in_(("track", "tracklet")))
    tracks: dict[tuple[str | None, int], list[_Payload]] = {}
    used: dict[tuple[str | None, int], set[int]] = defaultdict(set)
    gone: dict[tuple[str | None, int], set[int]] = defaultdict(set)
    for id_, kind, state, group, payload in rows_in(connection, query, Entity.group_key, groups):
        record = json.loads(payload)
        if kind == "track":
            tracks[group, record["number"]] = record["observations"]
        elif id_ in held or (state in LIVE and id_ not in withdrawn):
            of = gone if id_ in held else used
            of[group, record["track"]].update(one["frame"] for one in record["frames"])
    found = set()
    for track, observations in tracks.items():
        frames = sorted(used[track] | gone[track])
        for one in observations:
            place = bisect_left(frames, one["frame"])
            beside = frames[max(place - 1, 0) : place + 1]
            if one["frame"] not in frames and not gone[track].isdisjoint(beside):
                found.add(Blob(one["crop"]["sha256"], one["crop"]["media_type"]))
    return found


def refused_digests(connection: Connection, ids: Iterable[str]) -> set[str]:
    """Return the digests of the images and videos among these entities."""
    found = _payloads(connection, ids, _PICTURED)
    return {digest for _, kind, payload in found for digest in own_digests(kind, payload)}


def erased_digests(connection: Connection) -> set[str]:
    """Return the digests of the files that withdrawals erase; an image may need one again."""
    query = select(WithdrawnDigest.sha256).where(WithdrawnDigest.is_erased)
    return set(connection.execute(query).scalars())


def needed_blobs(
    connection: Connection, blobs: Collection[Blob], withdrawn: Collection[str] = ()
) -> dict[str, str]:
    """Return the files, by digest, that an image needs which is not withdrawn, with its id.

    Entities in `withdrawn` count as withdrawn.
    """
    found: dict[str, str] = {}
    wanted = {blob.sha256 for blob in blobs}
    naming = {
        id_: own
        for id_, kind, payload in _payloads_naming(connection, wanted)
        if id_ not in withdrawn
        and (own := {one.sha256 for one in own_blobs(kind, payload)} & wanted)
    }
    query = select(Entity.id).where(Entity.state != "withdrawn").order_by(Entity.seq)
    for (id_,) in rows_in(connection, query, Entity.id, naming):
        found.update(dict.fromkeys(naming[id_], id_))
    return found


# Targets of withdrawals, and the entities they name.

Sort = Literal["entity", "identity", "source", "video", "annotator"]

_WRITTEN = ("caption", "rewrite", "strategy", "caption_group")
"""Kinds that a person writes. A selection (a tracklet) is a judgement and not a text."""


class WithdrawalTarget(Record):
    """The target of a withdrawal request.

    Attributes:
        sort: the type of `name`.
        name: an entity's id, the name of an identity, a source or a video, or a pseudonym.
        dataset: the dataset; None for all, or if the sort determines it.
        source: the source of an identity, as two sources may use the same name.
    """

    sort: Sort
    name: str
    dataset: str | None = None
    source: str | None = None

    def __str__(self) -> str:
        """Return the target as shown in messages."""
        what = f"{self.sort} {self.name[:12] if self.sort == 'entity' else self.name}"
        of = f" of {self.source}" if self.source else ""
        return f"{what}{of}{f' in {self.dataset}' if self.dataset else ''}"


def find_targets(connection: Connection, target: WithdrawalTarget) -> list[str]:
    """Return the ids of the entities that a target names, in the order they were stored.

    Raises:
        UsageError: the target does not exist.
    """
    found = list(dict.fromkeys(_FINDERS[target.sort](connection, target)))
    if not found:
        raise UsageError(f"no entity in the store matches {target}")
    return found


def _entity(connection: Connection, target: WithdrawalTarget) -> Iterator[str]:
    yield from connection.execute(select(Entity.id).where(Entity.id == target.name)).scalars()


def _identity(connection: Connection, target: WithdrawalTarget) -> Iterator[str]:
    """Return the images of a person in a dataset; two of its sources may use the same name.

    Raises:
        UsageError: several sources of the dataset have a person with that name.
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
    """Return a source as it was imported; with a dataset, the entities taken from it."""
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
    """Return the texts that a person wrote or edited, and the person's answers.

    Answers that made a selection are left out, as the selected images are not the person's work.
    """
    author = f'"author":{_quoted(target.name)}'
    kinds = Entity.kind.in_((*_WRITTEN, "annotation"))
    wrote = [
        id_
        for id_, payload in _naming(connection, author, kinds, _within(target))
        if payload["author"] == target.name
    ]
    made, answer = alias(Entity), alias(Entity)
    query = (
        select(answer.id)
        .join(Derivation, Derivation.parent_seq == answer.seq)
        .join(made, made.seq == Derivation.child_seq)
        .where(Derivation.role == Role.ANNOTATED_BY, made.kind.not_in(_WRITTEN))
    )
    selecting = {id_ for (id_,) in rows_in(connection, query, answer.id, wrote)}
    yield from (id_ for id_ in wrote if id_ not in selecting)


_FINDERS: Mapping[str, Callable[[Connection, WithdrawalTarget], Iterable[str]]] = {
    "entity": _entity,
    "identity": _identity,
    "source": _source,
    "video": _video,
    "annotator": _annotator,
}


def _within(target: WithdrawalTarget) -> ColumnElement[bool]:
    return true() if target.dataset is None else Entity.dataset == target.dataset


def _quoted(name: str) -> str:
    """Return a text as it is in JSON."""
    return json.dumps(name, ensure_ascii=False)


def _naming(
    connection: Connection, text: str, *where: ColumnElement[bool]
) -> Iterator[tuple[str, Any]]:
    """Iterate over (id, payload) of entities whose payload, as JSON, contains `text`."""
    contains = Entity.payload.like(f"%{escape_like(text)}%", escape="\\")
    for id_, _, payload in _scan(connection, *where, contains):
        yield id_, json.loads(payload)


def _scan(connection: Connection, *where: ColumnElement[bool]) -> Iterator[tuple[str, str, str]]:
    """Iterate over (id, kind, payload) of all entities that match `where`, in pages."""
    query = select(Entity.seq, Entity.id, Entity.kind, Entity.payload).where(*where)
    for _, id_, kind, payload in scan(connection, query, _PAGE):
        yield id_, kind, payload


# The closure: all entities withdrawn with the targets, each with the reason.

TARGET, SAME, EMPTY = "target", "same bytes", "left empty"
"""Reasons other than roles.

The entity was requested, has the bytes of a withdrawn entity, or is a parent whose children are all
withdrawn.
"""


class Dependent(NamedTuple):
    """An entity that is withdrawn.

    Attributes:
        id: its id.
        seq: its number in the store.
        dataset: its dataset.
        kind: its kind.
        state: its present state.
        holds: whether it is, shows or describes withdrawn content, or only depends on it.
        because: the role that it was reached by, or `TARGET`, `SAME`, `EMPTY`.
        of: the entity that it was reached from; empty for targets.
    """

    id: str
    seq: int
    dataset: str
    kind: str
    state: str
    holds: bool
    because: str
    of: str


Closure = Mapping[str, Dependent]


def closure(connection: Connection, targets: Iterable[str], *, reaches: bool) -> Closure:
    """Return all entities withdrawn with `targets`, themselves included, by id, in the order found.

    Children follow the policies of their roles. With `reaches`, equivalent entities are also
    withdrawn: those with the same bytes, the original of a copy, and parents whose children are all
    withdrawn. The order of `targets` affects only the reasons.
    """
    search = _Search(connection)
    search.add((id_, True, TARGET, "") for id_ in dict.fromkeys(targets))
    while search.new or search.new_holding:
        while search.new:
            level, search.new = search.new, []
            search.add(list(search.descendants(level)))
        holding, search.new_holding = search.new_holding, []
        if reaches and holding:
            search.add(list(search.equivalents(holding)))
    return search.found


_Step = tuple[str, bool, str, str]
"""The id of an entity, whether it `holds`, the reason, and the id that it was reached from."""


class _Search:
    """A breadth-first search; an entity that is later found to hold is searched again.

    Attributes:
        found: all entities found, by id.
        new: ids whose children are not searched yet.
        new_holding: ids that hold, whose equivalents are not searched yet.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.found: dict[str, Dependent] = {}
        self.new: list[str] = []
        self.new_holding: list[str] = []

    def add(self, steps: Iterable[_Step]) -> None:
        """Add an entity that is new or is now found to hold withdrawn content."""
        best: dict[str, _Step] = {}
        for step in steps:
            id_, holds, _, _ = step
            known = self.found.get(id_)
            if known is not None and (known.holds or not holds):
                continue
            if id_ not in best or (holds and not best[id_][1]):
                best[id_] = step
        query = select(Entity.id, Entity.seq, Entity.dataset, Entity.kind, Entity.state)
        for row in rows_in(self._connection, query.order_by(Entity.seq), Entity.id, best):
            _, holds, because, of = best[row.id]
            self.found[row.id] = Dependent(*row, holds, because, of)
            self.new.append(row.id)
            if holds:
                self.new_holding.append(row.id)

    def descendants(self, ids: Sequence[str]) -> Iterator[_Step]:
        """Return the children of `ids` that are withdrawn with them."""
        below = list(links(self._connection, ids, down=True))
        contrasts = {link.child for link in below if link.role == Role.CONTRAST_OF}
        methods = {
            id_: contrast_method(payload)
            for id_, _, payload in _payloads(self._connection, contrasts)
        }
        for child, role, parent, _ in below:
            policy = cascade_policy(role, methods.get(child))
            if policy is not CascadePolicy.KEEP:
                holds = self.found[parent].holds and policy is CascadePolicy.ERASE
                yield child, holds, role, parent

    def equivalents(self, ids: Sequence[str]) -> Iterator[_Step]:
        """Return the equivalents of `ids`, and the parents whose children are all withdrawn."""
        for link in links(self._connection, ids, (Role.SAMPLED_FROM,)):
            yield link.parent, True, Role.SAMPLED_FROM, link.child
        yield from self._same_bytes(ids)
        parents: dict[str, str] = {}
        for child, role, parent, kind in links(self._connection, ids, EMPTIED):
            if empties(role, kind):
                parents.setdefault(parent, child)
        kept = set()
        for child, role, parent, kind in links(self._connection, parents, EMPTIED, down=True):
            known = self.found.get(child)
            if empties(role, kind) and (known is None or not known.holds):
                kept.add(parent)
        for parent, child in parents.items():
            if parent not in kept:
                yield parent, True, EMPTY, child

    def _same_bytes(self, ids: Sequence[str]) -> Iterator[_Step]:
        of: dict[str, str] = {}
        for id_, kind, payload in _payloads(self._connection, ids, _PICTURED):
            for digest in own_digests(kind, payload):
                of.setdefault(digest, id_)
        for id_, kind, payload in _payloads_naming(self._connection, of):
            for digest in own_digests(kind, payload):
                if digest in of:
                    yield id_, True, SAME, of[digest]


def _payloads(
    connection: Connection, ids: Iterable[str], kinds: Collection[str] = ()
) -> Iterator[Row[str, str, str]]:
    """Return (id, kind, payload) of those entities, of all kinds or of these."""
    query = select(Entity.id, Entity.kind, Entity.payload).order_by(Entity.seq)
    if kinds:
        query = query.where(Entity.kind.in_(kinds))
    return rows_in(connection, query, Entity.id, ids)
