import json
import re
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from loupe.release.report.writing import write_report
from loupe.release.withdrawn.files import notice_text
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.withdrawal import NoticeList, WithdrawalNotice, WithdrawnRow
from loupe.schemas.wording import shortened
from tests.release.export.kinds import KINDS, content_of, released, truth

Reports = dict[str, tuple[Path, Path]]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """A release of each kind and the report next to it."""
    folders = {kind: released(kind, tmp_path_factory.mktemp(kind)).folder for kind in sorted(KINDS)}
    return {
        kind: (folder, write_report(folder, folder.parent / "report").folder)
        for kind, folder in folders.items()
    }


def test_the_gallery_shows_rows_spread_over_the_release(
    reports: Reports, subtests: pytest.Subtests
) -> None:
    for kind, (release, report) in reports.items():
        with subtests.test(kind=kind):
            rows = truth(release)
            page = (report / "index.html").read_text(encoding="utf-8")
            shown = [
                int(number)
                for number in re.findall(
                    r'<li><div class="photo"><img src="thumbs/(\d+)\.jpg"', page
                )
            ]
            step = -(-len(rows) // 48)
            assert shown == [*range(1, len(rows) + 1, step)]
            assert all((report / "thumbs" / f"{number}.jpg").is_file() for number in shown)
            splits = re.findall(r"row [\d,]+ · (\w+) · <bdi>", page)
            assert splits == [rows[number - 1]["split"] for number in shown]
            identities = re.findall(r"identity <bdi>(.*?)</bdi>", page)
            if kind in ("contrasts", "tasks"):
                assert identities == [], "an image is its own"
            else:
                assert identities == [str(escape(rows[one - 1]["identity"])) for one in shown]
            assert {path.name for path in report.iterdir()} == {
                *("index.html", "report.css", "report.json", "thumbs")
            }


def test_the_same_release_gives_the_same_bytes(reports: Reports, tmp_path: Path) -> None:
    release, report = reports["contrasts"]
    copy = shutil.copytree(release, tmp_path / release.name)
    again = write_report(copy, tmp_path / "report")
    assert again.is_new
    assert content_of(again.folder) == content_of(report)
    assert not write_report(copy, tmp_path / "report").is_new
    assert sorted(path.name for path in tmp_path.iterdir()) == [release.name, "report"]


def test_invalid_input_is_refused_and_leaves_no_files(tmp_path: Path) -> None:
    release = released("plain", tmp_path / "home").folder
    with pytest.raises(UsageError, match="is inside the release"):
        write_report(release, release / "report")
    with pytest.raises(UsageError, match="there is no release in"):
        write_report(release, tmp_path / "report", previous=tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(UsageError, match="is not a report"):
        write_report(release, tmp_path / "taken")
    image = release / "images" / "3.jpg"
    image.write_bytes(image.read_bytes() + b"!")
    with pytest.raises(IntegrityError, match=r"images/3\.jpg has"):
        write_report(release, tmp_path / "report")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "taken"]
    assert write_report(release, tmp_path / "report", verify=False).is_new


def test_an_image_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    release = released("plain", tmp_path / "home").folder
    (release / "images" / "1.jpg").write_bytes(b"no picture")
    written = write_report(release, tmp_path / "report", verify=False)
    assert written.unreadable == ("images/1.jpg",)
    assert not (tmp_path / "report" / "thumbs" / "1.jpg").exists()


def test_rows_are_streamed(tmp_path: Path) -> None:
    """The images of the release are much larger than the memory that writing needs."""
    from loupe.release.build import build_release
    from tests.release.worlds import SOURCES, Composer, picture, store_world

    world = Composer()
    for number in range(100):
        data = picture(number % 5, (40, 80)) + bytes(180_000) + number.to_bytes(4, "big")
        image = world.image(SOURCES[0], str(number), f"{number}.jpg", sampled=False, data=data)
        world.caption(image, SOURCES[0], f"A person {number}.")
    stored = store_world(tmp_path / "world", world.contents())
    built = build_release(stored.store, stored.blobs, "ufine3c", "1.0.0", tmp_path / "release")
    stored.store.close()
    write_report(built.folder, tmp_path / "warm-up")
    tracemalloc.start()
    write_report(built.folder, tmp_path / "report")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = sum(shard.stat().st_size for shard in (built.folder / "data").iterdir())
    assert size > 16e6
    assert peak < 12e6


def test_the_record_identifies_the_release(reports: Reports, subtests: pytest.Subtests) -> None:
    for kind, (release, report) in reports.items():
        with subtests.test(kind=kind):
            details = json.loads((report / "report.json").read_text())
            manifest = json.loads((release / "manifest.json").read_text())
            assert (details["release"], details["dataset"]) == (manifest["id"], manifest["dataset"])


def marked(kind: str, home: Path) -> tuple[Path, list[dict[str, Any]]]:
    """A release with withdrawn row 1 and withdrawn first caption of row 2, and its rows."""
    built = released(kind, home)
    rows = truth(built.folder)
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
    thumbnails = sorted(int(path.stem) for path in (written.folder / "thumbs").iterdir())
    assert thumbnails == [*range(3, len(rows) + 1)]
    page = (written.folder / "index.html").read_text(encoding="utf-8")
    tiles = set(re.findall(r'<p class="snippet" dir="auto">(.*?)</p>', page))
    assert tiles == {str(escape(shortened(row["captions"][0], 140))) for row in rows[2:]}
    assert "Withdrawn items are not shown here." in page
