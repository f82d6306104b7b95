import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.schemas.errors import FormatError
from loupe.schemas.records import Attribution
from loupe.schemas.taxonomy import DifferenceType
from loupe.sources.importer import importer_for, read_source
from loupe.sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, Row, SourceRow

CAPTIONS = [f"A caption, the {place}th of five." for place in range(5)]
ANCHOR = {"image": "391895.jpg", "captions": CAPTIONS}
CONTRAST = {
    "image": "391895_contrast_0.jpg",
    "captions": CAPTIONS,
    "contrastive_aspect": "Entity Relationship",
}


def lines(*records: Any) -> str:
    return "".join(
        f"{record if isinstance(record, str) else json.dumps(record)}\n" for record in records
    )


def read(path: Path, *records: Any, options: ReadOptions = DEFAULT_OPTIONS) -> list[Row]:
    path.write_text(lines(*records), encoding="utf-8", newline="")
    return list(read_source(importer_for("ccd"), path, options))


def rows(found: list[Row]) -> list[SourceRow]:
    assert all(isinstance(row, SourceRow) for row in found), found
    return [row for row in found if isinstance(row, SourceRow)]


def bad(found: list[Row]) -> list[BadRow]:
    return [row for row in found if isinstance(row, BadRow)]


def test_an_anchor_and_its_contrastive_image_are_read(tmp_path: Path) -> None:
    anchor, contrast = rows(read(tmp_path / "test.json", ANCHOR, CONTRAST))
    assert (anchor.identity, anchor.split, anchor.contrast) == ("391895.jpg", "test", None)
    assert anchor.captions == tuple(CAPTIONS)
    assert contrast.contrast is not None
    assert contrast.contrast.difference is DifferenceType.ENTITY_RELATION
    assert contrast.contrast.anchor == anchor.model_copy(update={"captions": (), "positions": ()})
    assert (contrast.contrast.detail, contrast.contrast.method) == ("", None)


def test_the_order_of_lines_does_not_matter(tmp_path: Path) -> None:
    contrast, anchor = rows(read(tmp_path / "test.json", CONTRAST, ANCHOR))
    assert contrast.contrast is not None
    assert contrast.contrast.anchor.identity == anchor.identity


def test_anchors_are_searched_under_the_names_of_their_originals(tmp_path: Path) -> None:
    (anchor,) = rows(read(tmp_path / "test.json", ANCHOR))
    paths = (anchor.file_path, *anchor.other_paths)
    assert paths[0] == "391895.jpg"
    assert {
        "000000391895.jpg",
        "COCO_val2014_000000391895.jpg",
        "val2014/COCO_val2014_000000391895.jpg",
        "flickr30k-images/391895.jpg",
    } <= set(paths)
    assert len(set(paths)) == len(paths)


def test_additional_fields_of_releases_are_read(tmp_path: Path) -> None:
    more = {
        "ori_image": "391895.jpg",
        "contrastive_detail": "a red bus",
        "contrastive_strategy": "a blue bus",
        "method": "edit",
        "captions_zh": [None, "一辆公共汽车"],
        "licence": "CC BY 4.0",
        "creator": "Ada",
        "source_url": "https://example.org/1",
    }
    anchor, contrast = rows(
        read(tmp_path / "t", {**ANCHOR, "coarse_captions": ["A bus."]}, {**CONTRAST, **more})
    )
    assert anchor.coarse_captions == ("A bus.",)
    assert contrast.translations == (("zh", (None, "一辆公共汽车")),)
    assert contrast.attribution == Attribution(
        licence="CC BY 4.0", creator="Ada", source_url="https://example.org/1"
    )
    found = {**more, "source_url": "folder:pictures/a.jpg"}  # as a release states it
    _, again = rows(read(tmp_path / "t", ANCHOR, {**CONTRAST, **found}))
    assert again.attribution == Attribution(licence="CC BY 4.0", creator="Ada")
    difference = contrast.contrast
    assert difference is not None
    assert (difference.detail, difference.plan, difference.method) == (
        "a red bus",
        "a blue bus",
        "edit",
    )


