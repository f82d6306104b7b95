"""Completions of the counting server as a multimodal captioning model."""

import base64
import io
import re
from itertools import islice
from typing import Any

from PIL import Image

from loupe.demo.stills.captioner import ColourTeller, StillsCaptioner
from loupe.demo.stills.scene import read_scene
from loupe.schemas.chat import ChatAnswer, ChatImage, ChatRequest
from loupe.schemas.profile import BuiltinCaptioner
from loupe.schemas.requests import (
    CAPTION_PURPOSE,
    CONFUSION_PURPOSE,
    REVISION_PURPOSE,
    CaptionBrief,
    ConfusionBrief,
)
from tests.servers.counting_server import completion_of, prompt_text

_MODEL = StillsCaptioner(BuiltinCaptioner())


def caption_completion(request: dict[str, Any]) -> dict[str, Any]:
    """Return the built-in captioner's completion for the image and brief of a request."""
    prompt = prompt_text(request)
    found = re.search(r"<brief>\n(.*?)\n</brief>", prompt, re.DOTALL)
    assert found is not None, prompt
    brief = found[1]
    chat_request = ChatRequest(
        purpose=_purpose(brief),
        prompt=prompt,
        prompt_digest="",
        subject=brief,
        images=(_image(request),),
        answer_schema=None,
    )
    ((_, outcome),) = _MODEL.answer([chat_request])
    return completion_of(request, outcome.text if isinstance(outcome, ChatAnswer) else "{}")


def colour_completion(request: dict[str, Any]) -> dict[str, Any]:
    """Like `caption_completion`, for a photograph; its colours serve as the known facts."""
    prompt = prompt_text(request)
    found = re.search(r"<brief>\n(.*?)\n</brief>", prompt, re.DOTALL)
    assert found is not None, prompt
    form = ConfusionBrief if _purpose(found[1]) == CONFUSION_PURPOSE else CaptionBrief
    brief = form.parse(found[1])
    with Image.open(io.BytesIO(_image(request).data)) as picture:
        (sentence,) = islice(ColourTeller(picture.convert("RGB")).captions(5), 1)
    colours = (
        sentence.removeprefix("A picture that is ").rstrip(".").replace(" and ", ", ").split(", ")
    )
    known = brief.model_copy(update={"facts": tuple(f"it is {colour}" for colour in colours)})
    chat_request = ChatRequest(
        purpose=_purpose(found[1]),
        prompt=prompt,
        prompt_digest="",
        subject=known.text(),
        images=(_image(request),),
    )
    ((_, outcome),) = _MODEL.answer([chat_request])
    return completion_of(request, outcome.text if isinstance(outcome, ChatAnswer) else "{}")


def seen_completion(request: dict[str, Any]) -> dict[str, Any]:
    """Return `caption_completion` for drawn stills, `colour_completion` for photographs."""
    with Image.open(io.BytesIO(_image(request).data)) as picture:
        is_drawn = read_scene(picture.convert("RGB")) is not None
    return caption_completion(request) if is_drawn else colour_completion(request)


def _purpose(brief: str) -> str:
    lines = {line.partition(": ")[0] for line in brief.splitlines()}
    if "Caption to confuse with" in lines:
        return CONFUSION_PURPOSE
    return REVISION_PURPOSE if "Direction" in lines else CAPTION_PURPOSE


def _image(request: dict[str, Any]) -> ChatImage:
    (url,) = (
        part["image_url"]["url"]
        for part in request["messages"][-1]["content"]
        if part["type"] == "image_url"
    )
    head, _, data = url.partition(",")
    return ChatImage(media_type=head[5:].partition(";")[0], data=base64.b64decode(data))
