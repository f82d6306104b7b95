import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.checks.person.lexicon import Phrase, Tag, find_mentions, load_lexicon

_LEXICON = load_lexicon()
_KNOWN = sorted({word for phrase in _LEXICON.meanings for word in phrase if word.isalpha()})
_LONGEST = max(map(len, _LEXICON.meanings))


def phrases(text: str) -> list[str]:
    return [mention.phrase for mention in find_mentions(text, _LEXICON)]


def longest_first(words: list[str]) -> list[str]:
    """Reference implementation of longest match first, without an index."""
    found: list[str] = []
    while words:
        starts: list[Phrase] = [tuple(words[:n]) for n in range(_LONGEST, 1, -1) if n <= len(words)]
        phrase = next((start for start in starts if start in _LEXICON.meanings), (words[0],))
        found.append(" ".join(phrase))
        words = words[len(phrase) :]
    return found


@given(st.lists(st.sampled_from([*_KNOWN, "unheard"]), max_size=12))
def test_the_longest_phrase_is_matched_first(words: list[str]) -> None:
    assert phrases(" ".join(words)) == longest_first(words)


def test_hyphens_join_and_apostrophes_split_words(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, list[str]]] = [
        ("T-shirt", ["t shirt"]),
        ("navy-blue coat - new", ["navy blue", "coat", "-", "new"]),
        ("He’s in jeans.", ["he", "'s", "in", "jeans", "."]),
        ("she doesn't", ["she", "does", "n't"]),
        ("", []),
    ]
    for text, expected in cases:
        with subtests.test(text=text):
            assert phrases(text) == expected


def test_unknown_words_and_punctuation_have_separate_tags() -> None:
    tags = [mention.tags for mention in find_mentions("zorp , ; 777", _LEXICON)]
    assert tags == [{Tag.OTHER}, {Tag.COMMA}, {Tag.STOP}, {Tag.OTHER}]
