"""Which files of a release hold what was withdrawn, and must go where bytes must."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from release.attribution import ATTRIBUTION
from release.card import CARD
from release.citation import CITATION
from release.croissant import CROISSANT
from release.figure import FIGURE
from release.leaks import LEAKS
from release.manifest import MANIFEST, read_files
from release.notices_files import WITHDRAWALS
from release.parquet_rows import read_parquet_rows, shards_among
from schemas.errors import IntegrityError
from schemas.faults import fault_of
from schemas.release import ReleasedFile
from schemas.withdrawal import WithdrawalNotice

_IMAGES = "images/"
_TELL_OF_NO_ROW = frozenset({CARD, FIGURE, LEAKS, CITATION, CROISSANT, WITHDRAWALS})
"""Documents that show no image, and say no caption, of a single row."""
_NAMED = re.compile(r"`(images/[^`]+)`")


def files_to_erase(folder: Path, notices: Sequence[WithdrawalNotice]) -> set[str]:
    """The files that the manifest in `folder` lists and that hold a withdrawn image or text.

    Images go with their row. Parquet shards and the attribution are read; where one cannot be, it
    goes. What else is listed and may tell of rows goes too.

    Raises:
        IntegrityError: the manifest cannot be read.
    """
    rows = [row for notice in notices for row in notice.rows]
    if not rows:
        return set()
    images = {row.file_path for row in rows if row.is_whole}
    numbers = {row.file_path for row in rows}
    found, others = set(), []
    for file in _listed(folder):
        if file.path.startswith(_IMAGES):
            if file.path in images:
                found.add(file.path)
        elif file.path not in _TELL_OF_NO_ROW:
            others.append(file.path)
    shards = set(shards_among(others))
    for path in others:
        if path in shards:
            if _shard_holds(folder / path, numbers):
                found.add(path)
        elif path != ATTRIBUTION or _attribution_names(folder / path, images):
            found.add(path)
    return found


def _listed(folder: Path) -> Iterator[ReleasedFile]:
    try:
        yield from read_files(folder / MANIFEST)
    except (ValueError, OSError) as error:
        raise IntegrityError(f"{folder / MANIFEST} cannot be read ({fault_of(error)})") from error


def _shard_holds(path: Path, file_paths: set[str]) -> bool:
    """Whether a shard holds one of these images; one that cannot be read may hold any."""
    try:
        return any(
            row["file_path"] in file_paths for row in read_parquet_rows(path, columns=["file_path"])
        )
    except ValueError:
        return True


def _attribution_names(path: Path, file_paths: set[str]) -> bool:
    try:
        with path.open(encoding="utf-8") as lines:
            return any(name in file_paths for line in lines for name in _NAMED.findall(line))
    except (OSError, ValueError):
        return True
