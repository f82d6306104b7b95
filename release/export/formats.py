"""The formats that a release can be exported in."""

from typing import Final

from release.export.coco_captions import COCO
from release.export.format import ExportFormat
from release.export.lmdb_images import LMDB
from release.export.released_files import HF, PARQUET, PUBLISHED
from release.export.webdataset_shards import WebDatasetShards
from schemas.errors import UsageError

_KNOWN: Final[tuple[ExportFormat, ...]] = (WebDatasetShards(), HF, COCO, LMDB, PARQUET, PUBLISHED)
FORMATS: Final[dict[str, ExportFormat]] = {one.name: one for one in _KNOWN}


def format_called(name: str, shard_bytes: int | None = None) -> ExportFormat:
    """The format called `name`; with `shard_bytes`, of shards of about that size.

    Raises:
        UsageError: there is none of that name, or its shards have no size to choose.
    """
    if name not in FORMATS:
        raise UsageError(f"the format must be one of {', '.join(FORMATS)}; got {name!r}")
    if shard_bytes is None:
        return FORMATS[name]
    if name != "webdataset":
        raise UsageError(f"only webdataset has shards whose size can be chosen; got {name!r}")
    if shard_bytes < 1:
        raise UsageError(f"shards must have at least 1 byte; got {shard_bytes:,}")
    return WebDatasetShards(shard_bytes)
