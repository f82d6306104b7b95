"""Mutated answers: parsed correctly, or rejected with the raw answer; none is truncated to fit."""

import copy
import json
import random
from collections import Counter
from typing import Any

import pytest

from loupe.flows.ccd.refining import RefinedCaptions, read_refinement
from loupe.schemas.records import Rejection
from loupe.schemas.requests import RefinementBrief
from tests.flows.steps.contrast_strategies.proposals import answered
from tests.flows.steps.mutations import Mutated, Subject, Survives, mutated
from tests.flows.steps.refine_captions.refined import BRIEF, CAPTIONS, TRANSLATED, TRANSLATIONS


def subject_of(content: dict[str, Any]) -> Subject:
    def set_text(content: dict[str, Any], position: int, value: Any, rng: random.Random) -> None:
        content["captions"][position] = value

    def get_text(content: dict[str, Any], position: int) -> str:
        return str(content["captions"][position])

    return Subject(content, "captions", set_text, get_text)


PLAIN = subject_of({"captions": list(CAPTIONS)})
WITH_TRANSLATIONS = subject_of(
    {"captions": list(CAPTIONS), "translations": list(TRANSLATIONS)},
)


def changed(subject: Subject, **lists: Any) -> str:
    return json.dumps({**subject.content, **lists}, ensure_ascii=False)


def one_too_few(subject: Subject, rng: random.Random) -> Mutated:
    captions = list(CAPTIONS)
    del captions[rng.randrange(3)]
    return Mutated(changed(subject, captions=captions), Survives.NONE)


def one_too_many(subject: Subject, rng: random.Random) -> Mutated:
    captions = [*CAPTIONS]
    captions.insert(rng.randrange(4), "A horse stands in a meadow by a lake.")
    return Mutated(changed(subject, captions=captions), Survives.NONE)


def two_in_one(subject: Subject, rng: random.Random) -> Mutated:
    joined = rng.choice((" ", "\n", "; ")).join(CAPTIONS[:2])
    return Mutated(changed(subject, captions=[joined, CAPTIONS[2]]), Survives.NONE)


def numbered(subject: Subject, rng: random.Random) -> Mutated:
    form = rng.choice(("{}. ", "{}) ", "({}) ", "Image {}: ", "Caption {}: ", "#{}: "))
    captions = [form.replace("{}", str(at)) + text for at, text in enumerate(CAPTIONS, start=1)]
    return Mutated(changed(subject, captions=captions), Survives.ALL)


def wrongly_numbered(subject: Subject, rng: random.Random) -> Mutated:
    numbers = rng.choice(((2, 1, 3), (1, 1, 2), (0, 1, 2), (1, 2, 4)))
    captions = [f"{at}. {text}" for at, text in zip(numbers, CAPTIONS, strict=True)]
    return Mutated(changed(subject, captions=captions), Survives.NONE)


def said_three_times(subject: Subject, rng: random.Random) -> Mutated:
    captions, at = list(CAPTIONS), rng.randrange(3)
    captions[at] = "Two dogs run here. " * 3
    return Mutated(changed(subject, captions=captions), Survives.NONE)


def same_for_two(subject: Subject, rng: random.Random) -> Mutated:
    captions, (one, other) = list(CAPTIONS), rng.sample(range(3), 2)
    captions[one] = rng.choice((captions[other], f" {captions[other].upper()}"))
    return Mutated(changed(subject, captions=captions), Survives.NONE)


def references_to_other_images(subject: Subject, rng: random.Random) -> Mutated:
    captions, at = list(CAPTIONS), rng.randrange(3)
    captions[at] = rng.choice(
        (
            "Unlike the first image, two dogs rest on a lawn.",
            "Two dogs chase a cat, as in the other picture.",
            "Two dogs chase a cat over a greener lawn than in the previous image.",
            "In contrast to image 1, two dogs rest on a lawn.",
            "Two dogs chase a cat in both images.",
        )
    )
    return Mutated(changed(subject, captions=captions), Survives.NONE)


