import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.checks.person.differences import find_differences
from loupe.checks.person.parser import parse_description

_WORDS = (
    *("a", "the", "his", "her", "no", "it", "one", ",", ".", "and", "of", "with", "in", "is"),
    *("black", "white", "dark", "blue", "striped", "long", "young", "tall", "left", "right"),
    *("man", "woman", "shirt", "sleeves", "collar", "bag", "hat", "shoes", "hair", "hand", "gizmo"),
)


def differences(source: str, rewrite: str) -> list[tuple[str, bool, str]]:
    """Return change, whether minor, and value of each fact that the rewrite adds or contradicts."""
    findings = find_differences(parse_description(source), parse_description(rewrite))
    return [
        (finding.change, finding.minor, finding.rewrite.value)
        for finding in findings
        if finding.rewrite is not None
    ]


def test_added_and_contradicted_facts_are_found(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str, tuple[str, str]]] = [
        ("A man in a dark blue coat.", "A man in a light blue coat.", ("contradicted", "blue")),
        ("A woman with curly hair.", "A woman with straight hair.", ("contradicted", "straight")),
        ("A woman with her hair tied.", "A woman with a ponytail.", ("added", "ponytail")),
        ("A shirt with a red collar.", "A shirt with a green collar.", ("contradicted", "green")),
        ("A man in a striped shirt.", "A man in a checked shirt.", ("contradicted", "checked")),
        ("A long-sleeved shirt.", "A sleeveless shirt.", ("contradicted", "sleeveless")),
        ("A man is walking.", "A man is sitting.", ("contradicted", "sitting")),
        ("A man without a hat.", "A man in a hat.", ("contradicted", "hat")),
        ("A man with a bag.", "A man without a bag.", ("contradicted", "no bag")),
        ("A woman in shoes.", "A woman in boots.", ("added", "boots")),
        ("A young man.", "An elderly man.", ("contradicted", "elderly")),
        ("A young man.", "A middle-aged man.", ("contradicted", "middle-aged")),
        ("A man in canvas shoes.", "A man in leather shoes.", ("contradicted", "leather")),
        ("A man in a black jacket.", "A man in a black silk jacket.", ("added", "silk")),
        ("A woman with a bag.", "A woman with three bags.", ("added", "3")),
        ("She has a large bag.", "She has a tiny bag.", ("contradicted", "small")),
        ("A bag on his back.", "A bag on his chest.", ("contradicted", "chest")),
        ("A woman in a coat.", "A woman in a coat with a white laced oddity.", ("added", "white")),
        (
            "A shirt with letters on the back.",
            "A shirt with letters on the front.",
            ("contradicted", "front"),
        ),
        (
            "A shirt with a picture of a woman.",
            "A shirt with a picture of a lion.",
            ("added", "lion"),
        ),
        ("A man.", "A man wears a large capacity.", ("added", "wears a large capacity")),
        ("A man in shoes.", "The shoes are holding a man.", ("added", "The shoes are holding")),
        ("A bag in his left hand.", "A bag in his right hand.", ("contradicted", "right")),
        (
            "Her coat reaches her knees.",
            "Her coat reaches her hips.",
            ("contradicted", "hip-length"),
        ),
    ]
    for source, rewrite, expected in cases:
        with subtests.test(source=source, rewrite=rewrite, expected=expected):
            change, value = expected
            assert differences(source, rewrite) == [(change, False, value)]


def test_differences_common_among_annotators_are_minor() -> None:
    cases: list[tuple[str, str, list[tuple[str, bool, str]]]] = [
        (
            "A long-sleeved shirt.",
            "A half-sleeved shirt.",
            [("contradicted", True, "half sleeves")],
        ),
        ("A woman in shoes.", "A woman in sneakers.", [("added", True, "sneakers")]),
        ("A tall man.", "A man of average height.", [("contradicted", True, "average height")]),
        ("A man in navy trousers.", "A man in blue trousers.", []),
        ("A man in a white and blue shirt.", "A man in a multicoloured shirt.", []),
    ]
    for source, rewrite, expected in cases:
        assert differences(source, rewrite) == expected, rewrite


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(_WORDS), max_size=25))
def test_no_text_differs_from_itself(words: list[str]) -> None:
    text = " ".join(words)
    written = parse_description(text), parse_description(f" {text.capitalize()}  ")
    assert find_differences(written[0], written[0]) == ()
    assert find_differences(*written) == ()


@settings(max_examples=50, deadline=None)
@given(*[st.lists(st.sampled_from(_WORDS), max_size=25)] * 2)
def test_comparing_changes_neither_description(one: list[str], other: list[str]) -> None:
    source, rewrite = parse_description(" ".join(one)), parse_description(" ".join(other))
    before = source.facts(), rewrite.facts()
    assert find_differences(source, rewrite) == find_differences(source, rewrite)
    assert (source.facts(), rewrite.facts()) == before
