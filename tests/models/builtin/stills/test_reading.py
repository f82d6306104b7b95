"""What a text says of a still is read, in the words that people use."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.builtin.stills.reading import Content, content_of_text, read_still_text
from sources.demonstration.people import Chance
from sources.demonstration.stills.composing import TASKS, Relation, compose
from sources.demonstration.stills.writing import captions_of


def content(text: str) -> Content:
    return content_of_text(read_still_text(text))


def test_things_are_read(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, list[tuple[object, ...]]]] = [
        ("Three large red balls and a cup.", [("ball", "red", 3, "large"), ("cup", None, 1, None)]),
        ("The car is red.", [("car", "red", None, None)]),
        ("2 bikes, 1 tiny white puppy",
         [("bicycle", None, 2, None), ("dog", "white", 1, "small")]),
        ("Birds over the sea.", [("bird", None, None, None)]),
        ("A carpet of catkins.", []),
    ]  # fmt: skip
    for text, groups in cases:
        with subtests.test(text=text):
            assert [tuple(group) for group in content(text).groups] == groups


def test_relations_are_read(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, list[tuple[str, str, str]]]] = [
        ("A cat to the left of a red box.", [("cat", "left", "box")]),
        ("A cat is right of the red box.", [("box", "left", "cat")]),
        ("A cat on a beach.", []),
        ("A cat on a chair on a beach.", [("cat", "on", "chair")]),
        ("A clock under two kites.", [("kite", "above", "clock")]),
    ]
    for text, relations in cases:
        with subtests.test(text=text):
            assert list(content(text).relations) == relations


def test_people_signs_and_styles_are_read() -> None:
    said = content(
        'A pencil sketch of a woman in a red shirt, blue jeans and a hat running past "Cafe".'
    )
    assert said.clothes == (("shirt", "red"), ("trousers", "blue"))
    assert (said.action, said.style, said.word) == ("running", "pencil sketch", "CAFE")


def test_things_do_not_act() -> None:
    assert content("A tree stands on a street.").action is None


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(TASKS))
def test_true_captions_are_read_as_they_were_meant(seed: int, task: str) -> None:
    scene = compose(Chance(seed), task)  # type: ignore[arg-type]
    for text in captions_of(scene, seed):
        said = content(text)
        things = {(g.kind, g.colour, g.number) for g in said.groups if g.colour}
        assert things == {(g.kind, g.colour, g.count) for g in scene.groups}
        assert said.place == scene.place.value
        assert said.word == scene.sign
        assert said.action == (scene.figure.action.value if scene.figure else None)
        if scene.relation in (Relation.ABOVE, Relation.ON):
            one, two = scene.groups
            assert said.relations == ((one.kind, scene.relation.value, two.kind),)
