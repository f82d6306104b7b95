"""`manifest.json`: the description of a release, with a digest for every file of it.

One line per file, for people and tools. Writing and reading hold one file entry in memory at a
time. The id covers the files by the root of a Merkle tree.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import Field, ValidationError, field_validator

from loupe.release.format.files import DigestingFile, digest_of_file, is_plain
from loupe.release.format.findings import Findings
from loupe.release.format.scratch import Scratch
from loupe.schemas.base import (
    IF_KNOWN,
    EntityId,
    HexSha256,
    Record,
    canonical_json,
    leaf_hash,
    node_hash,
)
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.json_stream import JsonBreak, JsonCursor, stream_members
from loupe.schemas.release import Manifest, ReleasedFile
from loupe.schemas.validation import fault_of, rule_of

MANIFEST = "manifest.json"
MAX_CHARACTERS = 16 * 1024 * 1024
"""The longest single value that is read, because files may have been manipulated."""
_UNNAMED = "0" * 64
_ENTRY: Final = re.compile(
    r'\{(?:"entity_id":"([0-9a-f]{32})",)?"path":"([^"\\\x00-\x1f]+)",'
    r'"sha256":"([0-9a-f]{64})","size_bytes":(0|[1-9][0-9]{0,17})\},\s*'
)
"""An entry in the form of `file_entry`, which is read without JSON, and the text after it."""


def stays_below(path: str) -> bool:
    """Whether a relative path stays below its folder."""
    return {"", ".", ".."}.isdisjoint(path.split("/"))


class FileEntry(Record):
    """A `ReleasedFile` as JSON from an untrusted manifest."""

    path: str = Field(min_length=1)
    sha256: HexSha256
    size_bytes: int = Field(ge=0, lt=2**63)
    entity_id: EntityId | None = IF_KNOWN

    @field_validator("path")
    @classmethod
    def _stays_below(cls, path: str) -> str:
        if not stays_below(path) or "\0" in path:
            raise ValueError("a path must name a file below the folder of the release")
        return path

    def file(self) -> ReleasedFile:
        """The file that the entry describes."""
        return ReleasedFile(self.path, self.sha256, self.size_bytes, self.entity_id)


def named(manifest: Manifest, files: Iterable[ReleasedFile]) -> Manifest:
    """`manifest` with the root, the count and the id that it has together with `files`."""
    listing = Listing()
    for file in files:
        listing.add(file)
    stated = listing.stated_in(manifest)
    return stated.model_copy(update={"id": id_of(stated)})


def unnamed(**values: Any) -> Manifest:
    """A manifest without files and id."""
    return Manifest(id=_UNNAMED, files_root=_UNNAMED, files_count=0, **values)


def id_of(manifest: Manifest) -> str:
    """The id of a manifest, computed from its values including the root of its files."""
    values = manifest.model_dump(mode="json", exclude={"id"})
    return hashlib.sha256(canonical_json(values).encode()).hexdigest()


def file_entry(file: ReleasedFile) -> bytes:
    """An entry of `files` as canonical JSON, which is a leaf of the tree that the id covers."""
    entity = "" if file.entity_id is None else f'"entity_id":"{file.entity_id}",'
    path = encode_basestring(file.path)  # other values need no escapes because of their patterns
    return (
        f'{{{entity}"path":{path},"sha256":"{file.sha256}","size_bytes":{file.size_bytes}}}'
    ).encode()


class Listing:
    """The files of a manifest one at a time, and the manifest's values about all of them.

    The root is that of a Merkle tree (`loupe.schemas.base`), built leaf by leaf. Only the roots of
    complete subtrees are kept, so that memory grows with the height of the tree.
    """

    def __init__(self) -> None:
        self._count = 0
        self._subtrees: list[bytes] = []  # of decreasing sizes: the bits of the count

    def add(self, file: ReleasedFile) -> None:
        """Append a file."""
        carried, root = self._count, leaf_hash(file_entry(file))
        while carried & 1:
            root = node_hash(self._subtrees.pop(), root)
            carried >>= 1
        self._subtrees.append(root)
        self._count += 1

    def stated_in(self, manifest: Manifest) -> Manifest:
        """`manifest` with the root and the count of the files so far, and an unchanged id."""
        root = self._subtrees[-1] if self._subtrees else hashlib.sha256().digest()
        for subtree in reversed(self._subtrees[:-1]):
            root = node_hash(subtree, root)
        update = {"files_root": root.hex(), "files_count": self._count}
        return manifest.model_copy(update=update)


def manifest_text(manifest: Record, files: Iterable[ReleasedFile]) -> Iterator[bytes]:
    """The bytes of `manifest.json` in pieces: the fields of a record, and the list of files."""
    values = manifest.model_dump(mode="json")
    yield "".join(
        ("{\n", *(f'"{key}": {canonical_json(value)},\n' for key, value in values.items()))
    ).encode()
    yield b'"files": ['
    for index, file in enumerate(files):
        yield (b",\n" if index else b"\n") + file_entry(file)
    yield b"\n]\n}\n"


def write_listing(path: Path, record: Record, files: Iterable[ReleasedFile]) -> None:
    """Write a record and the list of its files to a new file."""
    with closing(DigestingFile(path)) as target:
        for piece in manifest_text(record, files):
            target.write(piece)


class NoEntryError(ValueError):
    """An entry of `files` is invalid."""


def _skip(entries: Iterator[ReleasedFile | NoEntryError]) -> None:
    for _ in entries:
        pass


def read_values(
    path: Path, take: Callable[[Iterator[ReleasedFile | NoEntryError]], None] = _skip
) -> dict[str, Any]:
    """All values of a `manifest.json` but its files, unchecked; the files are passed to `take`.

    Raises:
        ValueError: if it is not a JSON object.
    """
    values: dict[str, Any] = {}
    with opened_json(path) as cursor:
        if cursor.peek() != "{":
            raise ValueError(f"it must be a JSON object; got {cursor.peek()!r} first")
        for key in stream_members(cursor):
            if key == "files":
                take(_files(cursor))
            else:
                values[key] = cursor.value()
    return values


def require_release(folder: Path) -> None:
    """Raise unless `folder` holds a manifest.

    Raises:
        UsageError: if it does not.
    """
    if not (folder / MANIFEST).is_file():
        raise UsageError(f"there is no release in {folder}: it holds no {MANIFEST}")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of the release in `folder`.

    Raises:
        IntegrityError: if it cannot be read, or is invalid.
    """
    try:
        return Manifest.model_validate(read_values(folder / MANIFEST))
    except (ValueError, OSError) as error:
        raise IntegrityError(f"{folder / MANIFEST} cannot be read ({fault_of(error)})") from error


