"""`manifest.json`: what a release is, with a digest for every file of it.

One file a line, so that it can be read by people and compared by tools; both writing and reading
hold one file at a time in memory. The id covers the files by the root of a Merkle tree, so that one
file can be shown to belong to a release without the list of all others (`release.proofs`).
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any

from release.files import DigestingFile
from release.merkle import MerkleTree
from schemas.base import canonical_json
from schemas.json_stream import JsonBreak, JsonCursor, stream_elements, stream_members
from schemas.release import LineageStatistics, Manifest, ReleasedFile

MANIFEST = "manifest.json"
MAX_CHARACTERS = 16 * 1024 * 1024
"""The longest single value that is read of a file which somebody may have tampered with."""
_UNNAMED = "0" * 64
_UNTOLD = LineageStatistics(entities=0, derivations=0, decisions=0, calls=0, activities=0, agents=0)
_FILES, _END = b'"files": [', b"\n]\n}\n"


def named(manifest: Manifest, files: Iterable[ReleasedFile]) -> Manifest:
    """`manifest` with the root, the count and the id that it has together with `files`."""
    listing = Listing()
    for file in files:
        listing.add(file)
    stated = listing.stated_in(manifest)
    return stated.model_copy(update={"id": id_of(stated)})


def unnamed(**values: Any) -> Manifest:
    """A manifest that has no lineage, no files and no id yet."""
    values = {"lineage": _UNTOLD, **values}
    return Manifest(id=_UNNAMED, files_root=_UNNAMED, files_count=0, **values)


def id_of(manifest: Manifest) -> str:
    """The id that a manifest has by its values, the root of its files among them."""
    values = manifest.model_dump(mode="json", exclude={"id"})
    return hashlib.sha256(canonical_json(values).encode()).hexdigest()


def file_entry(file: ReleasedFile) -> bytes:
    """An entry of `files` as canonical JSON, and a leaf of the tree that the id covers."""
    entity = "" if file.entity_id is None else f'"entity_id":"{file.entity_id}",'
    path = encode_basestring(file.path)  # the others need no escapes, by their patterns
    return (
        f'{{{entity}"path":{path},"sha256":"{file.sha256}","size_bytes":{file.size_bytes}}}'
    ).encode()


class Listing:
    """The files of a manifest as they come, and what the manifest says of them all.

    Attributes:
        is_sorted: whether they came by path, none twice.
    """

    def __init__(self) -> None:
        self.is_sorted = True
        self._tree = MerkleTree()
        self._tail = hashlib.sha256(_FILES)
        self._last = ""

    def add(self, file: ReleasedFile) -> None:
        """Appends a file."""
        entry = file_entry(file)
        self._tail.update(_between(self._tree.size) + entry)
        self._tree.add(entry)
        self.is_sorted = self.is_sorted and self._last < file.path
        self._last = file.path

    def stated_in(self, manifest: Manifest) -> Manifest:
        """`manifest` with the root and the count of the files so far; its id is as it was."""
        root, count = self._tree.root().hex(), self._tree.size
        return manifest.model_copy(update={"files_root": root, "files_count": count})

    def tail_digest(self) -> bytes:
        """The SHA-256 of the bytes of `manifest.json` after its head, these files being all."""
        whole = self._tail.copy()
        whole.update(_END)
        return whole.digest()


def manifest_text(manifest: Manifest, files: Iterable[ReleasedFile]) -> Iterator[bytes]:
    """The bytes of `manifest.json`, piece by piece."""
    yield manifest_head(manifest)
    yield _FILES
    for index, file in enumerate(files):
        yield _between(index) + file_entry(file)
    yield _END


def manifest_head(manifest: Manifest) -> bytes:
    """The bytes of `manifest.json` before its files."""
    values = manifest.model_dump(mode="json")
    lines = (f'"{key}": {canonical_json(value)},\n' for key, value in values.items())
    return "".join(("{\n", *lines)).encode()


def _between(index: int) -> bytes:
    """What stands before the entry at `index`."""
    return b",\n" if index else b"\n"


def write_manifest(folder: Path, manifest: Manifest, files: Iterable[ReleasedFile]) -> None:
    """Writes `manifest.json` into `folder`."""
    target = DigestingFile(folder / MANIFEST)
    try:
        for piece in manifest_text(manifest, files):
            target.write(piece)
    finally:
        target.close()


def read_values(path: Path, each: Callable[[Any], None] | None = None) -> dict[str, Any]:
    """Everything in a `manifest.json` but its files, unchecked; `each` is given every one of these.

    Raises:
        ValueError: it is not a JSON object.
    """
    values: dict[str, Any] = {}
    with _opened(path) as cursor:
        if cursor.peek() != "{":
            raise ValueError(f"it must be a JSON object; got {cursor.peek()!r} first")
        for key in stream_members(cursor):
            if key == "files":
                deque(map(each, _files(cursor)) if each else _files(cursor), maxlen=0)
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
