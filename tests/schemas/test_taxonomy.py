import tomllib
from importlib.resources import files

import pytest

from loupe.schemas.taxonomy import DifferenceType, PrimaryType

FILE = files("loupe.schemas").joinpath("taxonomy.toml").read_text(encoding="utf-8")


def test_there_are_nine_types_in_four_aspects() -> None:
    aspects = [kind.primary for kind in DifferenceType]
    counts = [aspects.count(aspect) for aspect in PrimaryType]
    assert counts == [4, 2, 2, 1]
    assert all(kind.definition for kind in DifferenceType)


def test_aliases_are_accepted() -> None:
    cases: list[tuple[str, DifferenceType]] = [
        ("Entity Type", DifferenceType.ENTITY_TYPE),
        ("entity  relationship", DifferenceType.ENTITY_RELATION),
        ("Event Category", DifferenceType.EVENT_TYPE),
        ("Event Element", DifferenceType.EVENT_ATTRIBUTE),
        ("Style and Presentation", DifferenceType.STYLE),
        ("style&presentation", DifferenceType.STYLE),
        ("Event/Action Element", DifferenceType.EVENT_ATTRIBUTE),
        ("entity_attribute", DifferenceType.ENTITY_ATTRIBUTE),
        ("Scene-Type.", DifferenceType.SCENE_TYPE),
    ]
    for spelling, kind in cases:
        assert DifferenceType(spelling) is kind, spelling


def test_an_unknown_type_is_refused() -> None:
    for spelling in ("", "Entity", "Colour"):
        with pytest.raises(ValueError, match="is not a valid DifferenceType"):
            DifferenceType(spelling)


def test_the_file_defines_each_type_once_and_no_alias_is_ambiguous() -> None:
    rows = tomllib.loads(FILE)["types"]
    assert [row["name"] for row in rows] == [kind.value for kind in DifferenceType]
    for kind in DifferenceType:
        for spelling in (kind.value, *kind.aliases):
            assert DifferenceType(spelling) is kind, spelling
