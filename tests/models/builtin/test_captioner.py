"""The built-in captioner says what is true, as detailed as wanted, and near when it confuses."""

import io
import json
import re
from collections import defaultdict
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from flows.recos.confusion_checks import word_change
from models.builtin.captioner import FactTeller, StillTeller, confused, is_true
from models.builtin.stills.reading import Content, Group, content_of_text, read_still_text
from models.registry import build_chat_model
from schemas.chat import ChatAnswer, ChatFailure, ChatImage, ChatOutcome, ChatRequest
from schemas.profile import BuiltinCaptioner
from schemas.requests import (
    CAPTION_PURPOSE,
    CONFUSION_PURPOSE,
    REVISION_PURPOSE,
    CaptionBrief,
    ConfusionBrief,
    Direction,
)
from schemas.retrieval_task import RetrievalTask
from sources.demonstration.people import Chance
from sources.demonstration.stills import StillTruth
from sources.demonstration.stills.composing import TASKS, Scene, compose
from sources.demonstration.stills.writing import draw_still, jpeg_of, plan_stills

SEED, COUNT = 321, 40
FACTS = (
    "the sum 3 + 4 is written in black on a whiteboard",
    "the result is 7",
    "the first number is 3",
    "the text is printed in letters with serifs",
)
OTHER_FACTS = (
    "the sum 13 + 4 is written in white on a blackboard",
    "the result is 17",
    "the first number is 13",
    "the text is printed in letters without serifs",
)


@cache
def stills() -> tuple[tuple[ChatImage, StillTruth], ...]:
    drawn = (draw_still(still, SEED) for still in plan_stills(SEED, COUNT))
    return tuple(
        (ChatImage(media_type="image/jpeg", data=jpeg_of(picture)), truth)
        for picture, truth in drawn
    )


def ask(
    purpose: str,
    brief: CaptionBrief | ConfusionBrief | str,
    *images: ChatImage,
    details: int = 4,
) -> ChatOutcome:
    request = ChatRequest(
        purpose=purpose,
        prompt="",
        prompt_digest="",
        subject=brief if isinstance(brief, str) else brief.text(),
        images=images,
    )
    [(position, outcome)] = build_chat_model(BuiltinCaptioner(details=details)).answer([request])
    assert position == 0
    return outcome


def said(outcome: ChatOutcome) -> list[str]:
    assert isinstance(outcome, ChatAnswer), outcome
    answer = json.loads(outcome.text)
    return list(answer["captions"]) if "captions" in answer else [answer["caption"]]


def content_of_scene(scene: Scene) -> Content:
    """What is drawn, by the truth; relations left out but for the one that is meant."""
    groups = [Group(g.kind, g.colour, g.count, g.size.value) for g in scene.groups]
    if scene.figure:
        groups.append(Group("person", None, 1))
    if scene.sign:
        groups.append(Group("sign", None, 1))
    figure = scene.figure
    clothes = (
        (("shirt", figure.shirt), ("trousers", figure.trousers), ("hat", figure.hat or ""))
        if figure
        else ()
    )
    return Content(
        tuple(groups),
        tuple(pair for pair in clothes if pair[1]),
        figure.action.value if figure else None,
        scene.place.value,
        scene.style.value,
        (),
        scene.sign,
    )


def true_of(text: str, scene: Scene) -> bool:
    content = content_of_text(read_still_text(text))
    if scene.relation is None:
        content = content._replace(relations=())
    kinds = {group.kind: group.count for group in scene.groups}
    kinds |= {"person": 1} if scene.figure else {}
    kinds |= {"sign": 1} if scene.sign else {}
    colours = {(group.kind, group.colour) for group in scene.groups}
    figure = scene.figure
    worn = (
        {("shirt", figure.shirt), ("trousers", figure.trousers), ("hat", figure.hat)}
        if figure
        else set()
    )
    return (
        all(group.kind in kinds for group in content.groups)
        and all(g.number in (None, kinds[g.kind]) for g in content.groups)
        and all((g.kind, g.colour) in colours for g in content.groups if g.colour)
        and set(content.clothes) <= worn
        and content.action in (None, figure.action.value if figure else None)
        and content.place in (None, scene.place.value)
        and content.style in (None, scene.style.value)
        and content.word in (None, scene.sign)
    )


