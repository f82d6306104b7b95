"""Comparison of built releases: rows and texts by kind, without the words of withdrawn ones."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from loupe.db.releases import find_release
from loupe.flows.cli.main import app
from loupe.release.build import BuiltRelease, build_release
from loupe.release.diff import WITHHELD, Difference, DifferenceCounts, compare_releases
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.withdrawal import WithdrawalNotice
from tests.release import ccd_world, street_world
from tests.release.later import Later
from tests.release.notice_samples import withdrawn_rows
from tests.release.test_rebuild import patch_of
from tests.release.worlds import DATASET, SOURCES, Composer, World, picture, store_world

CUHK = SOURCES[0]


def built(composer: Composer, folder: Path, version: str) -> Path:
    """Build a release of the contents of `composer` from a separate store."""
    world = store_world(folder / f"world-{version}", composer.contents())
    try:
        out = folder / f"release-{version}"
        build_release(world.store, world.blobs, composer.dataset, version, out)
    finally:
        world.store.close()
    return out


def compared(before: Composer, after: Composer, folder: Path) -> Difference:
    """Compare in both directions; returns the difference from `before` to `after`."""
    old, new = built(before, folder, "1.0.0"), built(after, folder, "1.0.1")
    found, back = compare_releases(old, new), compare_releases(new, old)
    assert (back.counts.added, back.counts.removed) == (found.counts.removed, found.counts.added)
    assert back.counts.texts_removed == found.counts.texts_added
    assert back.counts.changed == found.counts.changed
    return found


def people(texts: tuple[str, ...] = ("A man in red.",), **image: Any) -> Composer:
    composer = Composer()
    values: dict[str, Any] = {"identity": "9", "file_path": "dir/9.jpg", "sampled": False} | image
    shown = composer.image(CUHK, **values)
    for place, text in enumerate(texts):
        composer.caption(shown, CUHK, text, place)
    return composer


def with_another(composer: Composer) -> Composer:
    shown = composer.image(CUHK, "1", file_path="dir/1.jpg", sampled=False)
    composer.caption(shown, CUHK, "Somebody else.", 0)
    return composer


@pytest.mark.parametrize(
    "composer", [street_world.street_world(), ccd_world.benchmark(groups=2).world]
)
def test_another_version_with_equal_contents_has_no_difference(
    composer: Composer, tmp_path: Path
) -> None:
    found = compared(composer, composer, tmp_path)
    assert found.is_empty
    assert found.counts == DifferenceCounts(same=found.counts.same)
    assert found.counts.same > 0


def test_an_image_with_its_captions_is_added_without_changing_the_others(tmp_path: Path) -> None:
    """The row numbers of the others change, which is no difference."""
    found = compared(people(), with_another(people()), tmp_path)
    (row,) = found.rows
    assert (row.kind, row.source_file_path, row.before) == ("added", "dir/1.jpg", None)
    assert (row.added, row.removed) == (("Somebody else.",), ())
    assert found.counts == DifferenceCounts(same=1, added=1, texts_added=1)


def test_captions_are_added_and_removed(tmp_path: Path) -> None:
    found = compared(people(("One.", "Two.")), people(("Two.", "Three.")), tmp_path)
    (row,) = found.rows
    assert (row.kind, "captions" in row.columns) == ("changed", True)
    assert "One." in row.removed
    assert "Three." in row.added


def test_changed_columns_are_named(tmp_path: Path) -> None:
    (row,) = compared(people(), people(split="train"), tmp_path).rows
    assert (row.kind, "split" in row.columns) == ("changed", True)


def test_another_image_under_a_path_is_one_and_equal_texts_are_none(tmp_path: Path) -> None:
    before, after = people(("One.", "Two.")), people(("Two.", "Three."), data=picture(77))
    found = compared(before, after, tmp_path)
    (row,) = found.rows
    assert (row.added, row.removed) == (("Three.",), ("One.",))
    assert found.counts == DifferenceCounts(
        changed=1, images_replaced=1, texts_added=1, texts_removed=1
    )
    shown = CliRunner().invoke(app, ["release", "diff", found.before.folder, found.after.folder])
    assert "rows: 1 changed, 1 of these with another image; 0 the same" in shown.output
    assert "another image, captions\n      - One.\n      + Three." in shown.output


def build(world: World, version: str, home: Path) -> BuiltRelease:
    return build_release(world.store, world.blobs, DATASET, version, home / version)


def patch(world: World, version: str, home: Path) -> BuiltRelease:
    first = find_release(world.store, f"{DATASET}@1.0.0")
    return patch_of(world, first, version, home / version)


def column(release: BuiltRelease, name: str) -> list[Any]:
    (shard,) = (release.folder / "data").glob("*.parquet")
    found: list[Any] = pq.read_table(shard)[name].to_pylist()
    return found


def test_withdrawn_rows_and_texts_are_counted_as_such_without_their_words(
    world: World, tmp_path: Path
) -> None:
    first = build(world, "1.0.0", tmp_path)
    texts, ids = column(first, "captions"), column(first, "caption_entity_ids")
    later = Later(world, DATASET)
    later.withdraw(column(first, "image_entity_id")[:1], details=[first.folder])
    later.withdraw([ids[1][-1]], "consent", details=[first.folder])
    patch(world, "1.0.1", tmp_path)
    found = compare_releases(tmp_path / "1.0.0", tmp_path / "1.0.1")
    assert [(one.kind, one.removed) for one in found.rows] == [
        ("withdrawn", (WITHHELD,) * len(texts[0])),
        ("changed", (WITHHELD,)),
    ]
    assert (found.counts.withdrawn, found.counts.removed, found.counts.same) == (1, 0, 10)
    assert (found.counts.texts_withdrawn, found.counts.texts_removed) == (len(texts[0]) + 1, 0)
    back = compare_releases(tmp_path / "1.0.1", tmp_path / "1.0.0").model_dump_json()
    assert not any(text in back for text in (*texts[0], texts[1][-1]))


def test_texts_withdrawn_by_given_notices_are_not_repeated(world: World, tmp_path: Path) -> None:
    first = build(world, "1.0.0", tmp_path)
    image = column(first, "image_entity_id")[0]
    Later(world, DATASET).verdict(image, "reject")
    build(world, "2.0.0", tmp_path)
    notice = WithdrawalNotice(
        withdrawal="w",
        ground="privacy",
        release=first.manifest.id,
        dataset=DATASET,
        version="1.0.0",
        rows=tuple(withdrawn_rows(first.folder, {image})),
        superseded_by=None,
    )
    folders = tmp_path / "1.0.0", tmp_path / "2.0.0"
    words = column(first, "captions")[0][0]
    assert words in compare_releases(*folders).model_dump_json()
    withheld = compare_releases(*folders, notices=[notice])
    assert words not in withheld.model_dump_json()
    assert withheld.counts.removed == 1


def test_damaged_releases_are_not_compared(sound: Path, copy: Path) -> None:
    with pytest.raises(UsageError, match="there is no release in"):
        compare_releases(sound, sound.parent)
    (shard,) = (copy / "data").glob("*.parquet")
    damaged = bytearray(whole := shard.read_bytes())
    damaged[500] ^= 1
    shard.write_bytes(damaged)
    with pytest.raises(IntegrityError, match=r"\.parquet is damaged or was changed: its SHA-256"):
        compare_releases(sound, copy)
    shard.write_bytes(whole)
    shard.write_bytes(shard.read_bytes()[:-9])
    with pytest.raises(IntegrityError, match="expected"):
        compare_releases(sound, copy)
