"""LMDB: `data.mdb`, from each `file_path` (UTF-8) to the bytes of that image, and `index.json`.

The index is a JSON list of all rows in their order, one a line, with all columns but the image.
"""

from pathlib import Path
from typing import Self

import orjson

from release.export.piped import PipedFile
from release.export.source import ExportedRow, ReleaseSource
from release.export.target import ExportTarget
from release.files import digest_of_file
from schemas.errors import IntegrityError
from schemas.release import ReleasedFile

DATA = "data.mdb"
INDEX = "index.json"

_BATCH_BYTES = 16_000_000
_PAGE_BYTES = 4096
_SPARE_BYTES = 64 << 20


class LmdbImages:
    """Writes in transactions of a few megabytes, which is what is held in memory."""

    name = "lmdb"

    @property
    def options(self) -> dict[str, int]:
        """There are none."""
        return {}

    def write(self, source: ReleaseSource, target: ExportTarget) -> None:
        """Writes database and index side by side.

        Raises:
            IntegrityError: images take far more bytes than the Parquet files that hold them.
        """
        import lmdb

        index = PipedFile(target.folder / INDEX)
        try:
            comma = b"[\n"
            with _Database(target.folder, _map_bytes(source)) as database:
                for row in source.rows():
                    database.put(row)
                    index.write(comma + orjson.dumps(row.columns))
                    comma = b",\n"
            index.write(b"\n]\n")
            listed = index.finish(INDEX)
        except lmdb.MapFullError as error:
            raise IntegrityError(
                f"{source.folder}: its images take far more bytes than its Parquet files, which "
                f"hold images as they are in every release of Loupe's"
            ) from error
        finally:
            index.close()
        data = target.folder / DATA
        size = data.stat().st_size
        target.add(ReleasedFile(path=DATA, sha256=digest_of_file(data), size_bytes=size))
        target.add(listed)


class _Database:
    """An environment without a lock file: nobody else knows of it yet. To be used in a `with`."""

    def __init__(self, folder: Path, map_bytes: int) -> None:
        import lmdb

        self._environment = lmdb.open(
            str(folder), map_size=map_bytes, lock=False, sync=False, metasync=False
        )
        self._transaction = self._environment.begin(write=True)
        self._waiting = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        if failed is None:
            self._transaction.commit()
        else:
            self._transaction.abort()
        self._environment.close()

    def put(self, row: ExportedRow) -> None:
        """Stores the image of a row."""
        self._transaction.put(row.columns["file_path"].encode(), row.image, overwrite=False)
        self._waiting += len(row.image)
        if self._waiting >= _BATCH_BYTES:
            self._transaction.commit()
            self._transaction = self._environment.begin(write=True)
            self._waiting = 0


def _map_bytes(source: ReleaseSource) -> int:
    """More than the database can become: images fill whole pages, keys and branches some more."""
    images = sum(shard.size_bytes for shard in source.shards())
    pages = 4 * source.manifest.statistics.images + images // _PAGE_BYTES
    return pages * _PAGE_BYTES + _SPARE_BYTES


LMDB = LmdbImages()
"""Images by their path, for random reads of many processes."""
