"""Check the documents and withdrawal notices of a release.

All documents are rendered again, as in the build, and compared. Withdrawals are those of the
release itself and those from earlier releases that it states. A folder whose files were erased on
purpose is reported as such and not as damaged.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from release.croissant import croissant_text
from release.documents import documents_of
from release.files import ATTRIBUTION, CROISSANT, LEAKS, is_plain
from release.findings import NOT_READABLE, Findings
from release.lineage import TABLES
from release.manifest import MANIFEST, Listing, NoEntryError, id_of, manifest_head, read_values
from release.notices import entity_rows, prior_withdrawals, withdrawn_sentence
from release.notices_files import WITHDRAWALS, WITHDRAWN, merged, read_mark, read_notices
from release.row_files import CCD_LINES
from release.rows import number_in, text_entity_ids
from release.scratch import Scratch
from schemas.errors import IntegrityError, UsageError
from schemas.release import DOCUMENTS_VERSION, Manifest, ReleasedFile
from schemas.withdrawal import NoticeList, WithdrawalNotice

_PIECE_BYTES = 1 << 20
_FEWEST_DIGITS = 12
_CITED = re.compile(rf"[0-9a-fA-F]{{{_FEWEST_DIGITS},64}}")


class VerifiedManifest(NamedTuple):
    """A usable manifest, and the id of its content."""

    manifest: Manifest
    id: str


def verify_manifest(
    folder: Path, expected_id: str | None, scratch: Scratch, findings: Findings
) -> VerifiedManifest | None:
    """Check the manifest; None if it cannot be used. Its files are stored in `scratch`.

    Raises:
        UsageError: if `expected_id` is too short.
    """
    if expected_id is not None:
        _refuse_short(expected_id)
    path, listing = folder / MANIFEST, Listing()
    values: dict[str, Any] = {}

    def sound(entries: Iterator[ReleasedFile | NoEntryError]) -> Iterator[ReleasedFile]:
        for file in entries:
            if isinstance(file, NoEntryError):
                findings.add("manifest_invalid", f"{MANIFEST}: {file}", MANIFEST)
            else:
                listing.add(file)
                yield file

    def take(entries: Iterator[ReleasedFile | NoEntryError]) -> None:
        scratch.add_all_listed(sound(entries))
        for twice in scratch.listed_again():
            message = f"{MANIFEST} lists {twice} twice"
            findings.add("file_listed_twice", message, MANIFEST)

    try:
        values = read_values(_plain(path), take)
        manifest = Manifest.model_validate(values)
    except FileNotFoundError:
        findings.add("manifest_missing", f"{MANIFEST} is missing", MANIFEST)
    except ValidationError as error:
        _report_invalid(error, values, findings)
    except OSError as error:
        message = f"{MANIFEST} cannot be read ({error.strerror})"
        findings.add("manifest_unreadable", message, MANIFEST)
    except ValueError as error:
        findings.add("manifest_unreadable", f"{MANIFEST} cannot be read: {error}", MANIFEST)
    else:
        listed = listing.stated_in(manifest)
        right = id_of(listed)
        _verify_id(manifest.id, right, expected_id, findings)
        if (manifest.files_root, manifest.files_count) != (listed.files_root, listed.files_count):
            message = (
                f"{MANIFEST} states {manifest.files_count:,} files with the root "
                f"{manifest.files_root}; it lists {listed.files_count:,} with {listed.files_root}"
            )
            findings.add("manifest_edited", message, MANIFEST)
        elif manifest.id == right and not _is_as_written(path, manifest, listing):
            message = f"{MANIFEST} has the right content, but other bytes than it was written with"
            findings.add("manifest_edited", message, MANIFEST)
        return VerifiedManifest(manifest, right)
    return None


def _refuse_short(expected_id: str) -> None:
    """Accept an id as it was cited, or a prefix that is too long to forge.

    Raises:
        UsageError: if it is something else.
    """
    if not _CITED.fullmatch(expected_id):
        raise UsageError(
            f"an expected id has {_FEWEST_DIGITS} to 64 hex digits; got {expected_id!r}"
        )


def _plain(path: Path) -> Path:
    if path.exists() and not is_plain(path):
        raise ValueError("it is not a plain file")
    return path


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


def _verify_id(stated: str, right: str, expected_id: str | None, findings: Findings) -> None:
    if stated != right:
        message = (
            f"{MANIFEST} was changed after it was written: its id is {stated}, "
            f"its content makes {right}"
        )
        findings.add("manifest_edited", message, MANIFEST)
    if expected_id is not None and not right.startswith(expected_id.lower()):
        message = f"this is the release {right}; expected the one with the id {expected_id}"
        findings.add("other_release", message, MANIFEST)


def _is_as_written(path: Path, manifest: Manifest, listing: Listing) -> bool:
    head = manifest_head(manifest)
    rest = hashlib.sha256()
    with path.open("rb") as file:
        if not listing.is_sorted or file.read(len(head)) != head:
            return False
        while piece := file.read(_PIECE_BYTES):
            rest.update(piece)
    return rest.digest() == listing.tail_digest()


_RENDERING_FAULTS = (ValueError, ArithmeticError, LookupError, TypeError, RecursionError)
"""The exceptions raised for manifests with values that no release has."""
_SHOWN = 120


def verify_documents(
    folder: Path, manifest: Manifest, shards: list[str], scratch: Scratch, findings: Findings
) -> None:
    """Report files with other names, documents that are not listed, and changed documents.

    `scratch` has the files that the manifest lists. Listed files that are missing or damaged are
    reported elsewhere, so their contents are not compared.
    """
    documents = documents_of(manifest, scratch)
    always = {f"{manifest.dataset}.json", CROISSANT, *documents}
    more = {WITHDRAWALS, *(table.path for table in TABLES), *shards}
    if manifest.statistics.contrasts is not None:
        always.add(CCD_LINES)
    for path in always:
        if not scratch.is_listed(path):
            message = f"{MANIFEST} does not list {path}, which this release must have"
            findings.add("file_missing", message, path)
    for path in scratch.listed_outside("images"):
        if path not in always | more:
            message = f"{MANIFEST} lists {path}, which is not a file of a release"
            findings.add("file_unknown", message, path)
    if findings.has("manifest_edited"):  # this would only repeat other problems
        return
    if manifest.documents_version != DOCUMENTS_VERSION:
        message = (
            f"{MANIFEST} says documents_version {manifest.documents_version}; this Loupe knows "
            f"{DOCUMENTS_VERSION}, so that its documents cannot be checked; verify it with the "
            f"version of Loupe that made it"
        )
        findings.add("documents_unknown", message, MANIFEST)
        return
    known = {one.file for one in findings.problems if one.fault.startswith(("file_", "not_a_"))}
    has_all_rows = all(is_plain(folder / one) for one in shards)
    if not has_all_rows or findings.has("rows_unreadable") or findings.has("licence_missing"):
        # credits come from the rows, and an image without a credit is not attributed
        known.add(ATTRIBUTION)
    details = (one for one in scratch.listed() if one.path not in (CROISSANT, WITHDRAWALS))
    documents[CROISSANT] = lambda: croissant_text(manifest, details).encode()
    for path, made in documents.items():
        if path not in known and not findings.hides(path) and is_plain(folder / path):
            _compare(folder, path, made, findings)


def _compare(folder: Path, path: str, made: Callable[[], bytes], findings: Findings) -> None:
    fault = {LEAKS: "leaks_differ", ATTRIBUTION: "attribution_differs"}.get(
        path, "document_differs"
    )
    try:
        wanted = made()
    except _RENDERING_FAULTS as error:
        message = f"{path} cannot be generated from {MANIFEST} ({type(error).__name__}: {error})"
        findings.add(fault, message, path)
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
                f"{path}: line {number} {_quoted(ours, 'says')}; "
                f"by {MANIFEST} it should {_quoted(theirs, 'say')}"
            )
            findings.add(fault, message, path)
            return


def _quoted(line: bytes | None, verb: str) -> str:
    if line is None:
        return "is missing" if verb == "says" else "not exist"
    text = line.decode("utf-8", "replace")
    return f"{verb} {text[:_SHOWN]!r}{'…' if len(text) > _SHOWN else ''}"


_SHOWN_PATHS = 5


def verify_mark(
    folder: Path,
    manifest: Manifest,
    given: Iterable[WithdrawalNotice],
    scratch: Scratch,
    findings: Findings,
) -> frozenset[str]:
    """Report what is withdrawn from the release in `folder`, by its mark and by `given` notices.

    Returns:
        The listed files that were erased on purpose, which do not count as missing. Their
        contents cannot be checked.
    """
    mark = _mark(folder, manifest, scratch, findings)
    notices = merged(mark.notices, (one for one in given if one.release == manifest.id))
    if notices:
        message = withdrawn_sentence(notices, manifest.statistics.images)
        findings.add("withdrawn", message, WITHDRAWN if mark.notices else MANIFEST)
    existing = {path: _exists(folder / path) for path in mark.erased}
    erased = [path for path, is_there in existing.items() if is_there is False]
    for path, is_there in existing.items():
        if is_there:
            message = f"{path} should be erased, but still exists; run the withdrawal again"
            findings.add("erasure_unfinished", message, path)
    if erased:
        message = (
            f"{_first_paths(erased)}: erased on purpose, because they held withdrawn items (see "
            f"{WITHDRAWN}); the rows were not checked, because they are incomplete"
        )
        findings.add("erased", message, erased[0])
    return frozenset(erased)


def verify_withdrawals(
    folder: Path, manifest: Manifest, shards: Sequence[str], scratch: Scratch, findings: Findings
) -> None:
    """Check that rows withdrawn from earlier releases are not in this one."""
    if not scratch.is_listed(WITHDRAWALS):
        if manifest.withdrawn:
            _find_other_counts(findings, f"and {WITHDRAWALS} is not listed")
        return
    if findings.hides(WITHDRAWALS) or not (folder / WITHDRAWALS).is_file():
        return
    try:
        notices = read_notices(folder / WITHDRAWALS).notices
    except IntegrityError as error:
        findings.add("withdrawals_unreadable", str(error), WITHDRAWALS)
        return
    if foreign := sorted({one.dataset for one in notices} - {manifest.dataset}):
        message = f"{WITHDRAWALS} names {', '.join(foreign)}; expected only {manifest.dataset}"
        findings.add("withdrawals_foreign", message, WITHDRAWALS)
    details = prior_withdrawals(notices)
    if manifest.withdrawn != details:
        _find_other_counts(findings, f"{WITHDRAWALS} names {sum(one.rows for one in details):,}")
    _find_withdrawn(folder, notices, shards, scratch, findings)


def _find_other_counts(findings: Findings, instead: str) -> None:
    message = f"{MANIFEST} states other rows to be withdrawn from earlier versions; {instead}"
    findings.add("withdrawals_differ", message, WITHDRAWALS)


def _mark(folder: Path, manifest: Manifest, scratch: Scratch, findings: Findings) -> NoticeList:
    """The mark's notices of this release."""
    try:
        mark = read_mark(folder) or NoticeList(notices=())
    except IntegrityError as error:
        findings.add("withdrawal_unreadable", str(error), WITHDRAWN)
        return NoticeList(notices=())
    own = tuple(one for one in mark.notices if one.release == manifest.id)
    if len(own) != len(mark.notices):
        other = next(one for one in mark.notices if one.release != manifest.id)
        message = (
            f"{WITHDRAWN} is of another release, {other.dataset} {other.version} "
            f"({other.release[:12]})"
        )
        findings.add("withdrawal_foreign", message, WITHDRAWN)
    unknown = [
        row.file_path
        for notice in own
        for row in notice.rows
        if (listed := scratch.listed_file(row.file_path)) is None
        or listed.entity_id != row.entity_id
    ]
    unknown += [path for path in mark.erased if not scratch.is_listed(path)]
    if unknown:
        message = f"{WITHDRAWN} names {_first_paths(unknown)}, which this release does not contain"
        findings.add("withdrawal_foreign", message, WITHDRAWN)
    erased = tuple(path for path in mark.erased if path not in unknown) if own else ()
    return NoticeList(notices=own, erased=erased)


