"""Mutated answers: five captions are parsed verbatim, or rejected with the raw answer."""

import json
import random
from collections import Counter
from typing import Any

import pytest

from flows.recos.captioning import read_captions
from schemas.chat import ChatAnswer
from schemas.records import Rejection
from tests.flows.steps import mutations
from tests.flows.steps.mutations import Mutated, Subject, Survives, mutated

FIVE = (
    "Two brown dogs chase a cat over a green lawn.",
    "The program prints 2**3**2 and then __name__.",
    'A sign says "Danger." If you need help, call 112.',
    "A board asks for 2*3*4.",
    "A shirt that says <think> hangs on a line.",
)
EXCLUDED = (
    mutations.other_language,  # found by the check of language and grammar
    mutations.markup,  # this and the following may be content of the picture
    mutations.json_in_a_text,
    mutations.text_without_words,
    mutations.emphasis,
)


def set_text(content: dict[str, Any], position: int, value: Any, rng: random.Random) -> None:
    content["captions"][position] = value


def get_text(content: dict[str, Any], position: int) -> str:
    return str(content["captions"][position])


def same_words(subject: Subject, rng: random.Random) -> Mutated:
    captions = list(FIVE)
    one, other = rng.sample(range(5), 2)
    captions[one] = rng.choice((captions[other], f"{captions[other]}!", captions[other].upper()))
    return Mutated(json.dumps({"captions": captions}), Survives.NONE)


def wrong_count(subject: Subject, rng: random.Random) -> Mutated:
    captions = [*FIVE, "A bus."][: rng.choice((1, 4, 6))]
    return Mutated(json.dumps({"captions": captions}), Survives.NONE)


SUBJECT = Subject({"captions": list(FIVE)}, "captions", set_text, get_text)


def check(cases: list[tuple[str, int, Mutated]], subtests: pytest.Subtests) -> None:
    for number, (name, _, case) in enumerate(cases):
        with subtests.test(number=number, name=name):
            check_one(case)


def check_one(case: Mutated) -> None:
    answer = ChatAnswer(
        text=case.text, tokens_in=1, tokens_out=1, seconds=0.1, truncated=case.truncated
    )
    read = read_captions(answer)
    if isinstance(read, Rejection):
        assert case.survives not in (Survives.ALL, Survives.ALL_AS_WRITTEN), read
        assert read.context["answer"] == answer.text
        assert read.stage == "caption_image"
        assert read.model_dump_json()
        return
    assert case.survives not in (Survives.NONE, Survives.ONE_SPOILT), case.text[:300]
    captions = list(FIVE)
    if case.written is not None:
        captions[case.written[0]] = case.written[1]
    assert read == tuple(captions)


def test_mutated_answers_are_parsed_or_rejected_with_the_answer(subtests: pytest.Subtests) -> None:
    check(mutated([SUBJECT], (same_words, wrong_count), 60, EXCLUDED), subtests)


@pytest.mark.soak
def test_500_mutated_answers(subtests: pytest.Subtests) -> None:
    cases = mutated([SUBJECT], (same_words, wrong_count), 500, EXCLUDED)
    assert min(Counter(name for name, _, _ in cases).values()) >= 10
    check(cases, subtests)
