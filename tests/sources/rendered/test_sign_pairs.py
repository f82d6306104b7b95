"""The shipped sign pairs and the validation of pairs."""

import pytest
from fontTools.ttLib import TTFont
from pydantic import ValidationError

from loupe.models.weights import installed_folder
from loupe.schemas.errors import FormatError, UsageError
from loupe.schemas.requests import SignCategory, SignPair
from loupe.sources.rendered.pen import TYPEFACES
from loupe.sources.rendered.signs import checked_pairs, shipped_pairs


def test_over_two_hundred_pairs_cover_every_category() -> None:
    pairs = shipped_pairs()
    assert len(pairs) >= 200
    assert {pair.category for pair in pairs} == set(SignCategory)


def test_the_chinese_fonts_cover_every_character() -> None:
    wanted = {ord(letter) for pair in shipped_pairs() for letter in pair.chinese}
    for face in TYPEFACES:
        if face.style == "chinese":
            folder = installed_folder(face.package.replace("-", "_"))
            assert folder is not None
            with TTFont(folder / face.file) as font:
                assert wanted <= set(font.getBestCmap())


def _pair(chinese: str, english: str) -> SignPair:
    return SignPair(category=SignCategory.NOTICE, chinese=chinese, english=english)


def test_a_text_with_two_translations_is_refused() -> None:
    with pytest.raises(FormatError, match="'出口' is in two pairs"):
        checked_pairs([_pair("出口", "Exit"), _pair("出口", "Way out")])
    with pytest.raises(UsageError, match="no pairs"):
        checked_pairs([])


def test_texts_in_the_wrong_language_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("Exit", "Exit"),
        ("出口", "出口"),
        ("", "x"),
        ("出口", " Exit"),
    ]
    for chinese, english in cases:
        with (
            subtests.test(chinese=chinese, english=english),
            pytest.raises(ValidationError),
        ):
            _pair(chinese, english)