def test_five_different_captions_that_are_true_of_what_is_drawn() -> None:
    right, all_captions = 0, set()
    for image, truth in stills():
        captions = said(ask(CAPTION_PURPOSE, CaptionBrief(task=truth.task), image))
        assert len(set(captions)) == 5
        right += sum(true_of(caption, truth.scene) for caption in captions)
        all_captions.add(tuple(captions))
    assert right >= 0.97 * 5 * COUNT
    assert len(all_captions) >= 0.95 * COUNT


def test_the_same_request_gives_the_same_answer() -> None:
    image, truth = stills()[3]
    brief = CaptionBrief(task=truth.task)
    assert said(ask(CAPTION_PURPOSE, brief, image)) == said(ask(CAPTION_PURPOSE, brief, image))


def test_more_details_make_longer_captions() -> None:
    image, truth = stills()[0]
    lengths = [
        sum(map(len, said(ask(CAPTION_PURPOSE, CaptionBrief(task=truth.task), image, details=d))))
        for d in (1, 3, 5)
    ]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[2]


@pytest.mark.parametrize("direction", Direction)
def test_a_revision_goes_in_the_wanted_direction_and_repeats_nothing(direction: Direction) -> None:
    asked = 0
    for image, truth in stills()[:12]:
        teller = StillTeller(content_of_scene(truth.scene), truth.task)
        brief = CaptionBrief(task=truth.task)
        caption = said(ask(CAPTION_PURPOSE, brief, image, details=3))[0]
        tried: tuple[str, ...] = ()
        for _ in range(2):
            less = direction is Direction.LESS_DETAIL
            revision = CaptionBrief(
                task=truth.task,
                count=1,
                caption=caption,
                direction=direction,
                too_detailed=tried if less else (),
                too_general=() if less else tried,
            )
            outcome = ask(REVISION_PURPOSE, revision, image)
            if isinstance(outcome, ChatFailure):  # nothing more to say
                break
            [new] = said(outcome)
            assert new not in (caption, *tried)
            before, after = teller.size_of(caption), teller.size_of(new)
            assert after <= before if less else after >= before
            tried, caption = (*tried, caption), new
            asked += 1
    assert asked > 12


def test_between_bounds_a_revision_goes_halfway() -> None:
    facts = FactTeller([f"fact number {n} holds" for n in "abcdefgh"])
    [long] = [next(facts.captions(8))]
    [short] = [next(facts.captions(2))]
    brief = CaptionBrief(
        task=RetrievalTask.CALCULATION,
        count=1,
        facts=tuple(f"fact number {n} holds" for n in "abcdefgh"),
        caption=long,
        direction=Direction.LESS_DETAIL,
        too_general=(short,),
    )
    [new] = said(ask(REVISION_PURPOSE, brief))
    assert facts.size_of(new) == 5


def test_a_confusing_caption_is_true_of_its_image_and_near_in_words() -> None:
    families: dict[int, list[tuple[ChatImage, StillTruth]]] = defaultdict(list)
    for image, truth in stills():
        families[truth.family].append((image, truth))
    true, wrong_before, shares = [], [], []
    for (_, first), *variants in families.values():
        for image, variant in variants:
            caption = first.captions[0]
            brief = ConfusionBrief(task=first.task, caption=caption)
            [text] = said(ask(CONFUSION_PURPOSE, brief, image))
            true.append(true_of(text, variant.scene))
            wrong_before.append(not true_of(text, first.scene))
            shares.append(word_change(caption, text).share)
    assert sum(true) >= 0.9 * len(true)
    assert sum(wrong_before) >= 0.8 * len(true)  # relations are not judged
    assert sum(shares) / len(shares) < 0.25


