"""What a release tells of earlier ones of its dataset: the withdrawals up to its mark."""

from collections.abc import Sequence
from pathlib import Path

from release.files import write_file
from release.notices_files import WITHDRAWALS, merged, notice_text
from schemas.release import ReleasedFile
from schemas.withdrawal import NoticeList, WithdrawalNotice


def write_withdrawals(folder: Path, notices: Sequence[WithdrawalNotice]) -> list[ReleasedFile]:
    """Writes `withdrawals.json` into the folder of a release; nothing where there are no notices.

    Returns:
        The file, to be listed.
    """
    if not notices:
        return []
    text = notice_text(NoticeList(notices=merged((), notices)))
    return [write_file(folder, WITHDRAWALS, text)]
