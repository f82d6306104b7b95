import pytest

from loupe.checks.person.lexicon import Tag, load_lexicon

_LEXICON = load_lexicon()


def test_scales_contain_all_values_of_the_lexicon(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, Tag]] = [
        ("age", Tag.AGE),
        ("height", Tag.HEIGHT),
        ("build", Tag.BUILD),
        ("skin", Tag.SKIN_TONE),
        ("hair_length", Tag.SIZE),
        ("sleeve", Tag.SLEEVE),
        ("reach", Tag.REACH),
    ]
    for scale, tag in cases:
        with subtests.test(scale=scale, tag=tag):
            values = {
                meaning.values[tag] for meaning in _LEXICON.meanings.values() if tag in meaning.tags
            }
            assert values
            assert values <= set(_LEXICON.scales[scale])


def test_is_a_holds_for_a_kind_itself_and_its_parents() -> None:
    assert _LEXICON.is_a("sneakers", "sneakers")
    assert _LEXICON.is_a("sneakers", "shoes")
    assert not _LEXICON.is_a("shoes", "sneakers")
    assert _LEXICON.is_a("an unheard thing", "an unheard thing")


def test_boots_are_more_specific_than_shoes_and_sneakers_are_not() -> None:
    assert _LEXICON.claims("boots", "shoes")
    assert not _LEXICON.claims("sneakers", "shoes")


def test_words_that_exclude_each_other_are_not_alike() -> None:
    for one, other in _LEXICON.contrary:
        for word in one:
            assert not other & _LEXICON.alike.get(word, frozenset()), word
