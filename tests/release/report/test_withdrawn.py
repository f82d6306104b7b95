from pathlib import Path
from typing import Any

import pytest

from release.notices_files import notice_text
from release.report.writing import write_report
from schemas.withdrawal import NoticeList, WithdrawalNotice, WithdrawnRow
from tests.release.export.kinds import content_of, released
from tests.release.report.reading import rows_of, script


def marked(kind: str, home: Path) -> tuple[Path, list[dict[str, Any]]]:
    """A release with withdrawn row 1 and withdrawn first caption of row 2, and its rows."""
    built = released(kind, home)
    rows = rows_of(built.folder)
    named = [
        WithdrawnRow(
            number=number,
            file_path=rows[number - 1]["file_path"],
            entity_id=rows[number - 1]["image_entity_id"],
            texts=texts,
        )
        for number, texts in ((1, ()), (2, (rows[1]["caption_entity_ids"][0],)))
    ]
    notice = WithdrawalNotice(
        withdrawal="key",
        ground="quality",
        release=built.manifest.id,
        dataset=built.manifest.dataset,
        version=built.manifest.version,
        rows=tuple(named),
        superseded_by=None,
    )
    (built.folder / "WITHDRAWN.json").write_bytes(notice_text(NoticeList(notices=(notice,))))
    return built.folder, rows


def test_withdrawn_items_are_nowhere_in_the_report(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for kind in ("plain", "street", "contrasts"):
        with subtests.test(kind=kind):
            assert_nowhere(*marked(kind, tmp_path / kind))


def assert_nowhere(folder: Path, rows: list[dict[str, Any]]) -> None:
    written = write_report(folder, folder.parent / "report")
    assert (written.record.withdrawn, written.unreadable) == (2, ())
    assert not (written.folder / "thumbs/0/1.jpg").exists()
    assert (written.folder / "thumbs/0/2.jpg").is_file()
    first, second = script(written.folder, "rows/0")[:2]
    assert (first["captions"], first["withdrawn"]) == ([], 1)
    assert [one[0] for one in second["captions"]] == rows[1]["captions"][1:]
    assert script(written.folder, "tiles/0")[0] == ["withdrawn", 1]
    assert script(written.folder, "lineage/0")["rows"][0] == []
    everything = b"".join(content_of(written.folder).values()).decode("utf-8", "replace")
    elsewhere = {text for row in rows[2:] for text in row["captions"]} | set(
        rows[1]["captions"][1:]
    )
    for text in {*rows[0]["captions"], rows[1]["captions"][0]} - elsewhere:
        assert f'"{text}"' not in everything
    assert "Withdrawn items are not shown here." in everything