def test_a_bad_line_is_rejected_alone(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"captions": CAPTIONS[:4]}, "wrong_caption_count"),
        ({"captions": [*CAPTIONS[:4], " "]}, "empty_caption"),
        ({"captions": "A caption"}, "wrong_type"),
        ({"contrastive_aspect": "Mood"}, "unknown_difference"),
        ({"contrastive_aspect": None}, "unknown_difference"),
        ({"image": 7}, "wrong_type"),
        ({"image": "391895.jpg"}, "duplicate_image"),
        ({"ori_image": "4.jpg"}, "anchor_missing"),
        ({"ori_image": 4}, "wrong_type"),
        ({"image": "4_contrast_0.jpg"}, "anchor_missing"),
        ({"source_url": "javascript:alert(1)", "licence": "CC0"}, "not_an_address"),
    ]
    for change, reason in cases:
        with subtests.test(reason=reason):
            other = {**CONTRAST, "image": "391895_contrast_1.jpg"}
            found = read(tmp_path / "t", ANCHOR, {**CONTRAST, **change}, other)
            (row,) = bad(found)
            assert (row.reason, row.index) == (reason, 1)
            assert len(found) == 3


def test_a_contrastive_image_without_a_difference_type_is_no_anchor(tmp_path: Path) -> None:
    untyped = {"image": "391895_contrast_0.jpg", "captions": CAPTIONS}
    (row,) = bad(read(tmp_path / "t", ANCHOR, untyped))
    assert (row.reason, row.field) == ("missing_field", "contrastive_aspect")


def test_the_name_of_an_anchor_may_contain_underscores(tmp_path: Path) -> None:
    (row,) = rows(read(tmp_path / "t", {"image": "COCO_val2014_1.jpg", "captions": CAPTIONS}))
    assert row.contrast is None


def test_contrastive_images_of_a_rejected_anchor_are_rejected(tmp_path: Path) -> None:
    found = read(tmp_path / "t", {**ANCHOR, "captions": CAPTIONS[:3]}, CONTRAST)
    assert [row.reason for row in bad(found)] == ["wrong_caption_count", "anchor_missing"]


def test_a_line_of_broken_json_is_rejected_alone(tmp_path: Path) -> None:
    found = read(tmp_path / "t", ANCHOR, '{"image": "391895_con', CONTRAST)
    assert [row.reason for row in bad(found)] == ["malformed_json"]


def test_a_file_of_another_format_is_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for text in ("\n\n", "[1]\n", '{"file_name": "a.jpg"}\n', "no JSON"):
        with subtests.test(text=text):
            path = tmp_path / "t"
            path.write_text(text, encoding="utf-8")
            with pytest.raises(FormatError, match="is not a ccd file"):
                read_source(importer_for("ccd"), path)


def test_an_image_name_of_one_slash_is_read_as_a_row(tmp_path: Path) -> None:
    for name in ("\\", "/"):
        _, row = read(tmp_path / "t", ANCHOR, {**ANCHOR, "image": name})
        assert row.index == 1


@settings(max_examples=100)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "image": st.text(max_size=8) | st.integers(),
                "captions": st.just(CAPTIONS) | st.none(),
            },
            optional={
                "contrastive_aspect": st.text(max_size=5) | st.none() | st.lists(st.integers()),
                "ori_image": st.text(max_size=5) | st.integers(),
                "method": st.text(max_size=3) | st.lists(st.integers()),
                "captions_zh": st.integers() | st.lists(st.text(max_size=3)),
            },
        ),
        max_size=5,
    )
)
def test_every_line_becomes_a_row_or_a_bad_row(records: list[dict[str, Any]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        found = read(Path(folder) / "t", ANCHOR, *records)
    assert len(found) == 1 + len(records)
    assert [row.index for row in found] == list(range(1 + len(records)))
