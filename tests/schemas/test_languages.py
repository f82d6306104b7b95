"""Languages are named by ISO 639-1, and a name or a longer code says which one was meant."""

import pytest

from loupe.schemas.errors import ConfigurationError
from loupe.schemas.profile import FaithfulnessSettings
from loupe.schemas.validation import validated


@pytest.mark.parametrize(
    ("language", "hint"),
    [
        ("english", "did you mean 'en'?"),
        ("German", "did you mean 'de'?"),
        ("zh-CN", "did you mean 'zh'?"),
        ("xx", "for instance 'en', 'de' or 'zh'"),
        ("", "for instance 'en', 'de' or 'zh'"),
    ],
)
def test_another_language_than_those_of_the_standard_is_refused(language: str, hint: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        validated(FaithfulnessSettings, {"language": language}, "profile.toml")
    assert "language: must be a language in two letters (ISO 639-1)" in str(raised.value)
    assert hint in str(raised.value)


def test_a_language_of_the_standard_is_accepted() -> None:
    assert validated(FaithfulnessSettings, {"language": "sw"}, "profile.toml").language == "sw"
