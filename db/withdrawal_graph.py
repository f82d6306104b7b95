"""What a withdrawal takes: its targets, everything derived from them, and the bytes behind them."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    delete,
    exists,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.orm import aliased

from db.annotations import ANNOTATED_BY, ANNOTATES, counted_answers
from db.embeddings import Kind
from db.engine import escape_like, insert_new
from db.entities import AgentRef, pages
from db.releases import acquire_release_lock
from db.reviews import WAITING
from db.store import Store, retried
from db.tables.embeddings import Embedding, EmbeddingSpace
from db.tables.provenance import Decision, Derivation, Entity
from db.tables.review import Annotation, Annotator, Pseudonym, ReviewImage, ReviewTask
from db.tables.withdrawals import WithdrawnDigest
from db.tables.work import Checkpoint
from schemas.base import Record, digest_of, sha256_of
from schemas.errors import IntegrityError, UsageError

# What becomes of a child when the parent that it names in a role is taken back.
#
# Every role of the graph stands here with the reason; a test finds those that do not.


class CascadePolicy(StrEnum):
    """How strongly a child hangs on its parent.

    `HOLDS`: it repeats, shows or retells what the parent is, so it goes with it, its bytes too.
    `NEEDS`: it holds nothing of the parent and is of no use without it: it goes, its bytes may
    stay. `REFERS`: it stays.
    """

    HOLDS = "holds"
    NEEDS = "needs"
    REFERS = "refers"


class Role(NamedTuple):
    """A role: the bond, why, and whether the parent holds what its children show.

    Such a parent goes, too, once nothing is left of what hung on it in that role (`goes_empty`).
    """

    bond: CascadePolicy
    why: str
    goes_empty: bool = False


def _holds(why: str, *, goes_empty: bool = False) -> Role:
    return Role(CascadePolicy.HOLDS, why, goes_empty)


def _needs(why: str) -> Role:
    return Role(CascadePolicy.NEEDS, why)


def _refers(why: str, *, goes_empty: bool = False) -> Role:
    return Role(CascadePolicy.REFERS, why, goes_empty)


COPY = "sampled_from"
"""The role of the same thing in the dataset that it was taken from."""
CONTRAST = "contrast_of"
"""The role whose bond hangs on how the child was come by (`bond_of`)."""

ROLES: dict[str, Role] = {
    # pictures and videos
    "imported_from": _holds("was brought by the source"),
    COPY: _holds("is the same thing in another dataset"),
    "crop_of": _holds("is cut out of the video"),
    "tracked_in": _holds("holds crops of the video"),
    "report_of": _holds("tells of each crop of the track", goes_empty=True),
    "part_of": _holds("is made of the track's crops", goes_empty=True),
    "selected_in": _holds("is a crop of the tracklet", goes_empty=True),
    "looks_like": _holds("is a fingerprint of the picture"),
    "rendered_from": _holds("is drawn from that truth", goes_empty=True),
    "worded_by": _holds("is made of that pair of texts"),
    "known_from": _refers("was there before anybody knew this of it", goes_empty=True),
    # texts
    "describes": _holds("tells what is in the picture"),
    "rewrite_of": _holds("says the text in another way"),
    "edited_from": _holds("is the thing as a person changed it"),
    "revised_from": _holds("is the text written anew"),
    "refines": _holds("says what the coarse caption says, in more detail"),
    "confuses": _holds("is written in the words of the caption"),
    "annotated_by": _holds("is what the answer says"),
    # contrastive images
    "anchor": _holds("tells what is in the picture, and what to change"),
    "drafted_as": _holds("is the draft as it was taken", goes_empty=True),
    "edited_for": _holds("is the picture of the strategy, changed"),
    "edited_as": _holds("is that very picture"),
    "downloaded_from": _holds("is the picture that was found there", goes_empty=True),
    "found_as": _holds("is that very picture"),
    "accepted_from": _holds("is that very picture"),
    CONTRAST: _holds("is the picture, changed; what was found elsewhere only needs it"),
    "ordered_by": _needs("is wanted for that strategy, or was come by for that order"),
    "made_for": _needs("serves that strategy alone"),
    "found_for": _needs("was found for that order alone"),
    "failed_for": _needs("tells of an edit for it that could not be made"),
    "considered_for": _needs("tells of the results of that order"),
    "member": _needs("is a group of these images, and another one without one of them"),
    "refined_for": _needs("tells the images of the group apart: without one, it has no reason"),
    "written_in": _needs("was written, and judged, with the others of its group"),
    # answers, questions and measurements: of no use without what they are about
    "annotates": _needs("is an answer about it"),
    "selects": _needs("is a question about it"),
    "compares": _needs("is a question about both"),
    "asks_about": _needs("is a question about it"),
    "asks_with": _needs("is a question about both"),
    "distractor": _needs("is a question that shows it"),
    "examines": _needs("says what speaks against it"),
    "checks": _needs("is a report on it"),
    "measures": _needs("is a measurement of it"),
    "measured": _needs("is a measurement of it"),
    "matches": _needs("says how similar it is"),
    # what merely refers
    "similar_to": _refers("is another image, which was chosen because it is like this one"),
    "drawn_from": _refers("is a record of a draw, and holds nothing of the source"),
    "member_of": _refers("was drawn in that sample, and is what it is without it"),
    "prompted_by": _refers("was asked for with that prompt, and does not repeat it"),
    "drafted_with": _refers("was made with those settings"),
    "written_with": _refers("was made with those settings"),
    "validated_with": _refers("was made with those settings"),
    "expanded_with": _refers("was chosen with those settings"),
    "tracked_with": _refers("was made with those settings"),
    "filtered_with": _refers("was made with those settings"),
    "proposed_with": _refers("was made with those settings"),
}
"""Each role, read as: the child … (the parent)."""

_EDIT = "edited_from"
EMPTIED = (_EDIT, *(role for role, known in ROLES.items() if known.goes_empty))
"""The roles in which a parent may go once all its children have (`empties`)."""


def empties(role: str, parent_kind: str) -> bool:
    """Whether a parent of a kind goes once all that hangs on it in such roles has gone.

    A tracklet holds the crops of what people made of it; a text that was edited is another text.
    """
    return ROLES[role].goes_empty or (role == _EDIT and parent_kind == "tracklet")


def bond_of(role: str, way: str | None = None) -> CascadePolicy:
    """The bond of a role; of a contrastive image it hangs on the `way` that it was come by.

    What was found is another picture than its anchor; what was edited, or is not known to have been
    found, is taken for the anchor's picture.

    Raises:
        IntegrityError: nobody has said what becomes of a child in that role.
    """
    if role not in ROLES:
        raise IntegrityError(
            f"something is derived in the role {role!r}, of which db/withdrawal_graph.py does not "
            f"say what becomes of it; was it written by a newer Loupe?"
        )
    if role == CONTRAST and way == "search":
        return CascadePolicy.NEEDS
    return ROLES[role].bond


# What people know entities by: the file of a picture, the words of a text.

_TEXTS = ("caption", "rewrite")
_FILES = ("image", "video")
KNOWN = (*_FILES, *_TEXTS)
"""Kinds of entities that people know by something."""


class Named(NamedTuple):
    """What an entity is known by.

    Attributes:
        file_path: of a picture or video, its file as its source calls it.
        source: of these, the source.
        identity: of a picture, the person as the source calls them.
        text: of a text, its words.
    """

    file_path: str | None = None
    source: str | None = None
    identity: str | None = None
    text: str | None = None


def names_of(connection: Connection, ids: Iterable[str]) -> dict[str, Named]:
    """What entities are known by, by id; those that are known by nothing are left out."""
    query = select(Entity.id, Entity.kind, Entity.payload).where(Entity.kind.in_(KNOWN))
    found = {}
    for page in pages(ids):
        for id_, kind, payload in connection.execute(query.where(Entity.id.in_(page))):
            found[id_] = _named(kind, json.loads(payload))
    return found


def _named(kind: str, payload: dict[str, Any]) -> Named:
    if kind in _FILES:
        return Named(payload["file_path"], payload.get("source"), payload.get("identity"))
    return Named(text=payload["text"])


# The bytes behind entities: whose they are, who else has them, and which may be erased.

_DIGEST = re.compile(r"[0-9a-f]{64}")
_PAGE = 2000


class Blob(NamedTuple):
    """A file in the blob store."""

    sha256: str
    media_type: str


_Payload = Mapping[str, Any]
_Pictures = Callable[[_Payload], Iterable[_Payload]]

PICTURED: dict[str, _Pictures] = {
    "image": lambda one: (one,),
    "video": lambda one: (one,),
    "found_picture": lambda one: (one["picture"], {"source_sha256": one["source_sha256"]}),
    "edited_picture": lambda one: (one["picture"],),
    "candidate": lambda one: (one["image"],),
}
"""Kinds that are a picture or a video, and where in their payload it stands.

