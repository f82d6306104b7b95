"""What was withdrawn from earlier releases, version by version: how much, and of which."""

from collections.abc import Iterable
from itertools import groupby

from release.notices_words import told_rows
from schemas.release import WithdrawnBefore
from schemas.withdrawal import WithdrawalNotice


def withdrawn_before(notices: Iterable[WithdrawalNotice]) -> tuple[WithdrawnBefore, ...]:
    """By version, the oldest first; a row that several withdrawals name counts once."""
    told = []
    for (_, release_id), of_one in groupby(sorted(notices, key=_release), key=_release):
        notes = list(of_one)
        rows = told_rows(notes)
        whole = sum(row.is_whole for row in rows)
        told.append(
            WithdrawnBefore(
                version=notes[0].version,
                id=release_id,
                rows=whole,
                rows_in_part=len(rows) - whole,
            )
        )
    return tuple(told)


def _release(notice: WithdrawalNotice) -> tuple[tuple[int, ...], str]:
    return tuple(map(int, notice.version.split("."))), notice.release
