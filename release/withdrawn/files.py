"""Files of notices, which inform holders of releases about withdrawals."""

import json
import os
from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from loupe.release.format.files import read_plain, write_file
from loupe.schemas.base import Version, canonical_json
from loupe.schemas.errors import IntegrityError
from loupe.schemas.grouping import grouped
from loupe.schemas.release import PriorWithdrawal, ReleasedFile
from loupe.schemas.validation import fault_of
from loupe.schemas.withdrawal import (
    Ground,
    NoticeList,
    WithdrawalNotice,
    WithdrawnRow,
    version_numbers,
)
from loupe.schemas.wording import first_of, many

WITHDRAWN = "WITHDRAWN.json"
"""The withdrawals from the release in whose folder it is."""
WITHDRAWALS = "withdrawals.json"
"""The withdrawals from earlier releases of the dataset; a listed file of a release."""
_MAX_BYTES = 128 * 1024 * 1024
"""The maximum size of a file of notices, enough for some hundred thousand rows."""
NOTICES = "notices"
"""The folder below an installation's home with a file of notices for each dataset."""


def erasure_of(folder: Path, path: str) -> str | None:
    """Why a file of the release in `folder` was erased on purpose; None if it was not.

    Raises:
        IntegrityError: if the mark cannot be read.
    """
    mark = read_mark(folder)
    if mark is None or path not in mark.erased:
        return None
    newer = superseding(mark.notices)
    instead = f"; use version {newer} instead" if newer else ""
    return f"{path} was erased on purpose, because it held what was withdrawn{instead}"


def read_mark(folder: Path) -> NoticeList | None:
    """The contents of `WITHDRAWN.json` in the folder of a release; None if it does not exist.

    Raises:
        IntegrityError: if it cannot be read.
    """
    path = folder / WITHDRAWN
    return read_notices(path) if os.path.lexists(path) else None


def read_notices(path: Path) -> NoticeList:
    """Read a file of notices; links are rejected.

    Raises:
        IntegrityError: if it is invalid or cannot be read.
    """
    try:
        return NoticeList.model_validate_json(read_plain(path, _MAX_BYTES))
    except ValueError as error:
        raise IntegrityError(f"{path} is not a file of notices ({fault_of(error)})") from error
    except OSError as error:
        raise IntegrityError(f"{path} cannot be read ({error.strerror})") from error


def merged(
    known: Iterable[WithdrawalNotice], newer: Iterable[WithdrawalNotice]
) -> tuple[WithdrawalNotice, ...]:
    """Merge notices by withdrawal and release; newer ones replace known ones.

    Sorted by version, then by withdrawal, independent of the order of the input.
    """
    by_key = {(one.release, one.withdrawal): one for one in (*known, *newer)}
    return tuple(sorted(by_key.values(), key=_order))


def superseding(notices: Sequence[WithdrawalNotice]) -> Version | None:
    """The version to use instead of a release with these notices; None if there is none.

    There is none if any notice states that nothing was left, because then all of it is withdrawn.
    """
    versions = [one.superseded_by for one in notices if one.superseded_by is not None]
    if len(versions) < len(notices):
        return None
    return max(versions, key=version_numbers, default=None)


def followed(notices: Iterable[WithdrawalNotice]) -> tuple[WithdrawalNotice, ...]:
    """The same notices, updated with the withdrawals of the versions that they recommend.

    If such a version was withdrawn itself, the version that replaces it is named instead, or none.
    """
    known = tuple(notices)
    details = grouped(((one.dataset, one.version), one) for one in known)

    def sound(dataset: str, version: Version | None) -> Version | None:
        while version is not None and (own := details.get((dataset, version))):
            newer = superseding(own)
            if newer is not None and version_numbers(newer) <= version_numbers(version):
                return version  # a recommended version must be later
            version = newer
        return version

    return tuple(
        one.model_copy(update={"superseded_by": sound(one.dataset, one.superseded_by)})
        for one in known
    )


