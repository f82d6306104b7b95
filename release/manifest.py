"""`manifest.json`: what a release is, with a digest for every file of it.

One file a line, so that it can be read by people and compared by tools; both writing and reading
hold one file at a time in memory.
"""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from release.files import DigestingFile
from schemas.base import canonical_json
from schemas.json_stream import JsonBreak, JsonCursor, stream_elements, stream_members
from schemas.release import Manifest, ReleasedFile

MANIFEST = "manifest.json"
MAX_CHARACTERS = 16 * 1024 * 1024
"""The longest single value that is read of a file which somebody may have tampered with."""
_UNNAMED = "0" * 64


def named(manifest: Manifest, files: Iterable[ReleasedFile]) -> Manifest:
    """`manifest` with the id that it has together with `files`."""
    values = manifest.model_dump(mode="json", exclude={"id"})
    before, after = _around_files(values)
    digest = hashlib.sha256(before.encode())
    for index, file in enumerate(files):
        digest.update((("," if index else "") + canonical_json(file.model_dump())).encode())
    digest.update(after.encode())
    return manifest.model_copy(update={"id": digest.hexdigest()})


def unnamed(**values: Any) -> Manifest:
    """A manifest that has no id yet."""
    return Manifest(id=_UNNAMED, **values)


def _around_files(values: dict[str, Any]) -> tuple[str, str]:
    """The canonical JSON of a manifest before and after the entries of its `files`."""
    keys = sorted([*values, "files"])
    split = keys.index("files")
    before = [f"{canonical_json(key)}:{canonical_json(values[key])}" for key in keys[:split]]
    after = [f"{canonical_json(key)}:{canonical_json(values[key])}" for key in keys[split + 1 :]]
    return "{" + ",".join([*before, '"files":[']), ",".join(["]", *after]) + "}"


def manifest_text(manifest: Manifest, files: Iterable[ReleasedFile]) -> Iterator[bytes]:
    """The bytes of `manifest.json`, piece by piece."""
    values = manifest.model_dump(mode="json")
    yield b"{\n"
    for key, value in values.items():
        yield f'"{key}": {canonical_json(value)},\n'.encode()
    yield b'"files": ['
    for index, file in enumerate(files):
        yield f"{',' if index else ''}\n{canonical_json(file.model_dump())}".encode()
    yield b"\n]\n}\n"


def write_manifest(folder: Path, manifest: Manifest, files: Iterable[ReleasedFile]) -> None:
    """Writes `manifest.json` into `folder`."""
    target = DigestingFile(folder / MANIFEST)
    try:
        for piece in manifest_text(manifest, files):
            target.write(piece)
    finally:
        target.close()


def read_values(path: Path) -> dict[str, Any]:
    """Everything in a `manifest.json` but its files, unchecked.

    Raises:
        ValueError: it is not a JSON object.
    """
    values: dict[str, Any] = {}
    with _opened(path) as cursor:
        if cursor.peek() != "{":
            raise ValueError(f"it must be a JSON object; got {cursor.peek()!r} first")
        for key in stream_members(cursor):
            if key == "files":
                deque(_files(cursor), maxlen=0)
            else:
                values[key] = cursor.value()
    return values


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the release in `folder`.

    Raises:
        OSError: there is none.
        ValueError: it is not one.
    """
    return Manifest.model_validate(read_values(folder / MANIFEST))


def read_files(path: Path) -> Iterator[Any]:
    """The entries of `files` in a `manifest.json`, unchecked, one at a time.

    Raises:
        ValueError: it is not a JSON object (after the entries before the fault).
    """
    with _opened(path) as cursor:
        for key in stream_members(cursor):
            if key == "files":
                yield from _files(cursor)
            else:
                cursor.value()


def _files(cursor: JsonCursor) -> Iterator[Any]:
    if cursor.peek() == "[":
        yield from stream_elements(cursor)
    else:
        cursor.value()


@contextmanager
def _opened(path: Path) -> Iterator[JsonCursor]:
    with path.open("rb") as file:
        try:
            yield JsonCursor(file, MAX_CHARACTERS, strict=True)
        except JsonBreak as fault:
            raise ValueError(f"it is not valid JSON ({fault}, byte {fault.offset:,})") from fault
