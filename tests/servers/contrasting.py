"""Completions of the counting server as a model that proposes and refines contrasts."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from loupe.demo.stills.contraster import StillsContraster
from loupe.schemas.chat import ChatAnswer, ChatImage, ChatRequest
from loupe.schemas.profile import BuiltinContraster
from loupe.schemas.requests import (
    CAPTIONS_FIELD,
    REFINEMENT_PURPOSE,
    STRATEGY_PURPOSE,
    TRANSLATIONS_FIELD,
    RefinementBrief,
)
from tests.servers.counting_server import Complete, completion_of, prompt_text

_MODEL = StillsContraster(BuiltinContraster())
_NUMERALS = "零一二三四五六七八九"

Spoil = Callable[[dict[str, Any], str], str]
"""Changes an answer: takes a request and its answer, and returns another answer."""


def contrast_completion(request: dict[str, Any]) -> dict[str, Any]:
    """Return the built-in contraster's completion for the images and brief of a request.

    The contraster writes only English; requested translations are artificial.
    """
    return completion_of(request, contrast_answer(request))


def spoiled(spoil: Spoil) -> Complete:
    """Return completions whose text is that of `contrast_completion`, changed by `spoil`."""

    def complete(request: dict[str, Any]) -> dict[str, Any]:
        return completion_of(request, spoil(request, contrast_answer(request)))

    return complete


def remembered(complete: Complete) -> Complete:
    """Cache completions, because a killed process repeats its requests."""
    known: dict[str, dict[str, Any]] = {}

    def completed(request: dict[str, Any]) -> dict[str, Any]:
        key = json.dumps(request, sort_keys=True)
        if key not in known:
            known[key] = complete(request)
        return known[key]

    return completed


def sometimes_cut(request: dict[str, Any], text: str) -> str:
    """Truncate a third of first answers and a fifth of answers to repeated questions."""
    share = int(hashlib.sha256(prompt_text(request).encode()).hexdigest()[:8], 16)
    return text[: len(text) // 2] if share % (5 if is_repair(request) else 3) == 0 else text


def contrast_answer(request: dict[str, Any]) -> str:
    """Return the text of that completion, or an empty object where the model refuses."""
    brief = brief_of(request)
    is_refinement = asks_for_captions(request)
    language = RefinementBrief.parse(brief).second_language if is_refinement else None
    if language is not None:
        brief = RefinementBrief.parse(brief).model_copy(update={"second_language": None}).text()
    chat_request = ChatRequest(
        purpose=REFINEMENT_PURPOSE if is_refinement else STRATEGY_PURPOSE,
        prompt=prompt_text(request),
        prompt_digest="",
        subject=brief,
        images=_images(request),
        answer_schema=None,
    )
    ((_, outcome),) = _MODEL.answer([chat_request])
    if not isinstance(outcome, ChatAnswer):
        return "{}"
    if language is None:
        return outcome.text
    captions = json.loads(outcome.text)[CAPTIONS_FIELD]
    translations = [translation(caption) for caption in captions]
    answer = {CAPTIONS_FIELD: captions, TRANSLATIONS_FIELD: translations}
    return json.dumps(answer, ensure_ascii=False)


def translation(caption: str) -> str:
    """Return a Chinese sentence that is unique for the caption."""
    number = int(hashlib.sha256(caption.encode()).hexdigest()[:6], 16)
    return f"这张图片的说明是第{''.join(_NUMERALS[int(one)] for one in str(number))}号。"


def brief_of(request: dict[str, Any]) -> str:
    """Return the brief in the prompt of a request."""
    found = re.search(r"<brief>\n(.*?)\n</brief>", prompt_text(request), re.DOTALL)
    assert found is not None, prompt_text(request)
    return found[1]


def asks_for_captions(request: dict[str, Any]) -> bool:
    """Whether the request asks for captions of a group, not for strategies."""
    return brief_of(request).startswith("Images: ")


def is_repair(request: dict[str, Any]) -> bool:
    """Whether the request repeats a question after an unusable answer."""
    return "\n<problem>\n" in prompt_text(request)


def _images(request: dict[str, Any]) -> tuple[ChatImage, ...]:
    urls = (
        part["image_url"]["url"]
        for part in request["messages"][-1]["content"]
        if part["type"] == "image_url"
    )
    return tuple(map(_image, urls))


def _image(url: str) -> ChatImage:
    head, _, data = url.partition(",")
    return ChatImage(media_type=head[5:].partition(";")[0], data=base64.b64decode(data))
