import pytest

from schemas.taxonomy import DifferenceType, PrimaryType


def test_nine_types_in_four_aspects() -> None:
    aspects = [kind.primary for kind in DifferenceType]
    counts = [aspects.count(aspect) for aspect in PrimaryType]
    assert counts == [4, 2, 2, 1]
    assert all(kind.definition for kind in DifferenceType)


@pytest.mark.parametrize(
    ("spelling", "kind"),
    [
        ("Entity Type", DifferenceType.ENTITY_TYPE),
        ("entity  relationship", DifferenceType.ENTITY_RELATION),
        ("Event Category", DifferenceType.EVENT_TYPE),
        ("Event Element", DifferenceType.EVENT_ATTRIBUTE),
        ("Style and Presentation", DifferenceType.STYLE),
        ("style&presentation", DifferenceType.STYLE),
    ],
)
def test_other_spellings_are_understood(spelling: str, kind: DifferenceType) -> None:
    assert DifferenceType(spelling) is kind


@pytest.mark.parametrize("spelling", ["", "Entity", "Colour"])
def test_what_is_no_type_is_refused(spelling: str) -> None:
    with pytest.raises(ValueError, match="is not a valid DifferenceType"):
        DifferenceType(spelling)
