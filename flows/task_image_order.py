"""The images of a source in the order in which a task takes them: the best first."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from db.entities import StoredEntity, fetch, parents_of
from db.store import Store
from flows.context import RunContext
from flows.embedding import CachedEmbedder
from flows.importing import KNOWN_FROM
from flows.task_images import embed_stored
from schemas.base import digest_of
from schemas.build import TaskSpec
from schemas.errors import ConfigurationError
from schemas.records import Image, ImageFacts

Way = Literal["named", "nearest", "categories", "random"]


class OrderedImages(NamedTuple):
    """Images of a source in the order of a task.

    `way` says how they were ordered; `unknown` are the names, or the categories, that the task
    wants and no image has.
    """

    way: Way
    images: list[StoredEntity]
    unknown: list[str]


def order_images(
    context: RunContext,
    task: TaskSpec,
    images: Sequence[StoredEntity],
    seed: int,
    embedder: CachedEmbedder,
) -> OrderedImages:
    """Those of `images` that `task` may take: as named, nearest to its query, or drawn.

    Raises:
        ConfigurationError: the file of names cannot be read.
    """
    if task.names is not None:
        return _named(images, task.names)
    if task.query is not None:
        return OrderedImages("nearest", _nearest(context, images, task.query, embedder), [])
    drawn = sorted(images, key=lambda image: digest_of("task", str(seed), task.task, image.id))
    if task.categories:
        return _with_categories(context.store, drawn, task.categories)
    return OrderedImages("random", drawn, [])


def _named(images: Sequence[StoredEntity], names_file: Path) -> OrderedImages:
    by_path = {image.record(Image).file_path: image for image in images}
    names = _names(names_file)
    found = [by_path[name] for name in names if name in by_path]
    return OrderedImages("named", found, [name for name in names if name not in by_path])


def _names(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the names in {path} cannot be read: {error}") from error
    names = (line.strip().removeprefix("./") for line in lines)
    return list(dict.fromkeys(name for name in names if name and not name.startswith("#")))


def _nearest(
    context: RunContext, images: Sequence[StoredEntity], query: str, embedder: CachedEmbedder
) -> list[StoredEntity]:
    """All images, those nearest to what the query says first."""
    rows = embed_stored(context, embedder, images)
    cosines = np.round(rows @ embedder.embed_texts([query])[0], 6)
    order = sorted(range(len(images)), key=lambda at: (-cosines[at], images[at].id))
    return [images[at] for at in order]


def _with_categories(
    store: Store, images: Sequence[StoredEntity], categories: Sequence[str]
) -> OrderedImages:
    """The images that have at least one of the categories; and the categories that none has."""
    known = parents_of(store, [image.id for image in images], KNOWN_FROM)
    records = fetch(store, {one for found in known.values() for one in found})
    of_record = {
        id_: {name.casefold() for name in entity.record(ImageFacts).categories}
        for id_, entity in records.items()
    }
    wanted = {" ".join(name.casefold().split()): name for name in categories}
    found = [
        image
        for image in images
        if any(not wanted.keys().isdisjoint(of_record[one]) for one in known.get(image.id, ()))
    ]
    seen = set().union(*of_record.values())
    unknown = [name for folded, name in wanted.items() if folded not in seen]
    return OrderedImages("categories", found, unknown)
