"""Withdrawn rows are distinguished from removed rows and need only a patch version."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from loupe.db.releases import find_release
from loupe.release.build import BuiltRelease, build_release
from loupe.release.changes import (
    Bump,
    Difference,
    PlacedText,
    RowDifference,
    RowPlace,
    TextChange,
    check_version,
    required_bump,
)
from loupe.release.diff import WITHHELD, Withdrawn, compare_releases
from loupe.schemas.withdrawal import WithdrawalNotice
from tests.release.later import Later
from tests.release.notice_samples import withdrawn_rows
from tests.release.test_rebuild import patch_of
from tests.release.worlds import DATASET, World


def build(world: World, version: str, home: Path) -> BuiltRelease:
    return build_release(world.store, world.blobs, DATASET, version, home / version)


def patch(world: World, version: str, home: Path, of: str = "1.0.0") -> BuiltRelease:
    return patch_of(world, find_release(world.store, f"{DATASET}@{of}"), version, home / version)


def difference(home: Path, before: str, after: str) -> Difference:
    return compare_releases(home / before, home / after)


def column(built: BuiltRelease, name: str) -> list[Any]:
    (shard,) = (built.folder / "data").glob("*.parquet")
    found: list[Any] = pq.read_table(shard)[name].to_pylist()
    return found


def captions(built: BuiltRelease, row: int) -> list[str]:
    found: list[str] = column(built, "caption_entity_ids")[row]
    return found


def texts(built: BuiltRelease, row: int) -> list[str]:
    found: list[str] = column(built, "captions")[row]
    return found


def test_a_withdrawn_image_does_not_count_as_removed(world: World, tmp_path: Path) -> None:
    first = build(world, "1.0.0", tmp_path)
    later = Later(world, DATASET)
    later.withdraw(later.ids("image")[:1], details=[first.folder])
    patch(world, "1.0.1", tmp_path)
    found = difference(tmp_path, "1.0.0", "1.0.1")
    assert (found.rows.withdrawn, found.rows.removed, found.rows.same) == (1, 0, 11)
    (row,) = found.examples
    assert (row.kind, row.after, row.row is not None) == ("withdrawn", None, True)
    assert required_bump(found) is Bump.PATCH
    assert check_version(found, "1.0.1") is None
    assert check_version(found, "1.0.0") == (
        "is 1.0.0, must be at least 1.0.1: 1 row was withdrawn"
    )
    back = difference(tmp_path, "1.0.1", "1.0.0")
    assert (back.rows.added, back.rows.withdrawn) == (1, 0)


def test_withdrawn_texts_of_a_kept_image(world: World, tmp_path: Path) -> None:
    first = build(world, "1.0.0", tmp_path)
    text = captions(first, 0)[-1]
    Later(world, DATASET).withdraw([text], "consent", details=[first.folder])
    patch(world, "1.0.1", tmp_path)
    found = difference(tmp_path, "1.0.0", "1.0.1")
    assert (found.rows.withdrawn, found.rows.changed, found.rows.same) == (1, 0, 11)
    assert found.texts == (("captions", "withdrawn", 1),)
    assert found.examples[0].after is not None
    assert required_bump(found) is Bump.PATCH


def reported(found: Difference) -> str:
    """Everything reported about rows and texts."""
    return "".join(one.model_dump_json() for one in found.examples)


def test_withdrawn_texts_are_counted_but_not_repeated(world: World, tmp_path: Path) -> None:
    """Texts of withdrawn rows and captions are withheld in both directions."""
    first = build(world, "1.0.0", tmp_path)
    words = texts(first, 0), texts(first, 1)
    later = Later(world, DATASET)
    image = column(first, "image_entity_id")[0]
    gone = captions(first, 1)[-1]
    later.withdraw([image], details=[first.folder])
    later.withdraw([gone], "consent", details=[first.folder])
    patch(world, "1.0.1", tmp_path)
    for sides in (("1.0.0", "1.0.1"), ("1.0.1", "1.0.0")):
        found = difference(tmp_path, *sides)
        details = reported(found)
        assert image in details
        assert gone in details
        assert WITHHELD in details
        for text in (*words[0], words[1][-1]):
            assert text not in details


def test_translations_do_not_repeat_the_withdrawn_caption() -> None:
    """Neither a withdrawn translation nor one that stays and is of another caption now."""
    caption = {"text": "a man", "entity_id": "c"}
    gone = {"text": "ein Mann", "of": "a man", "entity_id": "t"}
    kept = {"text": "ein Hund", "of": "a man", "entity_id": "k"}
    place = RowPlace(id=1, file_path="images/1.jpg", split="test", entity_id="i")

    def change(
        field: str, before: dict[str, Any] | None, after: dict[str, Any] | None
    ) -> TextChange:
        sides = (one and PlacedText(place=0, values=one) for one in (before, after))
        return TextChange(kind="removed", field=field, before=next(sides), after=next(sides))

    found = Withdrawn(texts=frozenset("ct")).withheld(
        RowDifference(
            kind="changed",
            source="x",
            source_file_path="1.jpg",
            before=place,
            after=place,
            texts=(
                change("captions", caption, None),
                change("translations", gone, None),
                change("translations", kept, {**kept, "of": "a dog"}),
            ),
        )
    )
    details = found.model_dump_json()
    assert "a man" not in details
    assert "ein Mann" not in details
    assert "ein Hund" in details
    assert "a dog" in details


def test_texts_withdrawn_by_given_notices_are_not_repeated(world: World, tmp_path: Path) -> None:
    """The withdrawal is known only from the notices passed to the comparison."""
    first = build(world, "1.0.0", tmp_path)
    later = Later(world, DATASET)
    image = column(first, "image_entity_id")[0]
    later.verdict(image, "reject")
    build(world, "2.0.0", tmp_path)
    (row,) = withdrawn_rows(first.folder, {image})
    notice = WithdrawalNotice(
        withdrawal="w",
        ground="privacy",
        release=first.manifest.id,
        dataset=DATASET,
        version="1.0.0",
        rows=(row,),
        superseded_by=None,
    )
    words = texts(first, 0)[0]
    details = compare_releases(tmp_path / "1.0.0", tmp_path / "2.0.0")
    assert words in reported(details)
    withheld = compare_releases(tmp_path / "1.0.0", tmp_path / "2.0.0", notices=[notice])
    assert words not in reported(withheld)
    assert withheld.rows == details.rows


def test_withdrawals_without_a_notice_count_as_removed(world: World, tmp_path: Path) -> None:
    first = build(world, "1.0.0", tmp_path)
    later = Later(world, DATASET)
    one, other = later.ids("image")[:2]
    later.withdraw([one], details=[first.folder])
    later.withdraw([other])
    patch(world, "2.0.0", tmp_path)
    found = difference(tmp_path, "1.0.0", "2.0.0")
    assert (found.rows.withdrawn, found.rows.removed) == (1, 1)
    assert required_bump(found) is Bump.MAJOR