What has the same bytes is the same picture, wherever it is from.
"""
_CUT: dict[str, _Pictures] = {
    "candidate": lambda one: (one["overlay"],) if one.get("overlay") else (),
    "tracklet": lambda one: (frame["crop"] for frame in one["frames"]),
    "track": lambda one: (seen["crop"] for seen in one["observations"]),
}
"""Kinds that other pictures were made for, which nothing else is responsible for."""


WITH_FILES = frozenset(PICTURED) | frozenset(_CUT)
"""Kinds that may have files in the blob store."""


def own_digests(kind: str, payload: str) -> set[str]:
    """The digests that a picture or a video is known by; none for other kinds.

    Of an image, and of what was downloaded, that of the file that it came as is among them.
    """
    if kind not in PICTURED:
        return set()
    pictures = PICTURED[kind](json.loads(payload))
    names = ("sha256", "source_sha256")
    return {one[name] for one in pictures for name in names if name in one}


def own_blobs(kind: str, payload: str) -> set[Blob]:
    """The files that lie in the blob store for an entity of this kind."""
    if kind not in PICTURED and kind not in _CUT:
        return set()
    record = json.loads(payload)
    pictures = [*PICTURED.get(kind, _none)(record), *_CUT.get(kind, _none)(record)]
    return {Blob(one["sha256"], one["media_type"]) for one in pictures if "media_type" in one}


def payloads_naming(
    connection: Connection, digests: Collection[str]
) -> Iterator[tuple[str, str, str]]:
    """(id, kind, payload) of the pictures and videos of all datasets that name one of `digests`.

    There is no index for this: all of these kinds are read, once, and none is held.
    """
    if not digests:
        return
    wanted = set(digests)
    query = (
        select(Entity.seq, Entity.id, Entity.kind, Entity.payload)
        .where(Entity.kind.in_(PICTURED))
        .order_by(Entity.seq)
        .limit(_PAGE)
    )
    after = 0
    while page := connection.execute(query.where(Entity.seq > after)).all():
        for _, id_, kind, payload in page:
            if not wanted.isdisjoint(_DIGEST.findall(payload)):
                yield id_, kind, payload
        after = page[-1].seq


class StoredPicture(NamedTuple):
    """An image that is not withdrawn: its file in the blob store and all digests of it."""

    entity_id: str
    dataset: str
    file_path: str
    blob: Blob
    digests: frozenset[str]


def stored_images(store: Store) -> Iterator[StoredPicture]:
    """The images of all datasets that are not withdrawn, oldest first, in pages."""
    query = (
        select(Entity.seq, Entity.id, Entity.dataset, Entity.payload)
        .where(Entity.kind == "image", Entity.state != "withdrawn")
        .order_by(Entity.seq)
        .limit(_PAGE)
    )
    after = 0
    while True:
        with store.read() as connection:
            page = connection.execute(query.where(Entity.seq > after)).all()
        for _, id_, dataset, payload in page:
            record = json.loads(payload)
            blob = Blob(record["sha256"], record["media_type"])
            digests = frozenset(own_digests("image", payload))
            yield StoredPicture(id_, dataset, record["file_path"], blob, digests)
        if len(page) < _PAGE:
            return
        after = page[-1].seq


def blobs_of(connection: Connection, ids: Iterable[str]) -> dict[Blob, str]:
    """The files of entities, each with the id of one that it is of."""
    found: dict[Blob, str] = {}
    query = select(Entity.id, Entity.kind, Entity.payload).order_by(Entity.seq)
    for page in pages(ids):
        for id_, kind, payload in connection.execute(query.where(Entity.id.in_(page))):
            for blob in sorted(own_blobs(kind, payload)):
                found.setdefault(blob, id_)
    return found


def refused_digests(connection: Connection, ids: Iterable[str]) -> set[str]:
    """The digests that the pictures and videos among these entities are known by."""
    found: set[str] = set()
    query = select(Entity.kind, Entity.payload).where(Entity.kind.in_(PICTURED))
    for page in pages(ids):
        for kind, payload in connection.execute(query.where(Entity.id.in_(page))):
            found |= own_digests(kind, payload)
    return found


def needed_blobs(
    connection: Connection, blobs: Collection[Blob], but_for: Collection[str] = ()
) -> dict[str, str]:
    """Those files, by digest, that a picture needs which was not withdrawn, with its id.

    Entities in `but_for` count as withdrawn.
    """
    found: dict[str, str] = {}
    wanted = {blob.sha256 for blob in blobs}
    naming = {
        id_: own
        for id_, kind, payload in payloads_naming(connection, wanted)
        if id_ not in but_for and (own := {one.sha256 for one in own_blobs(kind, payload)} & wanted)
    }
    states = select(Entity.id, Entity.state)
    for page in pages(naming):
        for id_, state in connection.execute(states.where(Entity.id.in_(page))):
            if state != "withdrawn":
                found.update(dict.fromkeys(naming[id_], id_))
    return found


@retried
def still_needed(store: Store, blobs: Collection[Blob]) -> set[str]:
    """Those files, by digest, that a picture needs which is not withdrawn."""
    with store.read() as connection:
        return set(needed_blobs(connection, blobs))


def _none(_: _Payload) -> Iterable[_Payload]:
    return ()


# What can be asked to be taken back, and the entities that are meant by it.

Sort = Literal["entity", "identity", "source", "video", "annotator", "file"]

_WITHDRAWAL_TARGETS_TEXTS = ("caption", "rewrite", "strategy", "caption_group")
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
    kinds = Entity.kind.in_((*_WITHDRAWAL_TARGETS_TEXTS, "annotation"))
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
        .where(Derivation.role == "annotated_by", made.kind.not_in(_WITHDRAWAL_TARGETS_TEXTS))
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


# What goes when something is taken back: found through the graph, each thing with the reason.

TARGET, SAME, EMPTY = "target", "same bytes", "left empty"
"""Why a thing goes that no role leads to: it was asked for, has the bytes of one that goes, or is
what all that hung on it showed."""


class Dependent(NamedTuple):
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


Closure = Mapping[str, Dependent]


def closure(connection: Connection, targets: Iterable[str], *, reaches: bool) -> Closure:
    """All that goes with `targets`, themselves included, by id, in the order it was found.

    Children go as their roles say (`db.withdrawal_graph`). Where it `reaches` beyond them, it also
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
        self.found: dict[str, Dependent] = {}
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
            self.found[row[0]] = Dependent(*row, holds, because, of)
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
            if bond is not CascadePolicy.REFERS:
                holds = self.found[parent].holds and bond is CascadePolicy.HOLDS
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


