from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.taxonomy import DifferenceType, PrimaryType, read_taxonomy, taxonomy_lines

FILE = files("schemas").joinpath("taxonomy.toml").read_text(encoding="utf-8")


def test_nine_types_in_four_aspects() -> None:
    aspects = [kind.primary for kind in DifferenceType]
    counts = [aspects.count(aspect) for aspect in PrimaryType]
    assert counts == [4, 2, 2, 1]
    assert all(kind.definition for kind in DifferenceType)


def test_other_spellings_are_understood(subtests: pytest.Subtests) -> None:
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
        with subtests.test(spelling=spelling, kind=kind):
            assert DifferenceType(spelling) is kind


def test_what_is_no_type_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "",
        "Entity",
        "Colour",
    ]
    for spelling in cases:
        with (
            subtests.test(spelling=spelling),
            pytest.raises(ValueError, match="is not a valid DifferenceType"),
        ):
            DifferenceType(spelling)


def test_the_types_are_listed_with_definition_and_examples() -> None:
    lines = taxonomy_lines().splitlines()
    assert len(lines) == 9
    for line, kind in zip(lines, DifferenceType, strict=True):
        assert line == f"- {kind.value}: {kind.definition} ({'; '.join(kind.examples)})"
        assert len(kind.examples) >= 2


def test_the_file_tells_the_types_in_their_order() -> None:
    entries = read_taxonomy(FILE)
    assert list(entries) == list(DifferenceType)
    for kind, entry in entries.items():
        assert (kind.primary, kind.definition) == (entry.primary, entry.definition)
        assert (kind.examples, kind.aliases) == (entry.examples, entry.aliases)


def test_a_taxonomy_that_is_not_whole_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str, str]] = [
        ('name = "Scene Type"', 'name = "Entity Type"', "share 'entitytype'"),
        ('["Scene Category"]', '["Event Category"]', "share 'eventcategory'"),
        ('name = "Scene Type"', 'name = "Place"', "'Place' is no type"),
        ('[[types]]\nname = "Scene Type"', '[[others]]\nname = "x"', "does not define"),
    ]
    for old, new, message in cases:
        with subtests.test(old=old, new=new, message=message):
            assert old in FILE
            with pytest.raises(ValueError, match=message):
                read_taxonomy(FILE.replace(old, new))


@given(st.sampled_from(list(DifferenceType)), st.sampled_from(("", " ", "_", "-")))
def test_spellings_differ_in_case_and_signs(kind: DifferenceType, sign: str) -> None:
    for spelling in (kind.value, *kind.aliases):
        swapped = spelling.swapcase().replace(" ", f" {sign} ")
        assert DifferenceType(f"{sign}{swapped}{sign}") is kind
