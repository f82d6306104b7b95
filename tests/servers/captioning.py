"""What the counting server says where it stands for a multimodal model that writes captions."""

import base64
import re
from typing import Any

from models.builtin.stills.captioner import StillsCaptioner
from schemas.chat import ChatAnswer, ChatImage, ChatRequest
from schemas.profile import BuiltinCaptioner
from schemas.requests import (
    CAPTION_PURPOSE,
    CAPTION_TO_CONFUSE_WITH,
    CONFUSION_PURPOSE,
    DIRECTION,
    REVISION_PURPOSE,
)
from tests.servers.counting_server import completion_of, prompt_text

_MODEL = StillsCaptioner(BuiltinCaptioner())


def caption_completion(request: dict[str, Any]) -> dict[str, Any]:
    """What the built-in captioner says of the image and the brief in a request."""
    prompt = prompt_text(request)
    found = re.search(r"<brief>\n(.*?)\n</brief>", prompt, re.DOTALL)
    assert found is not None, prompt
    brief = found[1]
    asked = ChatRequest(
        purpose=_purpose(brief),
        prompt=prompt,
        prompt_digest="",
        subject=brief,
        images=(_image(request),),
        answer_schema=None,
    )
    ((_, outcome),) = _MODEL.answer([asked])
    return completion_of(request, outcome.text if isinstance(outcome, ChatAnswer) else "{}")


def _purpose(brief: str) -> str:
    lines = {line.partition(": ")[0] for line in brief.splitlines()}
    if CAPTION_TO_CONFUSE_WITH in lines:
        return CONFUSION_PURPOSE
    return REVISION_PURPOSE if DIRECTION in lines else CAPTION_PURPOSE


def _image(request: dict[str, Any]) -> ChatImage:
    (url,) = (
        part["image_url"]["url"]
        for part in request["messages"][-1]["content"]
        if part["type"] == "image_url"
    )
    head, _, data = url.partition(",")
    return ChatImage(media_type=head[5:].partition(";")[0], data=base64.b64decode(data))
