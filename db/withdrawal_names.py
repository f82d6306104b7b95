"""What people know entities by: the file of a picture, the words of a text."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from db.entities import pages
from db.tables.provenance import Entity

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
