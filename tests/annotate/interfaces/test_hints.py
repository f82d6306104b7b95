"""The precision of the hints on labelling pages, by type: at least 0.9."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from loupe.annotate.interfaces.text_pages import missing_attributes
from loupe.checks.person.differences import find_differences
from loupe.checks.person.parser import parse_description
from loupe.demo.composer.rewriter import RuleRewriter
from loupe.demo.worlds.descriptions import describe
from loupe.demo.worlds.figure import View, draw_pose
from loupe.demo.worlds.people import draw_person_attributes
from loupe.schemas.faithfulness import Finding
from loupe.schemas.profile import BuiltinRewriter
from loupe.schemas.records import Granularity
from loupe.sources.chance import Chance
from tests.corruption import corrupt
from tests.person_sets import REAL, real_pairs, real_texts

MINIMUM_PRECISION = 0.9
PEOPLE = 15
needs_real_texts = pytest.mark.skipif(
    not REAL.exists(), reason="../shared/data/person_descriptions.json is not here"
)
# Synonyms that the rewriter uses, by the words of its source.
_SAME = {
    "grey": "gray",
    "tee": "t-shirt",
    "pants": "trousers",
    "rucksack": "backpack",
    "eyeglasses": "glasses",
    "spectacles": "glasses",
    "trainers": "sneakers",
    "wavy": "curly",
    "brown": "dark",
    "tan": "medium",
}
_NOUNS = {"skin": "skin", "build": "build"}


class Hint(NamedTuple):
    """A hint about a rewrite; `where` is the planted change, `before` the replaced words."""

    source: str
    rewrite: str
    finding: Finding
    where: tuple[int, int] | None
    before: str

    @property
    def is_right(self) -> bool:
        """Whether the hint is about the planted change or about words that are really missing."""
        found = self.finding.rewrite
        if found is not None and self.where is not None and _overlap(found.span, self.where):
            return True
        lost = self.finding.source
        if lost is None:
            return False
        words = _words(self.source[slice(*lost.span)]) | _words(_NOUNS.get(lost.attribute, ""))
        if self.before and words & _words(self.before):
            return True
        return self.finding.change == "lost" and not words <= _words(self.rewrite)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _words(text: str) -> set[str]:
    words = re.findall(r"[a-z]+(?:-[a-z]+)*", text.lower())
    return {_SAME.get(word, word) for word in words}


parsed = cache(parse_description)


def differences(source: str, rewrite: str) -> tuple[Finding, ...]:
    return find_differences(parsed(source), parsed(rewrite))


def hint_type(finding: Finding) -> tuple[str, str]:
    """Return the change that a hint reports, and its attribute: the old one of a replaced fact."""
    fact = finding.source or finding.rewrite
    return finding.change, str(fact.attribute) if fact is not None else ""


def demonstration_pairs() -> Iterator[tuple[str, str]]:
    """Yield descriptions of drawn people with their rewrites by the built-in rewriter."""
    for number in range(PEOPLE):
        chance = Chance("hints", number)
        person = draw_person_attributes(chance)
        pose = draw_pose(chance, chance.pick(list(View)))
        for granularity in (Granularity.COARSE, Granularity.FINE):
            text = describe(person, pose, granularity, number % 2, chance)
            for style in ("plain", "flowing", "brief"):
                rewriter = RuleRewriter(BuiltinRewriter.model_validate({"style": style}))
                yield text, rewriter.rewrite(text)


def demonstration_hints() -> Iterator[Hint]:
    """Yield all hints about faithful rewrites and about rewrites with one planted fault."""
    for source, faithful in demonstration_pairs():
        for finding in differences(source, faithful):
            yield Hint(source, faithful, finding, None, "")
        for fault in corrupt(faithful):
            where, before = _changed(faithful, fault.text)
            for finding in differences(source, fault.text):
                yield Hint(source, fault.text, finding, where, before)


def _changed(before: str, after: str) -> tuple[tuple[int, int], str]:
    """Return where `after` differs, in whole words, and the words that were there before."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    while start and before[start - 1].isalpha():
        start -= 1
    while end and before[-end].isalpha():
        end -= 1
    return (start, len(after) - end), before[start : len(before) - end]


def test_hints_have_high_precision_on_the_demonstration() -> None:
    right, shown = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for hint in demonstration_hints():
        kind = hint_type(hint.finding)
        shown[kind] += 1
        right[kind] += hint.is_right
    precision = {kind: right[kind] / count for kind, count in shown.items()}
    poor = {kind: share for kind, share in precision.items() if share < MINIMUM_PRECISION}
    assert not poor, poor
    assert len(precision) >= 15


# The real differences between published descriptions of one image; a person read every hint.
RIGHT_ON_REAL = frozenset(
    (figure, value)
    for figure, values in {
        9: ("short", "tall height", "average height", "neat"),
        5: (
            *("beard", "middle-parted", "slim build"),
            *("sleeveless", "moustache", "backpack", "shoulder bag", "medium", "long", "parted"),
            *(
                "canvas",
                "airplane",
                "horizontal",
                "vertical",
                "calf-length",
                "blouse",
                "tall height",
                "knee-length",
                "short sleeves",
            ),
        ),
    }.items()
    for value in values
)
WRONG_ON_REAL = frozenset({(5, "lost", "short sleeves"), (5, "added", "short sleeves")})


@needs_real_texts
def test_hints_have_high_precision_on_published_descriptions() -> None:
    right, shown = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for figure in (5, 9):
        for source, rewrite in real_pairs(figure):
            for finding in differences(source, rewrite):
                fact = finding.rewrite or finding.source
                assert fact is not None
                wrong = (figure, finding.change, fact.value) in WRONG_ON_REAL
                shown[hint_type(finding)] += 1
                right[hint_type(finding)] += (figure, fact.value) in RIGHT_ON_REAL and not wrong
    assert sum(shown.values()) >= 25
    assert {kind: right[kind] / count for kind, count in shown.items()} == dict.fromkeys(shown, 1)


# Attributes that the descriptions omit, by their first words, determined by a person.
NOT_MENTIONED = {
    "A young man, with fair": {"action"},
    "A young man with fair": {"action"},
    "A young female with a": {"action"},
    "The young woman has a": {"action"},
    "She was a middle-aged": {"headwear and glasses"},
    "Here is a middle-aged": {"headwear and glasses"},
    "This young woman has": {"hair", "action"},
    "There is a young female": {"hair", "action"},
    "The woman has her black": {
        *("build and skin", "headwear and glasses", "sleeves and length", "pattern"),
        *("footwear", "action"),
    },
    "A woman wearing a dark": {
        *("build and skin", "hair", "headwear and glasses", "sleeves and length", "pattern"),
        *("carried", "action"),
    },
    "This man is middle-aged with": {"headwear and glasses", "pattern", "action"},
    "A middle-aged man with": {"headwear and glasses", "pattern", "action"},
    "This is a middle-aged": {"headwear and glasses", "pattern", "action"},
    "This man is middle-aged, with": {"headwear and glasses", "pattern", "action"},
}


@needs_real_texts
def test_attributes_mentioned_in_published_descriptions_are_not_missing() -> None:
    for text in real_texts():
        (truth,) = (
            attributes for start, attributes in NOT_MENTIONED.items() if text.startswith(start)
        )
        assert set(missing_attributes(text)) <= truth, text
