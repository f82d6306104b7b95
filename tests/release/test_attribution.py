"""The attribution page for images whose licence is known only from a search filter."""

from release.terms import Credit, attribution_text
from schemas.licences import one_of


def page(*licences: str) -> str:
    credits_ = [
        Credit(licence, number, f"{number}.jpg", "A", "https://a.org/p", "service", own=True)
        for number, licence in enumerate(licences)
    ]
    return b"".join(attribution_text("contrasts 0.1.0", credits_)).decode()


def test_licences_known_from_a_search_filter_are_marked() -> None:
    for names in (["CC-BY"], ["CC0-1.0", "CC-BY"]):
        stated, filtered = page("CC-BY-4.0", one_of(names)).split("\n## ")[1:]
        assert "states the licence of none" in filtered, names
        assert "pass a filter" in filtered, names
        assert "filter" not in stated, names
        assert "0.jpg" in stated, names
        assert "1.jpg" in filtered, names
