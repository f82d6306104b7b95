"""What holders of a release are told of its withdrawn rows, in a sentence or row by row."""

from collections.abc import Iterable, Sequence

from release.notices_files import superseding
from schemas.withdrawal import Ground, WithdrawalNotice, WithdrawnRow

_SHOWN = 5
_GROUNDS: dict[Ground, str] = {
    "privacy": "privacy",
    "copyright": "copyright",
    "law": "a legal order",
    "consent": "consent taken back",
    "quality": "quality",
    "other": "other grounds",
}


def told_rows(notices: Iterable[WithdrawalNotice]) -> tuple[WithdrawnRow, ...]:
    """All rows that are named, each once, by number: whole, or with all withdrawn texts."""
    rows: dict[int, WithdrawnRow] = {}
    for row in (row for notice in notices for row in notice.rows):
        known = rows.get(row.number)
        if known is None or (known.texts and row.is_whole):
            rows[row.number] = row
        elif known.texts:
            texts = tuple(dict.fromkeys((*known.texts, *row.texts)))
            rows[row.number] = known.model_copy(update={"texts": texts})
    return tuple(rows[number] for number in sorted(rows))


def withdrawn_sentence(notices: Sequence[WithdrawalNotice], images: int) -> str:
    """What became of the release of the notices; `images` is how many rows it has."""
    rows = told_rows(notices)
    whole = sum(row.is_whole for row in rows)
    in_part = len(rows) - whole
    of = f"of its {images:,} rows"
    if whole:
        of = "other row" if in_part == 1 else "other rows"
    is_all = bool(whole) and whole == images
    told = f"all of its {images:,} rows" if is_all else f"{whole:,} of its {images:,} rows"
    parts = [told] if whole else []
    parts += [f"texts of {in_part:,} {of}"] if in_part else []
    shown = ", ".join(row.file_path for row in rows[:_SHOWN])
    more = f" and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
    grounds = ", ".join(dict.fromkeys(_GROUNDS[notice.ground] for notice in notices))
    newer = superseding(notices)
    instead = f"use {newer} instead" if newer else "no version takes its place"
    what = " and ".join(parts) or "rows that nobody can name any more"
    named = f" ({shown}{more})" if rows else ""
    return (
        f"{notices[0].dataset} {notices[0].version} is withdrawn{'' if is_all else ' in part'} "
        f"({grounds}); not to be used any more: {what}{named}; {instead}"
    )
