"""Captions of the demonstration world agree with the person and the pose."""

import re
from functools import cache
from statistics import mean

import pytest

from loupe.demo.worlds.descriptions import describe
from loupe.demo.worlds.figure import Pose, View, draw_pose
from loupe.demo.worlds.people import CLOTH, HAIR, Person, draw_person_attributes
from loupe.schemas.records import Granularity
from loupe.sources.chance import Chance

_SYNONYMS = {
    "trousers": "pants",
    "t-shirt": "T-shirt",
    "sneakers": "sports shoes",
    "baseball cap": "cap",
}
_COLOUR = "(" + "|".join(sorted({*CLOTH, *HAIR}, key=len, reverse=True)) + ")"
_PATTERN = "(?: striped)?"
_KINDS = (
    "t-shirt|T-shirt|shirt|sweater|jacket|trousers|pants|jeans|shorts|skirt|sneakers|"
    "sports shoes|leather shoes|backpack|handbag|shopping bag|baseball cap|cap|hair"
)
_THING = re.compile(rf"\b{_COLOUR}(?: and {_COLOUR})?{_PATTERN} ({_KINDS})\b")


@cache
def _cases(count: int = 120) -> tuple[tuple[Person, Pose, Granularity, str], ...]:
    cases = []
    for number in range(count):
        person = draw_person_attributes(Chance("person", number))
        pose = draw_pose(Chance("pose", number), tuple(View)[number % 4])
        for granularity in Granularity:
            for annotator in (0, 1):
                chance = Chance("caption", number, annotator)
                caption = describe(person, pose, granularity, annotator, chance)
                cases.append((person, pose, granularity, caption))
    return tuple(cases)


def _colours_of(person: Person) -> dict[str, set[str | None]]:
    """Colours of the person's hair and things, by each of their names."""
    things: dict[str, set[str | None]] = {"hair": {person.hair.colour}}
    for garment in (person.upper, person.lower):
        things[garment.kind] = {garment.colour, garment.stripes}
    for thing in (person.jacket, person.footwear, person.carried, person.headwear):
        if thing:
            things[thing.kind] = {thing.colour}
    return things | {_SYNONYMS[kind]: things[kind] for kind in things if kind in _SYNONYMS}


def test_every_coloured_thing_in_a_caption_belongs_to_the_person() -> None:
    for person, _, _, caption in _cases():
        known = _colours_of(person)
        found = [match.groups() for match in _THING.finditer(caption)]
        assert found, caption
        for first, second, kind in found:
            assert kind in known, (kind, caption)
            assert {first, second} - {None} <= known[kind], caption


def test_left_and_right_are_seen_from_the_person() -> None:
    for person, pose, _, caption in _cases():
        for side, part in re.findall(r"\b(left|right) (hand|side)\b", caption):
            if part == "side":
                assert pose.view == side
            else:
                assert person.carried is not None
                assert person.carried.side == side


def test_captions_do_not_mention_hidden_things() -> None:
    for person, pose, _, caption in _cases():
        if pose.view is View.BACK:
            assert "skin" not in caption
        jacket = person.jacket
        if jacket and not (pose.view is View.FRONT and jacket.open):
            assert not re.search(rf"\b{person.upper.kind}\b", caption, re.IGNORECASE)


def test_captions_pass_simple_grammar_checks() -> None:
    for _, _, _, caption in _cases():
        assert not re.search(r"\ba [aeio]|\ban [^aeio]|  | ,|\.\.|None", caption), caption
        for sentence in caption.split(". "):
            assert sentence[0].isupper(), caption
        assert caption.endswith(".")
        sentences = caption.split(". ")
        assert len(set(sentences)) == len(sentences), caption


def test_caption_lengths_match_the_published_means() -> None:
    published = {Granularity.COARSE: 23.5, Granularity.MEDIUM: 37.2, Granularity.FINE: 80.8}
    for granularity, words in published.items():
        lengths = [len(caption.split()) for _, _, kind, caption in _cases() if kind is granularity]
        assert mean(lengths) == pytest.approx(words, rel=0.08), granularity
