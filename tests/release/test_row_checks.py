"""A build refuses rows that no release may have."""

from pathlib import Path

import pytest

from loupe.release.build import build_release
from loupe.release.format.row_checks import BuiltRows
from loupe.release.format.rows import ReleasedCaption, ReleasedContrast, ReleaseRow, RowForm
from loupe.schemas.errors import IntegrityError
from loupe.schemas.taxonomy import DifferenceType
from tests.release.worlds import DATASET, SOURCES, Composer, store_world

CAPTION = ReleasedCaption("A man.", "c" * 32, "CUHK-PEDES", "source", reviewed=False)


def row(number: int, **changes: object) -> ReleaseRow:
    plain = ReleaseRow(
        number=number,
        id=number,
        source="CUHK-PEDES",
        identity=str(number),
        split="test",
        file_path=f"images/{number}.jpg",
        source_file_path=f"{number}.jpg",
        captions=(CAPTION,),
        image_entity_id="a" * 32,
        sha256="0" * 64,
        media_type="image/jpeg",
        width_px=12,
        height_px=24,
    )
    return plain._replace(**changes)  # type: ignore[arg-type]


def contrast(anchor: str) -> ReleasedContrast:
    return ReleasedContrast(anchor, DifferenceType.STYLE, "x", "y", "search", "b" * 32)


def check(*rows: ReleaseRow, has_groups: bool = False) -> None:
    checks = BuiltRows(has_groups=has_groups)
    for one in rows:
        checks.check(one, one.columns(RowForm(contrasts=has_groups)))


def test_rows_in_order_pass() -> None:
    check(row(1), row(2, id=1, identity="1", source_file_path="2.jpg"), row(3, id=2))
    check(row(1), row(2, contrast=contrast("images/1.jpg")), row(3), has_groups=True)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([row(1), row(3)], "calls its image 'images/3.jpg'"),
        ([row(1, captions=())], "has no captions"),
        ([row(1, captions=(CAPTION._replace(text=" "),))], "has an empty caption"),
        ([row(1), row(2, id=3)], "has the id 3; expected 2"),
        ([row(1), row(2, identity="1", source_file_path="2.jpg")], "has the id 2; expected 1"),
        ([row(1), row(2, identity="0")], "is out of order"),
        ([row(1), row(2, id=1, identity="1", source_file_path="1.jpg")], "or there twice"),
        ([row(1), row(2, split="train")], "is out of order"),
    ],
)
def test_rows_out_of_form_or_order_are_refused(rows: list[ReleaseRow], says: str) -> None:
    with pytest.raises(IntegrityError, match=says):
        check(*rows)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([row(1, contrast=contrast("images/9.jpg"))], "does not follow its anchor"),
        (
            [row(1), row(2), row(3, contrast=contrast("images/1.jpg"))],
            "does not follow its anchor, images/1.jpg",
        ),
        (
            [row(1, split="train"), row(2, contrast=contrast("images/1.jpg"))],
            "is in the split 'test', its anchor in 'train'",
        ),
        ([row(1), row(2, id=1, contrast=contrast("images/1.jpg"))], "has the id 1; expected 2"),
    ],
)
def test_contrastive_rows_follow_their_anchor(rows: list[ReleaseRow], says: str) -> None:
    with pytest.raises(IntegrityError, match=says):
        check(*rows, has_groups=True)


def test_a_build_checks_its_rows_before_it_publishes(tmp_path: Path) -> None:
    composer = Composer()
    image = composer.image(SOURCES[0], "1", "1.jpg", sampled=False)
    composer.caption(image, SOURCES[0], " ", 0)
    world = store_world(tmp_path / "world", composer.contents())
    with pytest.raises(IntegrityError, match=r"row 1 \(CUHK-PEDES, '1.jpg'\) has an empty caption"):
        build_release(world.store, world.blobs, DATASET, "1.0.0", tmp_path / "out")
    world.store.close()
    assert not (tmp_path / "out").exists()
