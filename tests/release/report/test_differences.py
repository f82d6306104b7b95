import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from loupe.release.build import build_release
from loupe.release.changes import PlacedText, RowDifference, RowPlace, TextChange
from loupe.release.manifest import read_manifest
from loupe.release.report.differences import shown_difference, word_spans
from loupe.release.report.page import write_page
from loupe.release.report.writing import write_report
from loupe.schemas.errors import UsageError
from tests.release.notice_samples import notice_of
from tests.release.worlds import SOURCES, Composer, small_world, store_world


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two versions; the second lacks an accepted rewrite and has a new image."""
    home = tmp_path_factory.mktemp("versions")
    world = small_world()
    first = _built(home, "1.0.0", world)
    accepted = next(one for one in world.decisions if one.verdict == "accept")
    world.decisions.remove(accepted)
    image = world.image(SOURCES[0], "77", "dir/new.jpg", sampled=False)
    world.caption(image, SOURCES[0], "A new person in a green coat.")
    return first, _built(home, "2.0.0", world)


def _built(home: Path, version: str, world: Composer) -> Path:
    stored = store_world(home / f"world-{version}", world.contents())
    try:
        out = home / version
        return build_release(stored.store, stored.blobs, "ufine3c", version, out).folder
    finally:
        stored.store.close()


def show(versions: tuple[Path, Path], report: Path) -> dict[str, Any]:
    report.mkdir()
    return shown_difference(*versions, report)


def test_counts_and_pictures_match_the_difference(
    versions: tuple[Path, Path], tmp_path: Path
) -> None:
    found = show(versions, tmp_path / "report")
    assert found["counts"] == [("added", 1), ("changed", 1), ("same", 11)]
    assert sorted(one.kind for one in found["found"].examples) == ["added", "changed"]
    assert list(found["pictures"].values()) == ["previous/1.jpg"]
    assert (tmp_path / "report" / "previous" / "1.jpg").is_file()


def test_rows_withdrawn_since_are_shown_neither_in_the_difference_nor_in_an_old_report(
    versions: tuple[Path, Path], tmp_path: Path
) -> None:
    """The withdrawal is known from given notices only; both folders are unmarked copies."""
    first, second = versions
    out, notices = tmp_path / "report", [notice_of(first, 1)]
    write_report(second, out, previous=first)
    assert (out / "previous/1.jpg").is_file()
    with pytest.raises(UsageError, match="before a withdrawal"):
        write_report(second, out, previous=first, notices=notices)
    shutil.rmtree(out)
    assert write_report(second, out, previous=first, notices=notices).is_new
    assert not (out / "previous").exists()
    assert not write_report(second, out, previous=first, notices=notices).is_new


def test_a_pipe_instead_of_an_earlier_image_is_left_out(
    versions: tuple[Path, Path], tmp_path: Path
) -> None:
    first = Path(shutil.copytree(versions[0], tmp_path / "first"))
    (first / "images/1.jpg").unlink()
    os.mkfifo(first / "images/1.jpg")
    assert show((first, versions[1]), tmp_path / "report")["pictures"] == {}


def test_a_release_has_no_difference_from_itself(
    versions: tuple[Path, Path], tmp_path: Path
) -> None:
    found = show((versions[0], versions[0]), tmp_path / "report")
    assert found["found"].is_empty
    assert found["pictures"] == {}


def test_the_page_shows_the_difference(versions: tuple[Path, Path], tmp_path: Path) -> None:
    report = write_report(versions[1], tmp_path / "report", previous=versions[0])
    page = (report.folder / "index.html").read_text(encoding="utf-8")
    assert "Differences from ufine3c 1.0.0" in page
    assert "<ins><bdi>A new person in a green coat.</bdi></ins>" in page
    assert "CUHK-PEDES: dir/new.jpg" in page
    assert re.search(r'caption <span class="soft">removed</span></dt><dd dir="auto">\s*<del>', page)
    assert 'src="previous/1.jpg"' in page
    assert str(versions[0]) not in page
    alone = write_report(versions[1], tmp_path / "alone").folder / "index.html"
    assert "What differs" not in alone.read_text(encoding="utf-8")


def test_withdrawn_texts_are_counted_but_not_shown(
    versions: tuple[Path, Path], tmp_path: Path
) -> None:
    place = RowPlace(id=1, file_path="images/1.jpg", split="test", entity_id="e")
    text = PlacedText(place=0, values={"text": "a private word"})
    gone = TextChange(kind="withdrawn", field="captions", before=text, after=None)
    rows = [
        RowDifference(
            kind=kind,
            source="s",
            source_file_path=f"{kind}.jpg",
            before=place,
            after=place if kind == "changed" else None,
            texts=(gone,) if kind == "changed" else (),
            row={"fields": {}, "texts": {"captions": [text.values]}} if kind != "changed" else None,
        )
        for kind in ("withdrawn", "changed")
    ]
    shown = show(versions, tmp_path / "report")
    found = shown["found"].model_copy(update={"examples": tuple(rows)})
    write_page(tmp_path, read_manifest(versions[1]), {**shown, "found": found})
    page = (tmp_path / "index.html").read_text("utf-8")
    assert "s: changed.jpg" in page
    assert "s: withdrawn.jpg" not in page
    assert 'caption <span class="soft">withdrawn</span></dt>' in page
    assert "a private word" not in page


def test_word_spans_are_kept_gone_or_new_in_reading_order() -> None:
    spans = word_spans("A tall man in a blue coat.", "A man in a red coat, walking.")
    assert list(spans) == [
        ("kept", "A"),
        ("gone", "tall"),
        ("kept", "man in a"),
        ("gone", "blue coat."),
        ("new", "red coat, walking."),
    ]
    long = list(word_spans("a " * 20_000, "b"))
    assert [kind for kind, _ in long] == ["gone", "new"]
    assert len(long[0][1]) < 700