# What is left of withdrawn things beside themselves: vectors, checkpoints, questions, answers.

_JUDGED = ("accepted", "rejected", "superseded")
_SAID = {"accepted": "accept", "rejected": "reject"}
"""What an answer says that is borne out by a state."""
_WITHDRAWAL_TRACES_TEXTS = ("caption", "rewrite", "confusion")


@retried
def close_reviews(
    store: Store,
    entity_ids: Collection[str],
    digests: Collection[str] = (),
    erased_by: int | None = None,
) -> int:
    """Closes the open questions about entities, and those that show them; gives how many.

    Images with one of the `digests` are shown by no question any more. What lies on the desk is
    removed from it by the next push. With the number of a withdrawal that erases, all these tasks
    are noted as to be deleted there, whatever their state, and with them those in whose answers a
    text was written (`tasks_to_erase`).
    """
    closed = 0
    with store.write() as connection:
        for page in pages(sorted(entity_ids)):
            shows = exists().where(
                ReviewImage.task_key == ReviewTask.key, ReviewImage.image_id.in_(page)
            )
            concerned = or_(ReviewTask.entity_id.in_(page), shows)
            if erased_by is not None:
                answers = or_(
                    ReviewTask.state.not_in(WAITING), ReviewTask.purpose == "adjudication"
                )
                written_in = and_(ReviewTask.entity_id.in_(_answered_with(page)), answers)
                _note_to_erase(connection, or_(concerned, written_in), erased_by)
            closed += connection.execute(
                update(ReviewTask)
                .where(ReviewTask.state.in_(WAITING), concerned)
                .values(state="closed")
            ).rowcount
        for page in pages(sorted(digests)):
            connection.execute(delete(ReviewImage).where(ReviewImage.sha256.in_(page)))
    return closed


