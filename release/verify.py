"""Verifies a release from its folder alone: no database, no network.

Three rounds: the manifest against itself, the files against the manifest, and the rows of JSON,
Parquet and images against each other. Files and rows are streamed; files are read by several
threads.
"""

import hashlib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from release.files import digest_of_file
from release.findings import Findings, TooManyProblemsError
from release.manifest import MANIFEST, manifest_text, named, read_files, read_values
from release.parquet_rows import shards_among
from release.scratch import Scratch
from release.threads import DEFAULT_THREADS
from release.verify_containment import verify_containment
from release.verify_files import verify_files
from release.verify_rows import RowChecks
from schemas.errors import UsageError
from schemas.release import Manifest, Problem, ReleasedFile


def verify_release(
    folder: Path,
    *,
    expected_id: str | None = None,
    decode: bool = True,
    contains: Path | None = None,
    threads: int = DEFAULT_THREADS,
) -> list[Problem]:
    """Everything that is wrong with the release in `folder`; an empty list where nothing is.

    Args:
        folder: the release.
        expected_id: its id as it was cited. Without it, a release that somebody changed and named
            anew with care is a correct release: another one.
        decode: decode every image in full; otherwise only its header is read.
        contains: the folder of another release, all rows of which must stand in this one.
        threads: how many files are read at once.

    Raises:
        UsageError: `folder` is not a folder, or there is no release in `contains`.
        IntegrityError: the release in `contains` is not as it was released.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; name the folder of a release")
    findings = Findings()
    scratch = Scratch()
    try:
        manifest = _verify_manifest(folder, expected_id, scratch, findings)
        if scratch.has_listed():
            verify_files(folder, scratch, findings, threads)
        if manifest is not None:
            shards = shards_among(file.path for file in scratch.listed())
            checks = RowChecks(folder, manifest, shards, findings, decode=decode, threads=threads)
            checks.run()
            if contains is not None:
                verify_containment(folder, contains, scratch, findings)
    except TooManyProblemsError:
        pass
    finally:
        scratch.close()
    return findings.problems


def _verify_manifest(
    folder: Path, expected_id: str | None, scratch: Scratch, findings: Findings
) -> Manifest | None:
    """The manifest, or None where it cannot be used; its files are remembered in `scratch`."""
    path = folder / MANIFEST
    try:
        values = read_values(path)
        _read_files(path, scratch, findings)
        manifest = Manifest.model_validate(values)
    except FileNotFoundError:
        findings.add("manifest_missing", f"{MANIFEST} is missing", MANIFEST)
    except ValidationError as error:
        _report_invalid(error, values, findings)
    except (ValueError, OSError) as error:
        findings.add("manifest_unreadable", f"{MANIFEST} cannot be read: {error}", MANIFEST)
    else:
        _verify_id(path, manifest, expected_id, scratch, findings)
        return manifest
    return None


def _read_files(path: Path, scratch: Scratch, findings: Findings) -> None:
    for index, entry in enumerate(read_files(path)):
        try:
            file = ReleasedFile.model_validate(entry)
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))
            findings.add(
                "manifest_invalid",
                f"{MANIFEST}: files[{index}].{where}: {error.errors()[0]['msg']}; got {entry!r}",
                MANIFEST,
            )
            continue
        if not scratch.add_listed(file):
            findings.add("file_listed_twice", f"{MANIFEST} lists {file.path} twice", MANIFEST)


def _report_invalid(error: ValidationError, values: dict[str, Any], findings: Findings) -> None:
    for problem in error.errors():
        place = ".".join(map(str, problem["loc"]))
        message = f"{MANIFEST}: {place}: {problem['msg']}"
        fault = "manifest_invalid"
        if problem["loc"][:1] == ("sources",) and problem["loc"][-1] == "licence":
            source = values["sources"][problem["loc"][1]]
            message = f"{MANIFEST}: source {source.get('name')!r} states no licence"
            fault = "licence_missing"
        findings.add(fault, message, MANIFEST)


def _verify_id(
    path: Path,
    manifest: Manifest,
    expected_id: str | None,
    scratch: Scratch,
    findings: Findings,
) -> None:
    right = named(manifest, scratch.listed()).id
    if manifest.id != right:
        findings.add(
            "manifest_edited",
            f"{MANIFEST} was changed after it was written: its id is {manifest.id}, "
            f"its content makes {right}",
            MANIFEST,
        )
    elif not _is_as_written(path, manifest, scratch):
        findings.add(
            "manifest_edited",
            f"{MANIFEST} says what it should, but its bytes are not as they were written",
            MANIFEST,
        )
    if expected_id is not None and not right.startswith(expected_id.lower()):
        findings.add(
            "other_release",
            f"this is the release {right}; wanted the one with the id {expected_id}",
            MANIFEST,
        )


def _is_as_written(path: Path, manifest: Manifest, scratch: Scratch) -> bool:
    expected = hashlib.sha256()
    for piece in manifest_text(manifest, scratch.listed()):
        expected.update(piece)
    return digest_of_file(path) == expected.hexdigest()
