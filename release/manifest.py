"""`manifest.json`: what a release is, with a digest for every file of it.

One file a line, so that it can be read by people and compared by tools; both writing and reading
hold one file at a time in memory.
"""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import ijson

from release.files import DigestingFile
from schemas.base import canonical_json
from schemas.release import Manifest, ReleasedFile

MANIFEST = "manifest.json"
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
    builder = ijson.ObjectBuilder()
    with path.open("rb") as file:
        try:
            for prefix, event, value in ijson.parse(file, use_float=True):
                if prefix != "files" and not prefix.startswith("files."):
                    builder.event(event, value)
        except ijson.JSONError as error:
            raise ValueError(f"it is not valid JSON ({error})") from error
    if not isinstance(values := builder.value, dict):
        raise ValueError(f"it must be a JSON object; got {values!r}")  # noqa: TRY004 - a fault of the file
    return values


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the release in `folder`.

    Raises:
        OSError: there is none.
        ValueError: it is not one.
    """
    return Manifest.model_validate(read_values(folder / MANIFEST))


def read_files(path: Path) -> Iterator[Any]:
    """The entries of `files` in a `manifest.json`, unchecked, one at a time."""
    with path.open("rb") as file:
        yield from ijson.items(file, "files.item", use_float=True)