def notice_text(notices: NoticeList) -> bytes:
    """The bytes of a file of notices: one row a line, easy to read and to compare.

    The same notices give the same bytes.
    """
    values = notices.model_dump(mode="json")
    lines = [f'"schema_version": {notices.schema_version}']
    details = [_notice_lines(one) for one in values["notices"]]
    lines.append(
        '"notices": [' + ",".join(f"\n{one}" for one in details) + ("\n]" if details else "]")
    )
    if notices.erased:
        paths = ",\n".join(json.dumps(path, ensure_ascii=False) for path in notices.erased)
        lines.append(f'"erased": [\n{paths}\n]')
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _notice_lines(notice: dict[str, Any]) -> str:
    rows = ",".join(f"\n{canonical_json(row)}" for row in notice["rows"])
    details = [f'"{key}": {canonical_json(notice[key])}' for key in notice if key != "rows"]
    return "{" + ", ".join(details) + f', "rows": [{rows}]' + "}"


def _order(notice: WithdrawalNotice) -> tuple[str, tuple[int, ...], str]:
    return notice.dataset, version_numbers(notice.version), notice.withdrawal


_SHOWN = 5


_GROUNDS: dict[Ground, str] = {
    "privacy": "privacy",
    "copyright": "copyright",
    "law": "a legal order",
    "consent": "consent withdrawn",
    "quality": "quality",
    "other": "other grounds",
}


def affected_rows(notices: Iterable[WithdrawalNotice]) -> tuple[WithdrawnRow, ...]:
    """The rows named in the notices, once each, by number: whole, or with all withdrawn texts."""
    rows: dict[int, WithdrawnRow] = {}
    for row in chain.from_iterable(notice.rows for notice in notices):
        known = rows.get(row.number)
        if known is None or (known.texts and row.is_whole):
            rows[row.number] = row
        elif known.texts:
            texts = tuple(dict.fromkeys((*known.texts, *row.texts)))
            rows[row.number] = known.model_copy(update={"texts": texts})
    return tuple(rows[number] for number in sorted(rows))


def withdrawn_sentence(notices: Sequence[WithdrawalNotice], images: int) -> str:
    """The effect of the notices on a release with `images` rows, as a sentence."""
    rows = affected_rows(notices)
    whole = sum(row.is_whole for row in rows)
    in_part = len(rows) - whole
    is_all = bool(whole) and whole == images
    of_its = f"of its {images:,} rows"
    parts = [f"{'all' if is_all else f'{whole:,}'} {of_its}"] if whole else []
    if in_part:
        some = many(in_part, "other row") if whole else f"{in_part:,} {of_its}"
        parts.append(f"texts or records of {some}")
    grounds = ", ".join(dict.fromkeys(_GROUNDS[notice.ground] for notice in notices))
    newer = superseding(notices)
    instead = f"use {newer} instead" if newer else "no version replaces it"
    what = " and ".join(parts) or "rows that are no longer known"
    named = f" ({first_of([row.file_path for row in rows], _SHOWN)})" if rows else ""
    return (
        f"{notices[0].dataset} {notices[0].version} is withdrawn{'' if is_all else ' in part'} "
        f"({grounds}); must no longer be used: {what}{named}; {instead}"
    )


def write_withdrawals(folder: Path, notices: Sequence[WithdrawalNotice]) -> list[ReleasedFile]:
    """Write `withdrawals.json` into the folder of a release, unless there are no notices.

    Returns:
        The written file, to be listed in the manifest.
    """
    if not notices:
        return []
    text = notice_text(NoticeList(notices=merged((), notices)))
    return [write_file(folder, WITHDRAWALS, text)]


def prior_withdrawals(notices: Iterable[WithdrawalNotice]) -> tuple[PriorWithdrawal, ...]:
    """Withdrawals by version, oldest first; a row named by several withdrawals counts once."""
    details = []

    def order(notice: WithdrawalNotice) -> tuple[tuple[int, ...], str]:
        return version_numbers(notice.version), notice.release

    for (_, release_id), of_one in groupby(sorted(notices, key=order), key=order):
        notes = list(of_one)
        rows = affected_rows(notes)
        whole = sum(row.is_whole for row in rows)
        details.append(
            PriorWithdrawal(
                version=notes[0].version,
                id=release_id,
                rows=whole,
                rows_in_part=len(rows) - whole,
            )
        )
    return tuple(details)
