"""`export.json`: what an export is made of, and the digest of every file of it."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from release.files import OF_FILE_MANAGERS, DigestingFile, digest_of_file
from release.manifest import read_files, read_values
from release.threads import ordered_map
from schemas.base import Record, canonical_json
from schemas.errors import UsageError
from schemas.release import Count, DatasetName, HexSha256, Manifest, ReleasedFile, Version

EXPORT = "export.json"


class ExportedSource(Record):
    """A collection that rows come from, with its terms."""

    name: str
    licence: str
    citation: str
    homepage: str | None


class ExportedSplit(Record):
    """What one split holds."""

    split: str
    images: Count
    captions: Count


class ExportRecord(Record):
    """An export in one record; its files stand beside it in `export.json`, under `files`.

    `release` is the id of the release. `options` are those of the format, which change its bytes.
    """

    schema_version: Literal[1] = 1
    release: HexSha256
    dataset: DatasetName
    version: Version
    format: str
    options: dict[str, int]
    demonstration: bool
    unreviewed: bool
    images: Count
    captions: Count
    splits: tuple[ExportedSplit, ...]
    sources: tuple[ExportedSource, ...]

    @classmethod
    def of(cls, manifest: Manifest, name: str, options: dict[str, int]) -> "ExportRecord":
        """The record of an export of this release in the format called `name`."""
        return cls(
            release=manifest.id,
            dataset=manifest.dataset,
            version=manifest.version,
            format=name,
            options=options,
            demonstration=manifest.demonstration,
            unreviewed=manifest.unreviewed,
            images=manifest.statistics.images,
            captions=manifest.statistics.captions,
            splits=tuple(
                ExportedSplit(split=one.split, images=one.images, captions=one.captions)
                for one in manifest.statistics.splits
            ),
            sources=tuple(
                ExportedSource(
                    name=one.name,
                    licence=one.licence,
                    citation=one.citation,
                    homepage=one.homepage,
                )
                for one in manifest.sources
            ),
        )


def write_export(folder: Path, record: ExportRecord, files: Iterable[bytes]) -> None:
    """Writes `export.json` into `folder`; `files` are entries as JSON."""
    target = DigestingFile(folder / EXPORT)
    try:
        target.write(b"{\n")
        for key, value in record.model_dump(mode="json").items():
            target.write(f'"{key}": {canonical_json(value)},\n'.encode())
        target.write(b'"files": [')
        for index, file in enumerate(files):
            target.write((b",\n" if index else b"\n") + file)
        target.write(b"\n]\n}\n")
    finally:
        target.close()


def read_export(folder: Path) -> ExportRecord:
    """The record of the export in `folder`.

    Raises:
        OSError: there is none.
        ValueError: it is not one.
    """
    return ExportRecord.model_validate(read_values(folder / EXPORT))


def export_faults(folder: Path) -> Iterator[str]:
    """What is wrong with the files of the export in `folder`, a sentence's words each.

    What file managers leave behind is not.

    Raises:
        ValueError: its `export.json` is not one.
    """
    count = 0
    for fault in ordered_map(lambda file: _fault(folder, file), read_files(folder / EXPORT)):
        count += 1
        if fault is not None:
            yield fault
    if sum(1 for _ in _files_in(folder)) != count + 1:
        listed = {EXPORT, *(file.path for file in read_files(folder / EXPORT))}
        for path in _files_in(folder):
            if path not in listed:
                yield f"{path!r} does not belong to it"


def _files_in(folder: Path) -> Iterator[str]:
    """The paths of all that lies in an export but folders and what file managers leave behind."""
    for path in folder.rglob("*"):
        if path.name not in OF_FILE_MANAGERS and (path.is_symlink() or not path.is_dir()):
            yield path.relative_to(folder).as_posix()


def _fault(folder: Path, file: ReleasedFile) -> str | None:
    try:
        sha256 = digest_of_file(folder / file.path)
    except OSError as error:
        return f"{file.path} cannot be read ({error.strerror})"
    if sha256 != file.sha256:
        return f"{file.path} is damaged or was changed"
    return None


def is_there(out: Path, wanted: ExportRecord) -> bool:
    """Whether the very export lies at `out`; False where there is nothing, or an empty folder.

    Raises:
        UsageError: something else is there, or the export is damaged.
    """
    if not (out.exists() or out.is_symlink()) or (out.is_dir() and not any(out.iterdir())):
        return False
    try:
        found = read_export(out)
        if found == wanted:
            fault = next(export_faults(out), None)
            if fault is None:
                return True
            raise UsageError(f"{out} is this export, but {fault}; remove it and export anew")
    except (OSError, ValidationError, ValueError) as error:
        raise UsageError(
            f"{out} exists and is not an export; choose a folder that does not exist"
        ) from error
    what = f"{found.dataset} {found.version} ({found.release[:12]}) as {found.format}"
    options = "".join(f", {name} {value:,}" for name, value in found.options.items())
    raise UsageError(
        f"{out} is another export: {what}{options}; choose a folder that does not exist"
    )
