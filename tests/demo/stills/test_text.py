"""Texts about stills: parsing, changing details, and distinguishing images."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.demo.stills.text import (
    Content,
    Group,
    content_of,
    distinguished,
    is_true,
    near,
    read_text,
)
from loupe.demo.worlds.stills import TASKS, captions_of, compose, lay_out
from loupe.schemas.taxonomy import RetrievalTask
from loupe.sources.chance import Chance

CAT_AND_BOX = (Group("cat", "orange", 1), Group("box", "red", 1))


def test_objects_are_parsed(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, list[tuple[object, ...]]]] = [
        ("Three large red balls and a cup.", [("ball", "red", 3, "large"), ("cup", None, 1, None)]),
        ("The car is red.", [("car", "red", None, None)]),
        ("2 mugs, 1 tiny white puppy", [("cup", None, 2, None), ("dog", "white", 1, "small")]),
        ("Birds over the sea.", [("bird", None, None, None)]),
        ("A carpet of catkins.", []),
    ]
    for text, groups in cases:
        with subtests.test(text=text):
            assert [tuple(group) for group in read_text(text).groups] == groups


@given(st.integers(0, 10**6), st.sampled_from(TASKS))
def test_captions_are_parsed_to_their_content(seed: int, task: RetrievalTask) -> None:
    content = compose(Chance(seed), task)
    drawn = content_of(lay_out(content, Chance(seed, "layout")))
    assert drawn._replace(relations=()) == content._replace(relations=())
    assert set(content.relations) <= set(drawn.relations)
    for text in captions_of(content, seed):
        parsed = read_text(text)
        assert parsed._replace(style=content.style, groups=(), action=None) == content._replace(
            groups=(), action=None
        )
        assert sorted(map(str, parsed.groups)) == sorted(map(str, content.groups))
        assert parsed.action == content.action
        assert is_true(text, drawn)


def test_replaced_words_keep_the_grammar(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, Content, str]] = [
        (
            "There is a red ball in a park.",
            Content((Group("ball", "orange", 3),), place="beach"),
            "There are three orange balls on a beach.",
        ),
        (
            "An orange cat to the left of a box.",
            Content(CAT_AND_BOX, relations=(("box", "left", "cat"),)),
            "An orange cat to the right of a box.",
        ),
        (
            'A sign that says "OPEN" and a person in a red shirt who is running.',
            Content(
                (Group("sign", None, 1), Group("person", None, 1)),
                (("shirt", "blue"),),
                "sitting",
                word="EXIT",
            ),
            'A sign that says "EXIT" and a person in a blue shirt who is sitting.',
        ),
        ("A horse in a park.", Content((Group("dog", "black", 1),)), "None"),
    ]
    for caption, content, wanted in cases:
        with subtests.test(caption=caption):
            assert str(near(caption, content)) == wanted


def test_captions_are_distinguished_by_as_few_details_as_possible(
    subtests: pytest.Subtests,
) -> None:
    content = Content(CAT_AND_BOX, place="park", style="poster")
    blue = (CAT_AND_BOX[0], Group("box", "blue", 1))
    cases: list[tuple[str, list[Content], str]] = [
        ("A cat.", [], "A cat."),
        ("A cat.", [content._replace(groups=blue)], "A cat and a red box."),
        ("A cat.", [content._replace(place="beach")], "A cat in a park."),
        (
            "A dog on a street.",
            [content._replace(style="pencil sketch"), content._replace(place="beach")],
            "A cat in a park, shown as a poster.",
        ),
        ("A cat.", [content], "None"),
    ]
    for caption, others, wanted in cases:
        with subtests.test(wanted=wanted):
            assert str(distinguished(caption, content, others)) == wanted
