"""Which files a release may have, and its documents, word for word.

`README.md`, `CITATION.cff`, `words.svg` and `croissant.json` are rendered again from the manifest
and compared.
"""

from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from pathlib import Path

from release.croissant import CROISSANT, croissant_text
from release.documents import OF_MANIFEST
from release.files import is_plain
from release.findings import NOT_READABLE, Findings
from release.leaks import LEAKS
from release.lineage import TABLES
from release.manifest import MANIFEST
from release.notices_files import WITHDRAWALS
from release.parquet_rows import form_of
from release.published_ccd import CCD_LINES
from release.scratch import Scratch
from release.terms import ATTRIBUTION
from schemas.release import DOCUMENTS_VERSION, Manifest

_NO_TEXT = (ValueError, ArithmeticError, LookupError, TypeError, RecursionError)
"""What is raised where a manifest says what no release has."""
_SHOWN = 120


def verify_documents(
    folder: Path, manifest: Manifest, shards: list[str], scratch: Scratch, findings: Findings
) -> None:
    """Finds files of other names, documents that are not listed, and those that say other things.

    `scratch` has the files that the manifest lists. That a listed file is missing or damaged is
    known already, and so what it says is not looked at.
    """
    always, more = _always(manifest), {*_more(manifest), *shards}
    for path in always:
        if not scratch.is_listed(path):
            message = f"{MANIFEST} does not list {path}, which every release has"
            findings.add("file_missing", message, path)
    for path in scratch.listed_outside("images"):
        if path not in always | more:
            message = f"{path} is no file of a release, though {MANIFEST} lists it"
            findings.add("file_unknown", message, path)
    if findings.has("manifest_edited"):  # what it makes now was never said
        return
    if manifest.documents_version != DOCUMENTS_VERSION:
        message = (
            f"{MANIFEST} says documents_version {manifest.documents_version}; this Loupe knows "
            f"{DOCUMENTS_VERSION}, so that nobody can say whether its documents are right: verify "
            f"it with the Loupe that made it"
        )
        findings.add("documents_unknown", message, MANIFEST)
        return
    known = {one.file for one in findings.problems if one.fault.startswith(("file_", "not_a_"))}
    for path, made in _documents(folder, manifest, shards, scratch).items():
        if path not in known and not findings.hides(path) and is_plain(folder / path):
            _compare(folder, path, made, findings)


def _always(manifest: Manifest) -> set[str]:
    """The files that every release has, beside its Parquet files and images."""
    return {f"{manifest.dataset}.json", CROISSANT, *OF_MANIFEST}


def _more(manifest: Manifest) -> set[str]:
    """The files that this one may have beside these; that they are there is for other checks."""
    statistics = manifest.statistics
    return {
        WITHDRAWALS,
        *([LEAKS] if manifest.leaks is not None or manifest.contamination else []),
        *([ATTRIBUTION] if statistics.licences else []),
        *([CCD_LINES] if statistics.contrasts is not None else []),
        *(table.path for table in TABLES),
    }


def _documents(
    folder: Path, manifest: Manifest, shards: list[str], scratch: Scratch
) -> dict[str, Callable[[], str]]:
    """How each document is made, by its path; `croissant.json` needs a Parquet file's columns."""
    documents: dict[str, Callable[[], str]] = {
        path: partial(made, manifest) for path, made in OF_MANIFEST.items()
    }
    try:
        form = form_of(folder / shards[0])
    except (ValueError, IndexError):  # named already: such rows cannot be read
        return documents
    details = (one for one in scratch.listed() if one.path not in (CROISSANT, WITHDRAWALS))
    return {**documents, CROISSANT: partial(croissant_text, manifest, form, details)}


def _compare(folder: Path, path: str, made: Callable[[], str], findings: Findings) -> None:
    try:
        wanted = made().encode()
    except _NO_TEXT as error:
        message = f"{path} cannot be made of what {MANIFEST} says ({type(error).__name__}: {error})"
        findings.add("document_differs", message, path)
        return
    try:
        with (folder / path).open("rb") as file:
            found = file.read(len(wanted) + _SHOWN)
    except OSError as error:
        findings.add(NOT_READABLE, f"{path} cannot be read ({error.strerror})", path)
        return
    if found == wanted:
        return
    lines = zip_longest(found.split(b"\n"), wanted.split(b"\n"))
    for number, (ours, theirs) in enumerate(lines, 1):
        if ours != theirs:
            message = (
                f"{path}: line {number} {_said(ours, 'says')}; "
                f"what {MANIFEST} says makes it {_said(theirs, 'say')}"
            )
            findings.add("document_differs", message, path)
            return


def _said(line: bytes | None, verb: str) -> str:
    if line is None:
        return "is not there" if verb == "says" else "not be there"
    text = line.decode("utf-8", "replace")
    return f"{verb} {text[:_SHOWN]!r}{'…' if len(text) > _SHOWN else ''}"