def _answered_with(entity_ids: Sequence[str]) -> Select[str]:
    """The entities that people were shown when they wrote these."""
    made, asked = aliased(Entity), aliased(Entity)
    by, about = aliased(Derivation), aliased(Derivation)
    return (
        select(asked.id)
        .join(about, about.parent_seq == asked.seq)
        .join(by, by.parent_seq == about.child_seq)
        .join(made, made.seq == by.child_seq)
        .where(made.id.in_(entity_ids), by.role == ANNOTATED_BY, about.role == ANNOTATES)
    )


def _note_to_erase(connection: Connection, those: ColumnElement[bool], withdrawal: int) -> None:
    """Of tasks that may lie on a server; one that was deleted there lies nowhere, and is closed."""
    may_lie_there = or_(ReviewTask.task_id.is_not(None), ReviewTask.state.in_(WAITING))
    connection.execute(
        update(ReviewTask)
        .where(those, may_lie_there, ReviewTask.erased_by.is_(None))
        .values(erased_by=withdrawal)
    )


@retried
def erase_answers_of(store: Store, person: str, withdrawal: int) -> None:
    """Notes as to be deleted on the desk what a person was asked, and where the answers are shown.

    That is where somebody else had to settle them.
    """
    answered = (
        select(ReviewTask.entity_id)
        .join(Annotation, Annotation.review_task_key == ReviewTask.key)
        .where(Annotation.agent_id == AgentRef("person", person).id)
    )
    settled = and_(ReviewTask.purpose == "adjudication", ReviewTask.entity_id.in_(answered))
    with store.write() as connection:
        _note_to_erase(connection, or_(ReviewTask.assignee == person, settled), withdrawal)