def _find_withdrawn(
    folder: Path,
    notices: Sequence[WithdrawalNotice],
    shards: Sequence[str],
    scratch: Scratch,
    findings: Findings,
) -> None:
    """Report rows of this release whose image or text was withdrawn from an earlier one."""
    gone = {row.entity_id: one for one in notices for row in one.rows if row.is_whole}
    texts = {text: one for one in notices for row in one.rows for text in row.texts}
    for file in scratch.listed():
        if file.entity_id in gone:
            _report(file.path, file.path, gone[file.entity_id], findings)
    if not texts:
        return
    for shard in shards:
        try:
            for row in entity_rows(folder / shard):
                for text in text_entity_ids(row):
                    if text in texts:
                        what = f"{row['file_path']} has the text {text}, which"
                        _report(row["file_path"], what, texts[text], findings)
        except IntegrityError:
            return  # reported already


def _report(path: str, what: str, notice: WithdrawalNotice, findings: Findings) -> None:
    message = (
        f"{what} was withdrawn from {notice.dataset} {notice.version}, as {WITHDRAWALS} says, and "
        f"is in this release"
    )
    findings.add("withdrawn_present", message, path, number_in(path))


def _exists(path: Path) -> bool | None:
    """Whether the file exists; None if its folder cannot be read."""
    try:
        return path.exists()
    except OSError:  # reported with the files
        return None


def _first_paths(paths: Sequence[str]) -> str:
    """The first of some files and the number of others, as the beginning of a sentence."""
    shown = ", ".join(paths[:_SHOWN_PATHS])
    more = f" and {len(paths) - _SHOWN_PATHS:,} more" if len(paths) > _SHOWN_PATHS else ""
    return f"{shown}{more}"