def read_files(path: Path) -> Iterator[ReleasedFile]:
    """The files that a `manifest.json` lists, one at a time.

    Raises:
        IntegrityError: if it cannot be read, or an entry is invalid (after the previous ones).
    """
    try:
        with opened_json(path) as cursor:
            for key in stream_members(cursor):
                if key != "files":
                    cursor.value()
                    continue
                for file in _files(cursor):
                    if isinstance(file, NoEntryError):
                        raise file
                    yield file
    except (ValueError, OSError) as error:
        raise IntegrityError(f"{path} cannot be read ({fault_of(error)})") from error


def _files(cursor: JsonCursor) -> Iterator[ReleasedFile | NoEntryError]:
    """The entries of the next array; no other value may contain any."""
    if cursor.peek() != "[":
        cursor.value()
        return
    cursor.take("[")
    if cursor.peek() == "]":
        cursor.take("]")
        return
    count = 0
    while True:
        for entry in cursor.matches(_ENTRY):
            yield _as_written(count, entry)
            count += 1
        yield _checked(count, cursor.value())
        count += 1
        if cursor.take(",", "]") == "]":
            return


def _as_written(index: int, entry: re.Match[str]) -> ReleasedFile | NoEntryError:
    entity_id, path, sha256, size_bytes = entry.groups()
    if stays_below(path):
        return ReleasedFile(path, sha256, int(size_bytes), entity_id)
    return _checked(index, {"path": path, "sha256": sha256, "size_bytes": int(size_bytes)})


def _checked(index: int, value: Any) -> ReleasedFile | NoEntryError:
    try:
        return FileEntry.model_validate(value).file()
    except ValidationError as problem:
        fault = problem.errors()[0]
        place = ".".join(map(str, ("", *fault["loc"])))
        return NoEntryError(f"files[{index}]{place}: {rule_of(fault)}; got {value!r:.200}")


