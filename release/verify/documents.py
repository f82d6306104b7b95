"""Check the documents and withdrawal notices of a release.

All documents are rendered again, as in the build, and compared. Withdrawals are those of the
release itself and those from earlier releases that it states. A folder whose files were erased on
purpose is reported as such and not as damaged.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, zip_longest
from pathlib import Path

from loupe.release.card.croissant import croissant_text
from loupe.release.card.documents import RENDERING_FAULTS, documents_of
from loupe.release.format.files import ATTRIBUTION, CROISSANT, LEAKS, is_plain
from loupe.release.format.findings import NOT_READABLE, Findings
from loupe.release.format.manifest import MANIFEST
from loupe.release.format.row_files import CCD_LINES, read_parquet_rows
from loupe.release.format.rows import form_of, number_in, text_entity_ids
from loupe.release.format.scratch import Scratch
from loupe.release.lineage import TABLES
from loupe.release.withdrawn.files import (
    WITHDRAWALS,
    WITHDRAWN,
    merged,
    prior_withdrawals,
    read_mark,
    read_notices,
    withdrawn_sentence,
)
from loupe.schemas.errors import IntegrityError
from loupe.schemas.release import DOCUMENTS_VERSION, Manifest
from loupe.schemas.withdrawal import NoticeList, WithdrawalNotice
from loupe.schemas.wording import first_of

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
    if len(manifest.statistics.splits) > 1:
        always.add(LEAKS)
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
    known = {one.file for one in findings.problems if one.fault.startswith(("file_", "not_"))}
    has_all_rows = all(is_plain(folder / one) for one in shards)
    if not has_all_rows or findings.has("rows_unreadable") or findings.has("licence_missing"):
        # credits come from the rows, and an image without a credit is not attributed
        known.add(ATTRIBUTION)
    details = (one for one in scratch.listed() if one.path not in (CROISSANT, WITHDRAWALS))
    documents[CROISSANT] = lambda: croissant_text(manifest, details).encode()
    for path, made in documents.items():
        if path not in known and is_plain(folder / path):
            _compare(folder, path, made, findings)


def _compare(folder: Path, path: str, made: Callable[[], bytes], findings: Findings) -> None:
    fault = {LEAKS: "leaks_differ", ATTRIBUTION: "attribution_differs"}.get(
        path, "document_differs"
    )
    try:
        wanted = made()
    except RENDERING_FAULTS as error:
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
_TEXT_COLUMNS = ("file_path", "caption_entity_ids", "coarse_caption_entity_ids", "translations")


def verify_mark(
    folder: Path,
    manifest: Manifest,
    given: Iterable[WithdrawalNotice],
    scratch: Scratch,
    findings: Findings,
) -> NoticeList:
    """Report what is withdrawn from the release in `folder`, by its mark and by `given` notices.

    Returns:
        The notices, and the listed files that were erased on purpose, which do not count as
        missing. Their contents cannot be checked.
    """
    mark = _mark(folder, manifest, scratch, findings)
    notices = merged(mark.notices, (one for one in given if one.release == manifest.id))
    if notices:
        message = withdrawn_sentence(notices, manifest.statistics.images)
        findings.add("withdrawn", message, WITHDRAWN if mark.notices else MANIFEST)
    erased: list[str] = []
    for path in mark.erased:
        if (folder / path).exists():
            message = f"{path} should be erased, but still exists; run the withdrawal again"
            findings.add("erasure_unfinished", message, path)
        else:
            erased.append(path)
    if erased:
        message = (
            f"{first_of(erased, _SHOWN_PATHS)}: erased on purpose, because they held withdrawn "
            f"items (see {WITHDRAWN}); the rows were not checked, because they are incomplete"
        )
        findings.add("erased", message, erased[0])
    return NoticeList(notices=notices, erased=tuple(erased))


def verify_withdrawals(
    folder: Path, manifest: Manifest, shards: Sequence[str], scratch: Scratch, findings: Findings
) -> None:
    """Check that rows withdrawn from earlier releases are not in this one."""
    if not scratch.is_listed(WITHDRAWALS):
        if manifest.withdrawn:
            _find_other_counts(findings, f"and {WITHDRAWALS} is not listed")
        return
    if not (folder / WITHDRAWALS).is_file():
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
    _find_withdrawn(folder, manifest, notices, shards, scratch, findings)


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
    unknown = []
    for row in chain.from_iterable(one.rows for one in own):
        listed = scratch.listed_file(row.file_path)
        if listed is None or listed.entity_id != row.entity_id:
            unknown.append(row.file_path)
    unknown += [path for path in mark.erased if not scratch.is_listed(path)]
    if unknown:
        names = first_of(unknown, _SHOWN_PATHS)
        message = f"{WITHDRAWN} names {names}, which this release does not contain"
        findings.add("withdrawal_foreign", message, WITHDRAWN)
    erased = tuple(path for path in mark.erased if path not in unknown) if own else ()
    return NoticeList(notices=own, erased=erased)


def _find_withdrawn(
    folder: Path,
    manifest: Manifest,
    notices: Sequence[WithdrawalNotice],
    shards: Sequence[str],
    scratch: Scratch,
    findings: Findings,
) -> None:
    """Report rows of this release whose image or text was withdrawn from an earlier one."""
    own = [column.name for column in form_of(manifest).own]
    gone: dict[str, WithdrawalNotice] = {}
    texts: dict[str, WithdrawalNotice] = {}
    for notice in notices:
        for row in notice.rows:
            texts |= dict.fromkeys(row.texts, notice)
            if row.is_whole:
                gone[row.entity_id] = notice
    for file in scratch.listed():
        if file.entity_id in gone:
            _report(file.path, file.path, gone[file.entity_id], findings)
    if not texts:
        return
    for shard in shards:
        try:
            for columns in read_parquet_rows(folder / shard, [*_TEXT_COLUMNS, *own]):
                for text in sorted(texts.keys() & text_entity_ids(columns)):
                    what = f"{columns['file_path']} has the text {text}, which"
                    _report(columns["file_path"], what, texts[text], findings)
        except ValueError:
            return  # reported already


def _report(path: str, what: str, notice: WithdrawalNotice, findings: Findings) -> None:
    message = (
        f"{what} was withdrawn from {notice.dataset} {notice.version}, as {WITHDRAWALS} says, and "
        f"is in this release"
    )
    findings.add("withdrawn_present", message, path, number_in(path))
