import pytest

from models.builtin.person.lexicon import Tag, load_lexicon

_LEXICON = load_lexicon()


def test_scales_have_a_place_for_all_that_words_can_say(subtests: pytest.Subtests) -> None:
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
            said = {
                meaning.values[tag] for meaning in _LEXICON.meanings.values() if tag in meaning.tags
            }
            assert said
            assert said <= set(_LEXICON.scales[scale])


def test_steps_are_counted_from_the_first_and_empty_ones_count() -> None:
    assert [_LEXICON.place("age", value) for value in ("child", "young", "elderly")] == [0, 2, 6]


def test_kinds_are_a_kind_of_themselves_and_of_their_parents() -> None:
    assert _LEXICON.is_a("sneakers", "sneakers")
    assert _LEXICON.is_a("sneakers", "shoes")
    assert not _LEXICON.is_a("shoes", "sneakers")
    assert _LEXICON.is_a("an unheard thing", "an unheard thing")


def test_every_parent_is_a_kind() -> None:
    parents = {kind.parent for kind in _LEXICON.kinds.values() if kind.parent is not None}
    assert parents <= set(_LEXICON.kinds)


def test_near_colours_are_near_both_ways() -> None:
    assert _LEXICON.same_colour("navy", "blue")
    assert all((two, one) in _LEXICON.near_colours for one, two in _LEXICON.near_colours)


def test_boots_claim_more_than_shoes_and_sneakers_do_not() -> None:
    assert _LEXICON.claims("boots", "shoes")
    assert not _LEXICON.claims("sneakers", "shoes")