def captions_by_number(subject: Subject, rng: random.Random) -> Mutated:
    captions = {str(at): text for at, text in enumerate(CAPTIONS, start=1)}
    return Mutated(changed(subject, captions=captions), Survives.HIDDEN)


def captions_as_objects(subject: Subject, rng: random.Random) -> Mutated:
    captions = [{"image": at, "caption": text} for at, text in enumerate(CAPTIONS, start=1)]
    return Mutated(changed(subject, captions=captions), Survives.HIDDEN)


def a_plain_list(subject: Subject, rng: random.Random) -> Mutated:
    lines = [f"{at}. {text}" for at, text in enumerate(CAPTIONS, start=1)]
    return Mutated(rng.choice(("\n", " ", '"')).join(lines), Survives.HIDDEN)


def spoilt_translations(subject: Subject, rng: random.Random) -> Mutated:
    translations: list[Any] = copy.copy(list(TRANSLATIONS))
    spoilt: Any = rng.choice(
        (
            None,
            translations[:2],
            [*translations, "多一个"],
            [*translations[:2], ""],
            [*translations[:2], 5],
            [*translations[:2], CAPTIONS[2]],
            [*translations[:2], "Two dogs chase a cat over a lawn that is white with snow."],
            [*translations[:2], f"{TRANSLATIONS[2]}\x07"],
            [*translations[:2], "Dwa psy gonią kota po trawniku."],
        )
    )
    content = {"captions": list(CAPTIONS)} | ({} if spoilt is None else {"translations": spoilt})
    return Mutated(json.dumps(content), Survives.NONE)


EXTRA = (
    one_too_few,
    one_too_many,
    two_in_one,
    numbered,
    wrongly_numbered,
    said_three_times,
    same_for_two,
    references_to_other_images,
    captions_by_number,
    captions_as_objects,
    a_plain_list,
)


def cases_of(count: int) -> list[tuple[RefinementBrief, str, Mutated]]:
    """Return `count` mutations of an answer without translations and of one with translations."""
    plain = mutated([PLAIN], EXTRA, count)
    translated = mutated([WITH_TRANSLATIONS], (*EXTRA, spoilt_translations), count)
    return [
        *((BRIEF, name, case) for name, _, case in plain),
        *((TRANSLATED, name, case) for name, _, case in translated),
    ]


def check(cases: list[tuple[RefinementBrief, str, Mutated]], subtests: pytest.Subtests) -> None:
    for number, (brief, name, case) in enumerate(cases):
        with subtests.test(number=number, name=name):
            check_one(brief, case)


def check_one(brief: RefinementBrief, case: Mutated) -> None:
    answer = answered(case.text, truncated=case.truncated)
    read = read_refinement(answer, brief)
    if isinstance(read, Rejection):
        assert case.survives not in (Survives.ALL, Survives.ALL_AS_WRITTEN), read
        assert read.context["answer"] == answer.text
        assert read.stage == "refine_captions"
        assert read.model_dump_json()
        return
    assert case.survives not in (Survives.NONE, Survives.ONE_SPOILT), case.text[:300]
    captions = list(CAPTIONS)
    if case.written is not None:
        captions[case.written[0]] = case.written[1]
    assert read == RefinedCaptions(tuple(captions), TRANSLATIONS if brief.second_language else ())


def test_mutated_answers_are_parsed_or_rejected_with_the_answer(subtests: pytest.Subtests) -> None:
    check(cases_of(55), subtests)


@pytest.mark.soak
def test_500_mutated_answers(subtests: pytest.Subtests) -> None:
    cases = cases_of(250)
    assert min(Counter(name for _, name, _ in cases).values()) >= 4
    assert Counter(case.survives for _, _, case in cases)[Survives.ALL] >= 85
    check(cases, subtests)
