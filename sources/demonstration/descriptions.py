"""Captions that say of an image what can be seen in it, at three granularities.

Left and right are the person's own, as is usual in the field: the right hand of somebody who faces
us is on the left of the image. Lengths follow the published means (UFineBench, section 3.3): 23.5
words for CUHK-PEDES, 37.2 for ICFG-PEDES, 80.8 for UFine6926.
"""

from dataclasses import dataclass

from schemas.records import Granularity
from sources.demonstration.chance import Chance
from sources.demonstration.people import Person
from sources.demonstration.phrases import VOICES
from sources.demonstration.poses import Pose
from sources.demonstration.sentences import Sentences
from sources.demonstration.visibility import visible_attributes


@dataclass(frozen=True)
class _Ranked:
    """A sentence and how much it matters: 0 is always said, higher numbers only to fill up."""

    rank: int
    text: str


def describe(
    person: Person, pose: Pose, granularity: Granularity, annotator: int, chance: Chance
) -> str:
    """One caption of the image of `person` in `pose`, in the words of one of two annotators."""
    say = Sentences(person, visible_attributes(person, pose), VOICES[annotator % 2], chance)
    if granularity is Granularity.COARSE:
        return _fill(_coarse(say), chance.between(15, 25))
    if granularity is Granularity.MEDIUM:
        return _fill(_medium(say), chance.between(29, 37))
    return _fill(_fine(say, clothes_first=annotator % 2 == 1), chance.between(70, 87))


def _fill(sentences: list[_Ranked], target_words: float) -> str:
    """The sentences in order, the least important left out once enough is said."""
    kept, words = set[int](), 0
    wanted = [index for index, sentence in enumerate(sentences) if sentence.text]
    for index in sorted(wanted, key=lambda index: (sentences[index].rank, index)):
        if sentences[index].rank == 0 or words < target_words:
            kept.add(index)
            words += len(sentences[index].text.split())
    return " ".join(sentences[index].text for index in sorted(kept))


def _coarse(say: Sentences) -> list[_Ranked]:
    """Who, the main garments, and a thing or two more."""
    opening = say.outline()
    extra = (opening.rest, say.carrying(), say.head(), say.view())
    return [_Ranked(0, opening.text), *(_Ranked(rank, text) for rank, text in enumerate(extra, 1))]


def _medium(say: Sentences) -> list[_Ranked]:
    """Who, hair, all garments with their patterns, what is carried."""
    opening = say.upper_half()
    extra = (say.carrying(), say.head(), opening.rest, say.view(), say.shape())
    return [
        _Ranked(0, opening.text),
        _Ranked(0, say.lower_half()),
        *(_Ranked(rank, text) for rank, text in enumerate(extra, 1)),
    ]


def _fine(say: Sentences, *, clothes_first: bool) -> list[_Ranked]:
    """Everything that shows, from head to foot; some annotators begin with the clothes."""
    head = [
        _Ranked(0, say.hair()),
        _Ranked(1, say.head()),
        _Ranked(1, say.beard()),
    ]
    clothes = [
        _Ranked(0, say.upper_body()),
        _Ranked(4, say.upper_detail()),
        _Ranked(0, say.lower_body()),
        _Ranked(6, say.lower_detail()),
        _Ranked(1, say.shoes()),
        _Ranked(5, say.shoes_detail()),
        _Ranked(2, say.socks()),
    ]
    last = [
        _Ranked(1, say.carrying()),
        _Ranked(3, say.carried_detail()),
        _Ranked(2, say.doing()),
        _Ranked(7, say.hands()),
        _Ranked(3, say.view()),
    ]
    middle = [*clothes, *head] if clothes_first else [*head, *clothes]
    return [_Ranked(0, say.introduction()), *middle, *last]