@contextmanager
def opened_json(path: Path) -> Iterator[JsonCursor]:
    """Open a JSON file, whose values have at most `MAX_CHARACTERS`.

    Raises:
        ValueError: if it is not valid JSON, as far as it is read.
    """
    with path.open("rb") as file:
        try:
            yield JsonCursor(file, MAX_CHARACTERS, strict=True)
        except JsonBreak as fault:
            raise ValueError(f"it is not valid JSON ({fault}, byte {fault.offset:,})") from fault


def peeked_manifest(folder: Path) -> Manifest | None:
    """The manifest in a folder, read up to its list of files; None if it cannot be read."""
    values: dict[str, Any] = {}
    try:
        with opened_json(folder / MANIFEST) as cursor:
            if cursor.peek() != "{":
                return None
            for key in stream_members(cursor):
                if key == "files":
                    break
                values[key] = cursor.value()
        return Manifest.model_validate(values)
    except (ValueError, OSError):
        return None


def release_folder(name: str | Path) -> Path | None:
    """Return the folder of that name that holds a release; None if it may be the name of one.

    A folder of another content does not hide the release that is called like it.

    Raises:
        UsageError: `name` can only be a folder, and it holds no release.
    """
    folder = Path(name)
    if (folder / MANIFEST).is_file():
        return folder
    if isinstance(name, Path) or "/" in name:
        what = f"it holds no {MANIFEST}" if folder.is_dir() else "it is not a folder"
        raise UsageError(f"there is no release in {folder}: {what}")
    return None


def manifest_in(folder: Path) -> Manifest | None:
    """The manifest in a folder; None if it is missing or cannot be read."""
    try:
        return read_manifest(folder)
    except IntegrityError:
        return None


class VerifiedManifest(NamedTuple):
    """A usable manifest, and the id of its content."""

    manifest: Manifest
    id: str


def verify_manifest(folder: Path, scratch: Scratch, findings: Findings) -> VerifiedManifest | None:
    """Check the manifest; None if it cannot be used. Its files are stored in `scratch`."""
    path, values = folder / MANIFEST, dict[str, Any]()

    def add(fault: str, what: str) -> None:
        findings.add(fault, f"{MANIFEST} {what}", MANIFEST)

    def sound(entries: Iterator[ReleasedFile | NoEntryError]) -> Iterator[ReleasedFile]:
        for file in entries:
            if isinstance(file, NoEntryError):
                findings.add("manifest_invalid", f"{MANIFEST}: {file}", MANIFEST)
            else:
                yield file

    try:
        values = read_values(_plain(path), lambda entries: scratch.add_all_listed(sound(entries)))
        manifest = Manifest.model_validate(values)
    except FileNotFoundError:
        add("manifest_missing", "is missing")
    except ValidationError as error:
        _report_invalid(error, values, findings)
    except OSError as error:
        add("manifest_unreadable", f"cannot be read ({error.strerror})")
    except ValueError as error:
        add("manifest_unreadable", f"cannot be read: {error}")
    else:
        for twice in scratch.listed_again():
            add("file_listed_twice", f"lists {twice} twice")
        right = named(manifest, scratch.listed())
        for name in ("id", "files_root", "files_count"):
            if (stated := getattr(manifest, name)) != (found := getattr(right, name)):
                what = f"it says {name} {stated}, its content makes {found}"
                add("manifest_edited", f"was changed after it was written: {what}")
        if manifest == right and not _is_as_written(path, manifest, scratch.listed()):
            add(
                "manifest_edited", "has the right content, but other bytes than it was written with"
            )
        return VerifiedManifest(manifest, right.id)
    return None


def _plain(path: Path) -> Path:
    if path.exists() and not is_plain(path):
        raise ValueError("it is not a plain file")
    return path


def _is_as_written(path: Path, manifest: Manifest, files: Iterable[ReleasedFile]) -> bool:
    written = hashlib.sha256()
    for piece in manifest_text(manifest, files):
        written.update(piece)
    return digest_of_file(path) == written.hexdigest()


def _report_invalid(error: ValidationError, values: dict[str, Any], findings: Findings) -> None:
    for problem in error.errors():
        place = ".".join(map(str, problem["loc"]))
        message = f"{MANIFEST}: {place}: {rule_of(problem)}"
        fault = "manifest_invalid"
        if problem["loc"][:1] == ("sources",) and problem["loc"][-1] == "licence":
            source = values["sources"][problem["loc"][1]]
            message = f"{MANIFEST}: source {source.get('name')!r} states no licence"
            fault = "licence_missing"
        findings.add(fault, message, MANIFEST)
