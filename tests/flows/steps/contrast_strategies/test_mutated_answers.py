"""Mutated answers: each is parsed correctly, or rejected with the raw answer."""

import copy
import json
import random
from collections import Counter
from typing import Any

import pytest

from loupe.flows.ccd.strategies import read_strategies
from loupe.schemas.records import Rejection
from tests.flows.steps.contrast_strategies.proposals import BRIEF, STRATEGIES, answered, as_proposed
from tests.flows.steps.mutations import Mutated, Subject, Survives, mutated

TEXTS = ("detail", "plan", "caption", "instruction")


def subject_of(field: str, strategies: list[dict[str, Any]]) -> Subject:
    def set_text(content: dict[str, Any], position: int, value: Any, rng: random.Random) -> None:
        content["strategies"][position][field] = value

    def get_text(content: dict[str, Any], position: int) -> str:
        return str(content["strategies"][position][field])

    return Subject({"strategies": strategies}, "strategies", set_text, get_text)


def missing_key(subject: Subject, rng: random.Random) -> Mutated:
    content, position = copy.deepcopy(subject.content), rng.randrange(4)
    del content["strategies"][position][rng.choice((*TEXTS, "type"))]
    return Mutated(as_text(content), Survives.ONE_SPOILT, position)


def extra_key(subject: Subject, rng: random.Random) -> Mutated:
    content, position = copy.deepcopy(subject.content), rng.randrange(4)
    content["strategies"][position][rng.choice(("why", "Type", "detail "))] = "because"
    return Mutated(as_text(content), Survives.ALL)


def key_twice(subject: Subject, rng: random.Random) -> Mutated:
    text = as_text(subject.content)
    return Mutated(text.replace('"plan": ', '"plan": "Nothing.", "plan": ', 1), Survives.NONE)


def not_an_object(subject: Subject, rng: random.Random) -> Mutated:
    content, position = copy.deepcopy(subject.content), rng.randrange(4)
    content["strategies"][position] = rng.choice((None, 3, "a dog", ["a", "b"], [], [{}], {}))
    return Mutated(as_text(content), Survives.ONE_SPOILT, position)


def unknown_type(subject: Subject, rng: random.Random) -> Mutated:
    content, position = copy.deepcopy(subject.content), rng.randrange(4)
    kind = rng.choice(("Entity", "Colour", "Entity Type/Scene Type", "", "1", "Type of entity?"))
    content["strategies"][position]["type"] = rng.choice((kind, 4, None, ["Entity Type"]))
    return Mutated(as_text(content), Survives.ONE_SPOILT, position)


def type_by_another_name(subject: Subject, rng: random.Random) -> Mutated:
    content = copy.deepcopy(subject.content)
    for strategy in content["strategies"]:
        names = {
            "Event/Action Attribute": ("Event Element", "event/action  attribute"),
            "Scene Attribute": ("scene attribute", "Scene_Attribute"),
            "Entity Attribute": ("ENTITY ATTRIBUTE", "Entity-Attribute"),
            "Style & Presentation": ("Style and Presentation", "style&presentation"),
        }
        strategy["type"] = rng.choice(names[strategy["type"]])
    return Mutated(as_text(content), Survives.ALL)


def no_change(subject: Subject, rng: random.Random) -> Mutated:
    content, position = copy.deepcopy(subject.content), rng.randrange(4)
    field, text = rng.choice(
        (
            ("plan", "Change the red car into a red car."),
            ("plan", "Change the colour of the lawn from green to green."),
            ("instruction", "Replace the cat with the cat; keep all else as it is."),
            ("caption", BRIEF.caption.upper().rstrip(".")),
            ("plan", content["strategies"][position]["detail"]),
        )
    )
    content["strategies"][position][field] = text
    return Mutated(as_text(content), Survives.ONE_SPOILT, position)


def repeated_text(subject: Subject, rng: random.Random) -> Mutated:
    content = copy.deepcopy(subject.content)
    field = rng.choice(("plan", "caption"))
    text = content["strategies"][0][field]
    content["strategies"][3][field] = rng.choice((text.upper(), f" {text.rstrip('.')} !", text))
    return Mutated(as_text(content), Survives.ONE_SPOILT, 3)


def as_text(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False)


EXTRA = (
    missing_key,
    extra_key,
    key_twice,
    not_an_object,
    unknown_type,
    type_by_another_name,
    no_change,
    repeated_text,
)
SUBJECTS = [subject_of(field, STRATEGIES) for field in TEXTS]
TRUE = [as_proposed(one) for one in STRATEGIES]


def check(cases: list[tuple[str, int, Mutated]], subtests: pytest.Subtests) -> None:
    for number, (name, at, case) in enumerate(cases):
        with subtests.test(number=number, name=name):
            check_one(at, case)


def check_one(at: int, case: Mutated) -> None:
    answer = answered(case.text, truncated=case.truncated)
    read = read_strategies(answer, BRIEF)
    right = [one for place, one in enumerate(TRUE) if place != case.spoilt]
    if case.written is not None:
        place, text = case.written
        right[place] = as_proposed({**STRATEGIES[place], TEXTS[at]: text})
    if isinstance(read, Rejection):
        assert case.survives in (Survives.NONE, Survives.HIDDEN), read
        assert read.context["answer"] == answer.text
        assert read.model_dump_json()
        return
    assert case.survives is not Survives.NONE, case.text[:200]
    assert list(read.strategies) == right
    assert len(read.refused) == (case.survives is Survives.ONE_SPOILT)
    for refused in read.refused:
        assert refused.context["answer"] == answer.text
        assert refused.context["strategy"] == (case.spoilt or 0) + 1
        assert refused.model_dump_json()


def test_mutated_answers_are_parsed_or_rejected_with_the_answer(subtests: pytest.Subtests) -> None:
    check(mutated(SUBJECTS, EXTRA, 60), subtests)


@pytest.mark.soak
def test_500_mutated_answers(subtests: pytest.Subtests) -> None:
    cases = mutated(SUBJECTS, EXTRA, 500)
    assert min(Counter(name for name, _, _ in cases).values()) >= 10
    assert Counter(case.survives for _, _, case in cases)[Survives.ALL] >= 90
    check(cases, subtests)