@retried
def forget_vectors(store: Store, kind: Kind, digests: Iterable[str]) -> int:
    """Deletes the cached vectors of images or texts in all spaces; gives how many."""
    deleted = 0
    with store.write() as connection:
        spaces = list(connection.execute(select(EmbeddingSpace.key)).scalars())
        for page in pages(sorted(digests), 200):
            keys = [digest_of(space, kind, sha256) for space in spaces for sha256 in page]
            deleted += _delete_vectors(connection, keys)
    return deleted


@retried
def forget_texts(store: Store, withdrawal: int, digests: Iterable[str]) -> int:
    """Likewise of texts that a withdrawal erases, of which none is stored again; gives how many.

    Nor is one of the same words elsewhere, as a text is known by its words alone.
    """
    texts = sorted(set(digests))
    rows = [
        {
            "sha256": sha256,
            "withdrawal_id": withdrawal,
            "media_type": None,
            "is_refused": False,
            "is_erased": False,
        }
        for sha256 in texts
    ]
    with store.write() as connection:
        acquire_release_lock(connection)
        for page in pages(rows):
            insert_new(connection, WithdrawnDigest, page)
    return forget_vectors(store, "text", texts)


def _delete_vectors(connection: Connection, keys: Iterable[str]) -> int:
    return sum(
        connection.execute(delete(Embedding).where(Embedding.key.in_(page))).rowcount
        for page in pages(keys)
    )


