"""Files of notices, by which holders of releases learn of withdrawals."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from release.files import is_plain
from schemas.base import canonical_json
from schemas.errors import IntegrityError
from schemas.faults import fault_of
from schemas.release import Version
from schemas.withdrawal import NoticeList, WithdrawalNotice, version_numbers

WITHDRAWN = "WITHDRAWN.json"
"""What was withdrawn from the release that it lies in."""
WITHDRAWALS = "withdrawals.json"
"""What was withdrawn from earlier releases of the dataset; a file of the release that lists it."""
_MAX_BYTES = 128 * 1024 * 1024
"""What a file of notices has at most: some hundred thousand rows."""
NOTICES = "notices"
"""The folder below an installation's home with a file of notices for each dataset."""


def erasure_of(folder: Path, path: str) -> str | None:
    """Why a file of the release in `folder` is missing, where it was erased on purpose.

    Raises:
        IntegrityError: the mark cannot be read.
    """
    mark = read_mark(folder)
    if mark is None or path not in mark.erased:
        return None
    newer = superseding(mark.notices)
    instead = f"; use version {newer} instead" if newer else ""
    return f"{path} was erased on purpose, because it held what was withdrawn{instead}"


def read_mark(folder: Path) -> NoticeList | None:
    """What `WITHDRAWN.json` in the folder of a release says; None where there is none.

    Raises:
        IntegrityError: it cannot be read.
    """
    path = folder / WITHDRAWN
    return read_notices(path) if os.path.lexists(path) else None


def read_notices(path: Path) -> NoticeList:
    """A file of notices; a link is none, wherever it leads to.

    Raises:
        IntegrityError: it is none, or cannot be read.
    """
    try:
        return NoticeList.model_validate_json(_read(path))
    except ValidationError as error:
        raise IntegrityError(f"{path} is no file of notices ({fault_of(error)})") from error
    except OSError as error:
        raise IntegrityError(f"{path} cannot be read ({error.strerror})") from error


def _read(path: Path) -> bytes:
    """The bytes of a plain file. Of what never ends, or is too much, none are read."""
    if not is_plain(path):
        raise IntegrityError(f"{path} is no file of notices (it is a link, or not a file at all)")
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        data = file.read(_MAX_BYTES + 1) if os.fstat(handle).st_size <= _MAX_BYTES else None
    if data is None or len(data) > _MAX_BYTES:
        raise IntegrityError(
            f"{path} is no file of notices (it has more than {_MAX_BYTES:,} bytes)"
        )
    return data


def merged(
    known: Iterable[WithdrawalNotice], newer: Iterable[WithdrawalNotice]
) -> tuple[WithdrawalNotice, ...]:
    """All notices, one for each withdrawal and release; a newer one takes the place of a known one.

    In the order of versions, then of withdrawals: the order in which they came does not matter.
    """
    by_key = {(one.release, one.withdrawal): one for one in (*known, *newer)}
    return tuple(sorted(by_key.values(), key=_order))


def superseding(notices: Sequence[WithdrawalNotice]) -> Version | None:
    """The version to use instead of a release with these notices; None where there is none.

    There is none where any of them says that nothing was left: what others named went with it.
    """
    versions = [one.superseded_by for one in notices if one.superseded_by is not None]
    if len(versions) < len(notices):
        return None
    return max(versions, key=version_numbers, default=None)


def followed(notices: Iterable[WithdrawalNotice]) -> tuple[WithdrawalNotice, ...]:
    """The same notices; each names the version to use by what the others state of that version.

    Where they tell that it was withdrawn itself, that is what takes its place in turn, or none.
    """
    known = tuple(notices)
    details: dict[tuple[str, str], list[WithdrawalNotice]] = {}
    for one in known:
        details.setdefault((one.dataset, one.version), []).append(one)

    def sound(dataset: str, version: Version | None) -> Version | None:
        while version is not None and (own := details.get((dataset, version))):
            newer = superseding(own)
            if newer is not None and version_numbers(newer) <= version_numbers(version):
                return version  # what names no later version leads nowhere
            version = newer
        return version

    return tuple(
        one.model_copy(update={"superseded_by": sound(one.dataset, one.superseded_by)})
        for one in known
    )


def notice_text(notices: NoticeList) -> bytes:
    """The bytes of a file of notices: a row a line, so that people can read it and tools compare.

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
