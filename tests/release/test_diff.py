"""Comparison of built releases: each kind of difference is reported as such."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from loupe.release.build import build_release
from loupe.release.changes import (
    Bump,
    Difference,
    FieldChange,
    RowCounts,
    RowDifference,
    required_bump,
    value_changes,
)
from loupe.release.diff import compare_releases
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.records import Contrast, Granularity
from loupe.schemas.taxonomy import DifferenceType, Tier
from tests.release import ccd_world, recos_world, street_world
from tests.release.mirrored import mirrored
from tests.release.worlds import (
    GATE,
    PERSON,
    SOURCES,
    Composer,
    source,
    store_world,
)

CUHK = SOURCES[0]


def built(
    composer: Composer, folder: Path, version: str = "1.0.0", tier: Tier | None = None
) -> Path:
    """Build a release of the contents of `composer` from a separate store."""
    world = store_world(folder / f"world-{version}", composer.contents())
    try:
        out = folder / f"release-{version}"
        build_release(world.store, world.blobs, composer.dataset, version, out, tier=tier)
    finally:
        world.store.close()
    return out


def compare_builds(before: Composer, after: Composer, folder: Path, **options: Any) -> Difference:
    old, new = built(before, folder), built(after, folder, "1.0.1")
    found = compare_releases(old, new, **options)
    back = compare_releases(new, old, **options)
    assert (back.rows.added, back.rows.removed) == (found.rows.removed, found.rows.added)
    assert list(map(mirrored, back.metadata)) == list(found.metadata)
    assert sorted(map(repr, map(mirrored, back.examples))) == sorted(map(repr, found.examples))
    return found


def release_of_one_image(texts: tuple[str, ...] = ("A man in red.",), **image: Any) -> Composer:
    composer = Composer()
    values: dict[str, Any] = {"identity": "9", "file_path": "dir/9.jpg", "sampled": False} | image
    shown = composer.image(CUHK, **values)
    for place, text in enumerate(texts):
        composer.caption(shown, CUHK, text, place)
    return composer


def add_image(composer: Composer, identity: str, **image: Any) -> Composer:
    """Add one more image to `composer`."""
    values: dict[str, Any] = {"file_path": f"dir/{identity}.jpg", "sampled": False} | image
    shown = composer.image(CUHK, identity, **values)
    composer.caption(shown, CUHK, f"Somebody else, {identity}.", 0)
    return composer


def test_another_version_with_equal_contents_has_no_difference(tmp_path: Path) -> None:
    composer = street_world.street_world()
    found = compare_builds(composer, composer, tmp_path)
    assert (found.is_empty, found.rows.same > 0) == (True, True)
    assert required_bump(found) is Bump.NONE


def test_captions_are_added_removed_and_edited(tmp_path: Path) -> None:
    before = release_of_one_image(("A tall man in a red coat.", "He walks to the left.", "Stays."))
    after = release_of_one_image(
        ("A tall man in a blue coat.", "Seen from behind, alone.", "Stays.")
    )
    (row,) = compare_builds(before, after, tmp_path).examples
    assert row.kind == "changed"
    assert {_details(one) for one in row.texts} == {
        ("edited", "A tall man in a red coat.", "A tall man in a blue coat."),
        ("added", None, "Seen from behind, alone."),
        ("removed", "He walks to the left.", None),
    }
    ids = [
        one.values["entity_id"] for text in row.texts for one in (text.before, text.after) if one
    ]
    assert len(set(ids)) == 4


def _details(change: Any) -> tuple[str, str | None, str | None]:
    old, new = (one and one.values["text"] for one in (change.before, change.after))
    return change.kind, old, new


def test_a_changed_split_is_a_moved_row(tmp_path: Path) -> None:
    keep = add_image(release_of_one_image(), "3", split="train")
    found = compare_builds(
        keep, add_image(release_of_one_image(split="val"), "3", split="train"), tmp_path
    )
    assert found.rows == RowCounts(same=1, moved=1)
    assert found.splits == (("test", "val", 1),)
    assert required_bump(found) is Bump.MAJOR


def test_another_reviewer_restates_a_row(tmp_path: Path) -> None:
    def rewritten(by: Any) -> Composer:
        composer = release_of_one_image()
        caption = next(one.id for one in composer.entities.values() if one.kind == "caption")
        composer.rewrite(caption, "In red, a man.", by=by)
        return composer

    found = compare_builds(rewritten(GATE), rewritten(PERSON), tmp_path)
    assert found.rows == RowCounts(restated=1)
    assert found.texts == (("captions", "restated", 1),)
    assert required_bump(found) is Bump.PATCH


def test_licence_terms_of_one_image_do_not_change_other_rows(tmp_path: Path) -> None:
    """The first image with a licence adds columns, but other rows count as unchanged."""
    after = release_of_one_image()
    add_image(after, "3", attribution=ccd_world.FOUND)
    found = compare_builds(release_of_one_image(), after, tmp_path)
    assert found.rows == RowCounts(same=1, added=1)
    assert "columns" in [one.field for one in found.metadata]


def test_changed_terms_of_a_source_are_reported_by_its_name(tmp_path: Path) -> None:
    def of(citation: str) -> Composer:
        composer = Composer()
        origin = source("CUHK-PEDES", Granularity.COARSE, citation=citation)
        shown = composer.image(origin, "9", "9.jpg", sampled=False)
        composer.caption(shown, origin, "A man in red.", 0)
        return composer

    found = compare_builds(of("Li, 2017"), of("Li et al., 2017"), tmp_path)
    assert found.rows == RowCounts(restated=1)
    details = {one.field: (one.before, one.after) for one in found.metadata}
    assert details["sources.CUHK-PEDES.citation"] == ("Li, 2017", "Li et al., 2017")


def test_a_changed_plan_of_a_contrast_is_a_changed_row(tmp_path: Path) -> None:
    def planned(plan: str) -> Composer:
        made = ccd_world.benchmark(groups=1, size=0)
        anchor = made.groups[0].anchor
        contrast = Contrast(
            anchor_id=anchor,
            difference=DifferenceType.ENTITY_TYPE,
            detail="a red bus",
            plan=plan,
            method="search",
        )
        image = ccd_world.contrast(made.world, anchor, 0, 0, contrast=contrast)
        ccd_world.refine(made.world, image, ccd_world.OPENVERSE, "a bus")
        return made.world

    found = compare_builds(planned("a blue bus"), planned("a green bus"), tmp_path)
    (row,) = [one for one in found.examples if one.kind == "changed"]
    plan = FieldChange(field="contrast.plan", before="a blue bus", after="a green bus")
    assert plan in row.fields


def test_releases_of_different_tiers_are_compared(tmp_path: Path) -> None:
    world = recos_world.benchmark().world
    low = built(world, tmp_path / "low", "0.1.0", "v0")
    high = built(world, tmp_path / "high", "1.1.0", "v1")
    found = compare_releases(low, high)
    assert (found.before.tier, found.after.tier) == ("v0", "v1")
    assert (found.rows.added, found.rows.removed) == (8, 0)
    assert FieldChange(field="tier", before="v0", after="v1") in found.metadata


def test_examples_are_limited_but_on_row_receives_every_row(tmp_path: Path) -> None:
    after = release_of_one_image()
    for number in range(20, 30):
        add_image(after, str(number))
    details: list[RowDifference] = []
    found = compare_builds(
        release_of_one_image(), after, tmp_path, examples=3, on_row=details.append
    )
    assert found.rows == RowCounts(same=1, added=10)
    assert required_bump(found) is Bump.MINOR
    assert [one.source_file_path for one in found.examples] == [
        "dir/20.jpg",
        "dir/21.jpg",
        "dir/22.jpg",
    ]
    assert len(details) == 20  # ten in each direction


def test_damaged_releases_are_not_compared(tmp_path: Path) -> None:
    whole = built(release_of_one_image(), tmp_path)
    for name in ("manifest.json", "data/test-00000-of-00001.parquet"):
        torn = Path(shutil.copytree(whole, tmp_path / "torn" / name))
        (torn / name).write_bytes((torn / name).read_bytes()[:-9])
        with pytest.raises(IntegrityError, match=name.rpartition("/")[2]):
            compare_releases(whole, torn)
    with pytest.raises(UsageError, match="there is no release"):
        compare_releases(whole, tmp_path)


def test_value_changes_are_reported_by_their_smallest_named_part() -> None:
    cases: list[tuple[Any, Any, list[tuple[str, Any, Any]]]] = [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, [("a.b", 1, 2)]),
        ([{"name": "x", "n": 1}], [{"name": "x", "n": 2}], [("x.n", 1, 2)]),
        ([["x", 1], ["y", 2]], [["y", 2], ["x", 3]], [("x", 1, 3)]),
        ([{"name": "x"}], [], [("x", {"name": "x"}, None)]),
        ([{"name": "x"}] * 2, [{"name": "x"}], [("", [{"name": "x"}] * 2, [{"name": "x"}])]),
        ([], [{"name": "x"}], [("x", None, {"name": "x"})]),
        ({"a": None}, {}, []),
    ]
    for before, after, changes in cases:
        found = [(one.field, one.before, one.after) for one in value_changes("", before, after)]
        assert found == changes, (before, after, changes)