def text_digests(store: Store, entity_ids: Iterable[str]) -> Iterator[str]:
    """The digests by which the vectors of texts among these entities are known."""
    query = select(Entity.payload).where(Entity.kind.in_(_WITHDRAWAL_TRACES_TEXTS))
    with store.read() as connection:
        for page in pages(entity_ids):
            for payload in connection.execute(query.where(Entity.id.in_(page))).scalars():
                yield sha256_of(json.loads(payload)["text"].encode())


@retried
def drop_checkpoints(store: Store, entity_ids: Iterable[str]) -> int:
    """Forgets how far the work on these entities had come; gives of how many."""
    dropped = 0
    with store.write() as connection:
        for page in pages(entity_ids):
            inputs = select(Entity.seq).where(Entity.id.in_(page))
            dropped += connection.execute(
                delete(Checkpoint).where(Checkpoint.input.in_(inputs))
            ).rowcount
    return dropped


def judged_alone(connection: Connection, person: str) -> list[str]:
    """What was last decided on by a person and stands on that judgement alone, in order of id.

    It does not where others judged it, too, and all of them say what stands. Where any of them says
    otherwise, it was the person's word that counted, and the answers that are left decide anew.
    """
    last = aliased(Decision)
    newer = exists().where(last.entity_id == Decision.entity_id, last.id > Decision.id)
    query = (
        select(Decision.entity_id)
        .join(Entity, Entity.id == Decision.entity_id)
        .where(
            Decision.agent_id == AgentRef("person", person).id,
            Entity.state.in_(_JUDGED),
            ~newer,
        )
        .order_by(Decision.entity_id)
    )
    found = list(connection.execute(query).scalars())
    borne_out = _borne_out(connection, found, person)
    return [id_ for id_ in found if id_ not in borne_out]


def _borne_out(connection: Connection, ids: Sequence[str], person: str) -> set[str]:
    """Those that others gave answers on that count, each of which says what stands.

    None that was edited: the text that stands in its place is the person's.
    """
    said = {
        id_: {one.answer["verdict"] for one in answers if one.person != person}
        for id_, answers in counted_answers(connection, None, ids).items()
    }
    states = select(Entity.id, Entity.state)
    return {
        id_
        for page in pages(sorted(said))
        for id_, state in connection.execute(states.where(Entity.id.in_(page)))
        if said[id_] == {_SAID.get(state)}
    }


@retried
def return_answers(store: Store, person: str) -> int:
    """Lets no answer of a person count any more; gives how many did.

    Questions that wait for the person are closed.
    """
    by_person = exists().where(
        Annotation.review_task_key == ReviewTask.key,
        Annotation.agent_id == AgentRef("person", person).id,
    )
    answered = ReviewTask.state == "answered", by_person
    waiting = ReviewTask.state.in_(WAITING), ReviewTask.assignee == person
    with store.write() as connection:
        returned = connection.execute(
            update(ReviewTask).where(*answered).values(state="returned")
        ).rowcount
        connection.execute(update(ReviewTask).where(*waiting).values(state="closed"))
    return returned


@retried
def forget_person(store: Store, pseudonym: str) -> bool:
    """Erases who a pseudonym stands for, for good; False where nobody could tell before."""
    with store.write() as connection:
        known = connection.execute(delete(Pseudonym).where(Pseudonym.name == pseudonym)).rowcount
        named = connection.execute(
            update(Annotator)
            .where(Annotator.pseudonym == pseudonym, Annotator.name != pseudonym)
            .values(name=pseudonym, user_id=-1, state="left")
        ).rowcount
    return known + named > 0
