"""The built-in captioner: true captions, levels of detail, and confusing captions."""

import io
import json
from collections import Counter, defaultdict
from functools import cache
from itertools import product

from PIL import Image

from loupe.demo.stills.captioner import StillTeller, confused
from loupe.demo.stills.drawing import draw_still
from loupe.demo.stills.text import Content, Group, content_of, is_true
from loupe.demo.worlds.stills import (
    StillTruth,
    jpeg_of,
    plan_stills,
)
from loupe.flows.recos.confusion_checks import word_change
from loupe.models.registry import build_chat_model
from loupe.schemas.chat import ChatAnswer, ChatFailure, ChatImage, ChatOutcome, ChatRequest
from loupe.schemas.profile import BuiltinCaptioner
from loupe.schemas.requests import (
    CAPTION_PURPOSE,
    CONFUSION_PURPOSE,
    REVISION_PURPOSE,
    CaptionBrief,
    ConfusionBrief,
    Direction,
)
from loupe.schemas.taxonomy import RetrievalTask

SEED, COUNT = 321, 24


@cache
def stills() -> tuple[tuple[ChatImage, StillTruth], ...]:
    return tuple(
        (ChatImage(media_type="image/jpeg", data=jpeg_of(draw_still(truth.scene))), truth)
        for truth in plan_stills(SEED, COUNT)
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


def captions_in(outcome: ChatOutcome) -> list[str]:
    assert isinstance(outcome, ChatAnswer), outcome
    answer = json.loads(outcome.text)
    return list(answer["captions"]) if "captions" in answer else [answer["caption"]]


def test_five_different_captions_are_true_of_the_drawing() -> None:
    all_captions = set()
    for image, truth in stills():
        captions = captions_in(ask(CAPTION_PURPOSE, CaptionBrief(task=truth.task), image))
        assert len(set(captions)) == 5
        assert all(is_true(caption, content_of(truth.scene)) for caption in captions)
        all_captions.add(tuple(captions))
    image, truth = stills()[3]
    again = [
        captions_in(ask(CAPTION_PURPOSE, CaptionBrief(task=truth.task), image)) for _ in range(2)
    ]
    assert again[0] == again[1]
    assert len(all_captions) >= 0.95 * COUNT


def test_a_revision_changes_detail_as_requested_without_repetition() -> None:
    asked = Counter[Direction]()
    for direction, (image, truth) in product(Direction, stills()[:12]):
        teller = StillTeller(content_of(truth.scene), truth.task)
        brief = CaptionBrief(task=truth.task)
        caption = captions_in(ask(CAPTION_PURPOSE, brief, image, details=3))[0]
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
            if isinstance(outcome, ChatFailure):  # no more details to change
                break
            [new] = captions_in(outcome)
            assert new not in (caption, *tried)
            before, after = teller.size_of(caption), teller.size_of(new)
            assert after <= before if less else after >= before
            tried, caption = (*tried, caption), new
            asked[direction] += 1
    assert min(asked[direction] for direction in Direction) > 12


def test_further_captions_are_new_and_have_other_detail_than_those_that_failed() -> None:
    for image, truth in stills()[:8]:
        first = captions_in(ask(CAPTION_PURPOSE, CaptionBrief(task=truth.task), image))
        brief = CaptionBrief(
            task=truth.task, count=2, too_detailed=tuple(first[:2]), taken=tuple(first[2:])
        )
        further = captions_in(ask(CAPTION_PURPOSE, brief, image))
        assert len(further) == 2
        assert not set(further) & set(first)
        assert all(is_true(caption, content_of(truth.scene)) for caption in further)
        teller = StillTeller(content_of(truth.scene), truth.task)
        least = min(map(teller.size_of, first[:2]))
        assert min(map(teller.size_of, further)) < max(2, least)


def test_a_confusing_caption_is_true_of_its_image_with_few_changed_words() -> None:
    families: dict[int, list[tuple[ChatImage, StillTruth]]] = defaultdict(list)
    for image, truth in stills():
        families[truth.family].append((image, truth))
    wrong_before, shares = [], []
    for (_, first), *variants in families.values():
        for image, variant in variants:
            caption = first.captions[0]
            brief = ConfusionBrief(task=first.task, caption=caption)
            [text] = captions_in(ask(CONFUSION_PURPOSE, brief, image))
            assert is_true(text, content_of(variant.scene))
            wrong_before.append(not is_true(text, content_of(first.scene)))
            shares.append(word_change(caption, text).share)
    assert all(wrong_before)
    assert sum(shares) / len(shares) < 0.25


def test_a_caption_that_is_already_true_is_confused_by_an_added_detail() -> None:
    content = Content((Group("dog", "black", 1),), place="desert")
    assert confused("A dog in a desert.", content) == "A black dog in a desert."
    assert confused("A black dog in a desert.", content) is None


def test_unsupported_requests_are_refused() -> None:
    broken = ChatImage(media_type="image/jpeg", data=b"\xff\xd8 no picture")
    color = CaptionBrief(task=RetrievalTask.COLOR)
    for outcome, detail in (
        (ask(CAPTION_PURPOSE, "Task: color\nCaptions: 5"), "neither facts nor an image"),
        (ask("rewrite", "Task: color"), "got a request for 'rewrite'"),
        (ask(CAPTION_PURPOSE, color, broken), "cannot be read"),
    ):
        assert isinstance(outcome, ChatFailure)
        assert (outcome.reason, outcome.retriable) == ("cannot_answer", False)
        assert detail in outcome.detail


def test_photographs_are_refused_with_a_remedy() -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (90, 60), (44, 94, 190)).save(buffer, "PNG")
    image = ChatImage(media_type="image/png", data=buffer.getvalue())
    outcome = ask(CAPTION_PURPOSE, CaptionBrief(task=RetrievalTask.COLOR), image)
    assert isinstance(outcome, ChatFailure)
    assert outcome.detail.endswith("choose a profile with a vision model, such as --profile hosted")
