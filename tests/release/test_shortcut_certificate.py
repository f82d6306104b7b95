"""Blind opponents of a release that is built: what they find, and what is refused or accepted."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from loupe.release.build import BuiltRelease, build_release
from loupe.release.contamination import Checks
from loupe.release.format.files import CARD
from loupe.release.rebuild import rebuild_inputs, rebuild_release
from loupe.release.report.writing import write_report
from loupe.release.shortcuts import certify, certify_build
from loupe.release.verify import verify_release
from loupe.schemas.encoding import ReleasedImages
from loupe.schemas.errors import UsageError
from loupe.schemas.shortcuts import ShortcutCertificate
from tests.release.ccd_world import CCD, benchmark
from tests.release.worlds import World, small_world, store_world

WORDING = "original captions by wording"  # captions of anchors in this world say "the anchor"
GROUPS = 24


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return store_world(tmp_path_factory.mktemp("world"), benchmark(GROUPS).world.contents())


def _built(
    world: World,
    out: Path,
    *accepted: str,
    images: ReleasedImages | None = None,
    refuse: bool = True,
    on_first: Callable[[], object] = lambda: None,
) -> BuiltRelease:
    certified = partial(certify_build, accepted=accepted, refuse=refuse, on_first=on_first)
    checks = Checks(images=images, certify=certified)
    version = f"1.{len(accepted)}.0"
    return build_release(world.store, world.blobs, CCD, version, out, checks=checks)


def _certificate(built: BuiltRelease) -> ShortcutCertificate:
    found = built.manifest.shortcuts
    assert found is not None
    return found


def test_a_release_that_gives_its_answers_away_is_refused(world: World, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        _built(world, tmp_path / "out")
    said = str(refused.value)
    assert "nothing is released" in said
    assert "found in their group in 100.0 % by length of text alone (mostly by digits" in said
    assert 'accepted_shortcuts = ["original captions by length of text", ' in said
    assert f'"{WORDING}"' in said
    assert not (tmp_path / "out").exists()


def test_a_misspelled_acceptance_names_the_nearest(world: World, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"did you mean original captions by wording\?"):
        _built(world, tmp_path / "out", "original caption by wording")


def test_accepted_shortcuts_stand_on_the_card_and_files_give_nothing_away(
    world: World, tmp_path: Path
) -> None:
    said: list[str] = []
    accepted = "original captions", "matching pair"
    built = _built(world, tmp_path / "out", *accepted, on_first=lambda: said.append("asked"))
    assert said == ["asked"]
    found = _certificate(built)
    by_name = {one.name: one for one in found.results}
    assert by_name[WORDING].right == 100
    assert found.unaccepted == ()
    of_images = [one for one in found.results if one.question == "original image"]
    assert len(of_images) == 6
    assert not [one.name for one in of_images if one.is_shortcut()]
    card = (built.folder / CARD).read_text("utf-8")
    assert "## What can be scored without looking" in card
    assert "**shortcut**, accepted" in card
    assert "with these shortcuts: original captions, matching pair" in card
    assert verify_release(built.folder).problems == []
    report = write_report(built.folder, tmp_path / "report").folder / "index.html"
    page = " ".join(report.read_text("utf-8").split())
    assert f"length of text: 100.0 % (100.0–100.0 %), by chance {by_name[WORDING].chance} %" in page
    assert "the curators released the benchmark with them." in page
    again = certify(built.folder)
    assert again.results == found.results
    assert again.unaccepted == ()


def test_names_after_the_anchor_are_found_in_stored_images(world: World, tmp_path: Path) -> None:
    built = _built(world, tmp_path / "out", images="stored", refuse=False)
    names = {one.name for one in _certificate(built).shortcuts}
    assert {"original image by file name", "original image by position"} <= names


def test_a_rebuild_states_what_was_measured_then(world: World, tmp_path: Path) -> None:
    built = _built(world, tmp_path / "out", "original captions", "matching pair")
    from loupe.db.releases import find_release

    stored = find_release(world.store, built.manifest.id)
    assert rebuild_inputs(stored).checks.certify(tmp_path) == built.manifest.shortcuts
    assert rebuild_release(world.store, world.blobs, stored, tmp_path / "again").manifest == (
        built.manifest
    )


def test_too_few_groups_are_no_alarm_and_stand_on_the_card(tmp_path: Path) -> None:
    few = store_world(tmp_path / "world", benchmark(6).world.contents())
    built = _built(few, tmp_path / "out")
    certificate = _certificate(built)
    assert certificate.too_few == certify(built.folder).too_few
    assert [(one.question, one.groups) for one in certificate.too_few] == [
        ("original image", 6),
        ("original captions", 6),
        ("matching pair", 6),
    ]
    assert certificate.results == ()
    card = (built.folder / CARD).read_text("utf-8")
    assert "there are too few examples to tell which image of a group is" in card
    assert "(6, and at least 20 are needed)" in card
    report = write_report(built.folder, tmp_path / "report").folder / "index.html"
    assert (
        "Whether this release can be scored without looking could not be measured"
        in report.read_text("utf-8")
    )
    assert verify_release(built.folder).problems == []
    few.store.close()


def test_few_identities_of_each_source_are_too_few(tmp_path: Path) -> None:
    few = store_world(tmp_path / "world", small_world().contents())
    checks = Checks(certify=partial(certify_build, accepted=()))
    built = build_release(few.store, few.blobs, "ufine3c", "1.0.0", tmp_path / "out", checks=checks)
    (few_people,) = _certificate(built).too_few
    assert few_people.question == "source of a caption"
    assert 0 < few_people.groups < 20
    few.store.close()
