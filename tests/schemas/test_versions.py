"""The order of versions."""

import pytest

from loupe.schemas.withdrawal import version_numbers


def test_versions_are_ordered_by_number() -> None:
    versions = ["1.10.0", "0.9.12", "1.9.0", "1.9.0", "0.10.1"]
    ordered = sorted(versions, key=version_numbers)
    assert ordered == ["0.9.12", "0.10.1", "1.9.0", "1.9.0", "1.10.0"]
    assert version_numbers("10.2.33") == (10, 2, 33)


def test_an_invalid_version_is_refused(subtests: pytest.Subtests) -> None:
    for text in ("1.0", "1.0.0.0", "1.x.0", ""):
        with subtests.test(text=text), pytest.raises(ValueError):
            version_numbers(text)
