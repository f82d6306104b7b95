"""The rows of a release that is stored, by the entities that stand in them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from db.as_of import UNMARKED, PastState
from db.release_rows import snapshot
from db.releases import StoredRelease
from db.store import Store
from release.contents import Contents
from release.manifest import MANIFEST
from release.notices_rows import entity_rows, number_in, texts_of
from release.parquet_rows import shards_among
from release.reading import read_listed
from release.scratch import Scratch
from schemas.errors import IntegrityError, UsageError


class Person(NamedTuple):
    """Who is shown: by the number that the release gives, and by the name of the source."""

    id: int
    source: str
    name: str


class RowEntities(NamedTuple):
    """A row of a release by its entities; `captions` are what it is released with."""

    number: int
    file_path: str
    image_id: str
    captions: tuple[str, ...]
    others: tuple[str, ...]
    person: Person

    @property
    def texts(self) -> tuple[str, ...]:
        """All that is said of the image."""
        return (*self.captions, *self.others)


def rows_of(store: Store, release: StoredRelease) -> list[RowEntities] | None:
    """The rows of a release: from its folder where all of it is there, else from the store.

    None where the folder is gone or was erased in part, and it was released before marks were kept.

    Raises:
        IntegrityError: neither the folder nor the store can tell them.
    """
    if (release.folder / MANIFEST).is_file():
        try:
            if (found := _rows_in(release)) is not None:
                return found
        except (IntegrityError, UsageError):  # damaged: the store knows what stood there
            if release.mark == UNMARKED:
                raise
    return None if release.mark == UNMARKED else list(_rows_then(store, release))


def _rows_in(release: StoredRelease) -> list[RowEntities] | None:
    manifest, listed = read_listed(release.folder)
    shards = [release.folder / path for path in shards_among(listed)]
    if manifest.id != release.manifest.id or not all(shard.is_file() for shard in shards):
        return None
    found = []
    for shard in shards:
        for row in entity_rows(shard):
            captions = tuple(row.get("caption_entity_ids") or ())
            others = texts_of(row)[len(captions) :]
            path, person = row["file_path"], Person(row["id"], row["source"], row["identity"])
            found.append(
                RowEntities(number_in(path), path, row["image_entity_id"], captions, others, person)
            )
    return found


def _rows_then(store: Store, release: StoredRelease) -> Iterator[RowEntities]:
    """The rows as they stood in the store when it was built."""
    manifest, past = release.manifest, PastState(release.mark, then_withdrawn=True)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Scratch(Path(folder) / "rows.db")
        try:
            with snapshot(store, past) as connection:
                contents = Contents(connection, manifest.dataset, scratch, manifest.tier)
                contents.arrange()
                for found in contents.rows():
                    row = found.row
                    captions = tuple(one.entity_id for one in row.captions)
                    others = [one.entity_id for one in row.coarse_captions]
                    others += [one.entity_id for one in row.translations]
                    yield RowEntities(
                        row.number,
                        row.file_path,
                        row.image_entity_id,
                        captions,
                        tuple(others),
                        Person(row.id, row.source, row.identity),
                    )
        finally:
            scratch.close()