def test_words_are_exchanged_with_their_grammar(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, Content, str]] = [
        (
            "There is a red ball in a park.",
            Content((Group("ball", "orange", 3),), (), None, "beach", None, (), None),
            "There are three orange balls on a beach.",
        ),
        (
            "An orange cat to the left of a box.",
            Content(
                (Group("cat", "orange", 1), Group("box", "red", 1)),
                (), None, None, None, (("box", "left", "cat"),), None,
            ),
            "An orange cat to the right of a box.",
        ),
        (
            'A sign that says "OPEN" and a person in a red shirt who is running.',
            Content(
                (Group("sign", None, 1), Group("person", None, 1)),
                (("shirt", "blue"),), "sitting", None, None, (), "EXIT",
            ),
            'A sign that says "EXIT" and a person in a blue shirt who is sitting.',
        ),
        (
            "A dog in the snow.",
            Content((Group("dog", "black", 1),), (), None, "snow", None, (), None),
            "A black dog in the snow.",
        ),
    ]  # fmt: skip
    for caption, content, wanted in cases:
        with subtests.test(caption=caption, content=content, wanted=wanted):
            assert confused(caption, content) == wanted
            assert is_true(wanted, content)


def test_facts_make_captions_and_confusions() -> None:
    brief = CaptionBrief(task=RetrievalTask.CALCULATION, facts=FACTS)
    captions = said(ask(CAPTION_PURPOSE, brief))
    assert len(set(captions)) == 5
    for caption in captions:
        assert any(fact in caption.casefold() for fact in FACTS)
        assert re.fullmatch(r"[A-Z].*\.", caption)
    confusion = ConfusionBrief(
        task=RetrievalTask.CALCULATION, caption=captions[0], facts=OTHER_FACTS
    )
    [text] = said(ask(CONFUSION_PURPOSE, confusion))
    assert "13 + 4" in text
    assert word_change(captions[0], text).share < 0.4


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(TASKS), st.integers(1, 8))
def test_every_caption_of_a_still_is_true_and_reads_as_it_was_meant(
    seed: int, task: RetrievalTask, size: int
) -> None:
    scene = compose(Chance(seed), task)
    teller = StillTeller(content_of_scene(scene), task)
    texts = list(teller.captions(size))
    assert texts
    for text in texts[:12]:
        assert true_of(text, scene)
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]|  ", text)


@pytest.mark.parametrize(
    ("purpose", "subject", "detail"),
    [
        (CAPTION_PURPOSE, "nonsense", "cannot read 'nonsense'"),
        (CAPTION_PURPOSE, "Task: color\nCaptions: 5", "neither facts nor an image"),
        ("rewrite", "Task: color", "got a request for 'rewrite'"),
    ],
)
def test_what_it_cannot_do_is_refused(purpose: str, subject: str, detail: str) -> None:
    outcome = ask(purpose, subject)
    assert isinstance(outcome, ChatFailure)
    assert (outcome.reason, outcome.retriable) == ("refused_request", False)
    assert detail in outcome.detail


@pytest.mark.parametrize("facts", [(), ("the sign says EXIT",)])
def test_where_little_is_known_colours_make_up_for_it(facts: tuple[str, ...]) -> None:
    buffer = io.BytesIO()
    picture = Image.new("RGB", (90, 60), (44, 94, 190))
    picture.paste((48, 142, 76), (0, 40, 90, 60))
    picture.save(buffer, "PNG")
    image = ChatImage(media_type="image/png", data=buffer.getvalue())
    captions = said(ask(CAPTION_PURPOSE, CaptionBrief(task=RetrievalTask.OCR, facts=facts), image))
    assert len(set(captions)) == 5
    assert any("blue at the top" in caption for caption in captions)
    assert any("green at the bottom" in caption for caption in captions)


def test_a_broken_image_is_refused() -> None:
    image = ChatImage(media_type="image/jpeg", data=b"\xff\xd8 no picture")
    outcome = ask(CAPTION_PURPOSE, CaptionBrief(task=RetrievalTask.COLOR), image)
    assert isinstance(outcome, ChatFailure)
    assert "cannot be read" in outcome.detail
