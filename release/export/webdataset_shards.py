"""WebDataset: tar files of samples, `<split>-<number>.tar`, to be read from the first to the last.

A sample is an image (`12.jpg`), all its columns (`12.json`) and its first caption (`12.txt`, empty
where it has none). Members have no time, owner or order of their own, so that the same rows give
the same bytes; none is a pickle.
"""

import tarfile
from typing import NamedTuple

import orjson

from release.export.piped import PipedFile
from release.export.source import ExportedRow, ReleaseSource
from release.export.target import ExportTarget

SHARD_BYTES = 500_000_000
_PADDING = [bytes(-size % tarfile.BLOCKSIZE) for size in range(tarfile.BLOCKSIZE)]
_NAME_BYTES, _SIZE, _SUM = 100, slice(124, 135), slice(148, 155)
_HEADER = tarfile.TarInfo("").tobuf(tarfile.USTAR_FORMAT)
"""Of an empty file without a name: owner, group and time are 0, the mode is 0644."""
_HEADER_SUM = int(_HEADER[_SUM].rstrip(b"\0"), 8)
_FORM = b"".join(
    (
        b"%b",
        _HEADER[_NAME_BYTES : _SIZE.start],
        b"%b",
        _HEADER[_SIZE.stop : _SUM.start],
        b"%06o\0",
        _HEADER[_SUM.stop :],
    )
)
"""What a header consists of beside name, size and sum, which holds no percent sign."""


class WebDatasetShards(NamedTuple):
    """Shards are closed as soon as they have `shard_bytes`; none holds rows of two splits."""

    shard_bytes: int = SHARD_BYTES

    @property
    def name(self) -> str:
        """What the user calls it by."""
        return "webdataset"

    @property
    def options(self) -> dict[str, int]:
        """What was chosen and changes the bytes."""
        return {"shard_bytes": self.shard_bytes}

    def write(self, source: ReleaseSource, target: ExportTarget) -> None:
        """Writes one shard after the other."""
        shard: _Shard | None = None
        split, number = "", 0
        try:
            for row in source.rows():
                if shard and (shard.size >= self.shard_bytes or row.columns["split"] != split):
                    shard.finish(target)
                    shard = None
                if row.columns["split"] != split:
                    split, number = row.columns["split"], 0
                if shard is None:
                    shard = _Shard(target, f"{split}-{number:06d}.tar")
                    number += 1
                shard.add_sample(row)
            if shard:
                shard.finish(target)
        finally:
            if shard:
                shard.close()


class _Shard:
    """One tar file, in the form that POSIX.1-1988 calls ustar."""

    def __init__(self, target: ExportTarget, name: str) -> None:
        self._name = name
        self._file = PipedFile(target.folder / name)

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._file.size

    def add_sample(self, row: ExportedRow) -> None:
        """Appends the files of a row, all called by its key."""
        name, captions = row.name, row.columns["captions"]
        key = name.rpartition(".")[0]
        texts = (
            _padding(row.image),
            *_member(f"{key}.json", orjson.dumps(row.columns)),
            *_member(f"{key}.txt", captions[0].encode() if captions else b""),
        )
        self._file.write(tar_header(name, len(row.image)), row.image, b"".join(texts))

    def finish(self, target: ExportTarget) -> None:
        """Ends the file with two empty blocks, filled up to a whole record."""
        self._file.write(bytes(2 * tarfile.BLOCKSIZE))
        self._file.write(bytes(-self.size % tarfile.RECORDSIZE))
        target.add(self._file.finish(self._name))

    def close(self) -> None:
        """Lets go of the file."""
        self._file.close()


def _member(name: str, data: bytes) -> tuple[bytes, bytes, bytes]:
    return tar_header(name, len(data)), data, _padding(data)


def _padding(data: bytes | memoryview) -> bytes:
    """What fills the last block up."""
    return _PADDING[len(data) % tarfile.BLOCKSIZE]


def tar_header(name: str, size_bytes: int) -> bytes:
    """The header of a file, as `tarfile` makes it, in a fiftieth of the time.

    Raises:
        ValueError: the name or the size is too large for it.
    """
    field, size = name.encode("ascii"), b"%011o" % size_bytes
    if len(field) > _NAME_BYTES or len(size) > _SIZE.stop - _SIZE.start:
        raise ValueError(f"a tar header holds no file {name!r} of {size_bytes:,} bytes")
    total = _HEADER_SUM + sum(field) + sum(size) - len(size) * ord("0")
    return _FORM % (field.ljust(_NAME_BYTES, b"\0"), size, total)
