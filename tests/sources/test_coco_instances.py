import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.schemas.errors import FormatError
from loupe.schemas.records import Attribution
from loupe.sources.coco import there_are
from loupe.sources.importer import importer_for, read_source
from loupe.sources.records import BadRow, Row, SourceRow

IMAGES = [
    {
        "id": 9,
        "file_name": "000009.jpg",
        "license": 4,
        "coco_url": "http://images.example.org/9.jpg",
        "flickr_url": "http://flickr.example.org/9.jpg",
    },
    {"id": 4, "file_name": "000004.jpg"},
    {"id": 5, "file_name": "000005.jpg", "license": 77},
]
LICENCES = [{"id": 4, "name": "Attribution License", "url": "http://cc.example.org/by/2.0/"}]
CATEGORIES = [{"id": 18, "name": "dog"}, {"id": 3, "name": "car"}, {"id": 1, "name": "person"}]


def instance(image: int, category: int, area: float = 1.0, crowd: int = 0) -> dict[str, Any]:
    return {"image_id": image, "category_id": category, "area": area, "iscrowd": crowd}


INSTANCES = [instance(9, 18), instance(9, 3, 50.0), instance(9, 18), instance(4, 1, crowd=1)]


def content(**changes: Any) -> dict[str, Any]:
    whole = {
        "info": {"year": 2017},
        "licenses": LICENCES,
        "images": IMAGES,
        "annotations": INSTANCES,
        "categories": CATEGORIES,
    }
    return {key: value for key, value in (whole | changes).items() if value is not None}


def read(folder: Path, value: dict[str, Any]) -> list[Row]:
    path = folder / "instances_val2017.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return list(read_source(importer_for("coco-instances"), path))


def test_categories_of_equal_area_are_ordered_by_name(tmp_path: Path) -> None:
    for order in ((18, 3), (3, 18)):
        instances = [instance(9, category, 5.0) for category in order]
        first = read(tmp_path, content(annotations=instances))[0]
        assert isinstance(first, SourceRow)
        assert first.categories == ("car", "dog")


def test_the_sections_of_the_file_may_come_in_any_order(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    for last in ("images", "annotations", "categories", "licenses"):
        with subtests.test(last=last):
            whole = content()
            whole[last] = whole.pop(last)
            first, second, third = read(tmp_path, whole)
            assert first == SourceRow(
                index=0,
                identity="9",
                split="val",
                file_path="000009.jpg",
                captions=(),
                positions=(),
                facts=("There is a car.", "There are two dogs."),
                categories=("car", "dog"),
                attribution=Attribution(
                    licence="Attribution License (http://cc.example.org/by/2.0/)",
                    source_url="http://flickr.example.org/9.jpg",
                ),
            )
            assert isinstance(second, SourceRow)
            assert (second.facts, second.categories) == (("There are many people.",), ("person",))
            assert isinstance(third, SourceRow)
            assert (third.facts, third.categories, third.attribution) == ((), (), None)


def test_a_file_without_licences_is_read(tmp_path: Path) -> None:
    rows = read(tmp_path, content(licenses=None))
    assert [row.attribution for row in rows if isinstance(row, SourceRow)] == [None] * 3


def test_images_with_rejected_instances_get_no_counts(tmp_path: Path) -> None:
    bad = [
        instance(9, 99),
        instance(77, 18),
        {"image_id": 4, "category_id": None},
        {"category_id": 18},
        "a dog",
    ]
    rows = read(tmp_path, content(annotations=[*INSTANCES, *bad]))
    message = [(row.scope, row.field, row.reason) for row in rows if isinstance(row, BadRow)]
    assert sorted(message) == [
        ("fact", "", "wrong_type"),
        ("fact", "annotations[4].category_id", "unknown_category"),
        ("fact", "annotations[5].image_id", "unknown_image"),
        ("fact", "annotations[6].category_id", "wrong_type"),
        ("fact", "annotations[7].image_id", "missing_field"),
    ]
    good = [row for row in rows if isinstance(row, SourceRow)]
    assert [(row.facts, row.categories) for row in good] == [
        ((), ("car", "dog")),
        ((), ("person",)),
        ((), ()),
    ]


def test_an_image_that_occurs_twice_is_reported(tmp_path: Path) -> None:
    rows = read(tmp_path, content(images=[*IMAGES, IMAGES[0]]))
    (bad,) = [row for row in rows if isinstance(row, BadRow)]
    assert (bad.scope, bad.index, bad.reason) == ("record", 3, "duplicate_image")


def test_a_file_of_another_format_is_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"annotations": [{"image_id": 9, "caption": "A dog."}]}, "none of the fields category_id"),
        ({"categories": []}, "has no records under 'categories'"),
    ]
    for changes, message in cases:
        with subtests.test(changes=changes), pytest.raises(FormatError, match=message):
            read(tmp_path, content(**changes))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=5,
)


@settings(max_examples=100)
@given(section=st.sampled_from(["images", "annotations", "categories", "licenses"]), data=st.data())
def test_any_value_in_a_field_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, section: str, data: st.DataObject
) -> None:
    whole = content()
    good = whole[section][0]
    field = data.draw(st.sampled_from(sorted(good)))
    whole[section] = [*whole[section], good | {field: data.draw(json_values)}]
    rows = read(tmp_path_factory.mktemp("any"), whole)
    lost = [row for row in rows if isinstance(row, BadRow) and row.scope == "record"]
    kept = [row for row in rows if isinstance(row, SourceRow)]
    assert len(kept) + len(lost) == len(whole["images"])
    for row in rows:
        row.model_dump_json().encode("utf-8")


def test_counts_become_english_sentences(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, int | None, str]] = [
        ("dog", 1, "There is a dog."),
        ("umbrella", 1, "There is an umbrella."),
        ("person", 2, "There are two people."),
        ("knife", 13, "There are 13 knives."),
        ("sheep", 3, "There are three sheep."),
        ("wine glass", 2, "There are two wine glasses."),
        ("bus", None, "There are many buses."),
        ("skis", 1, "There is a pair of skis."),
        ("scissors", 2, "There are two pairs of scissors."),
        ("skis", None, "There are many pairs of skis."),
        ("broccoli", 4, "There is broccoli."),
        ("tv", 1, "There is a TV."),
    ]
    for name, count, sentence in cases:
        with subtests.test(name=name, count=count, sentence=sentence):
            assert there_are(name, count) == sentence
