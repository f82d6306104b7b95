"""What the attribution page says of licences that nobody states."""

import pytest

from release.scratch import Credit
from release.terms import attribution_text
from schemas.licences import one_of


def page(*licences: str) -> str:
    credits_ = [
        Credit(licence, number, f"{number}.jpg", "A", "https://a.org/p", "service", own=True)
        for number, licence in enumerate(licences)
    ]
    return b"".join(attribution_text("contrasts 0.1.0", credits_)).decode()


@pytest.mark.parametrize("names", [["CC-BY"], ["CC0-1.0", "CC-BY"]])
def test_the_basis_of_a_licence_is_named_where_it_is_a_filter(names: list[str]) -> None:
    stated, filtered = page("CC-BY-4.0", one_of(names)).split("\n## ")[1:]
    assert "states the licence of none" in filtered
    assert "pass a filter" in filtered
    assert "filter" not in stated
    assert "0.jpg" in stated
    assert "1.jpg" in filtered
