"""The bytes behind entities: whose they are, who else has them, and which may be erased."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from db.entities import pages
from db.store import Store, retried
from db.tables.provenance import Entity

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
