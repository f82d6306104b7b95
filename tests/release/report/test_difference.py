"""The report shows the difference from the previous release."""

from pathlib import Path

import pytest

from loupe.release.build import build_release
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
    world.caption(image, SOURCES[0], "A new person in a <green> coat.")
    return first, _built(home, "2.0.0", world)


def _built(home: Path, version: str, world: Composer) -> Path:
    stored = store_world(home / f"world-{version}", world.contents())
    try:
        out = home / version
        return build_release(stored.store, stored.blobs, "ufine3c", version, out).folder
    finally:
        stored.store.close()


def test_the_page_shows_added_and_changed_rows(versions: tuple[Path, Path], tmp_path: Path) -> None:
    report = write_report(versions[1], tmp_path / "report", previous=versions[0])
    page = (report.folder / "index.html").read_text(encoding="utf-8")
    assert "Differences from ufine3c 1.0.0" in page
    assert "<ins><bdi>A new person in a &lt;green&gt; coat.</bdi></ins>" in page
    assert "CUHK-PEDES: dir/new.jpg" in page
    assert "<del><bdi>" in page
    assert str(versions[0]) not in page
    alone = write_report(versions[1], tmp_path / "alone").folder / "index.html"
    assert "Differences from" not in alone.read_text(encoding="utf-8")


def test_after_a_withdrawal_differences_are_counted_but_not_shown(
    versions: tuple[Path, Path], tmp_path: Path
) -> None:
    """The withdrawal is known from given notices only; both folders are unmarked copies."""
    first, second = versions
    out, notices = tmp_path / "report", [notice_of(first, 1)]
    write_report(second, out, previous=first)
    with pytest.raises(UsageError, match="before a withdrawal"):
        write_report(second, out, previous=first, notices=notices)
    report = write_report(second, tmp_path / "new", previous=first, notices=notices)
    page = (report.folder / "index.html").read_text(encoding="utf-8")
    assert "Differences from ufine3c 1.0.0" in page
    assert "<del>" not in page
    assert "dir/new.jpg" not in page
