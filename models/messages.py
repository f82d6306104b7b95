"""A request in the message format of OpenAI's chat API, which vLLM takes as well."""

from base64 import b64encode
from typing import Any

from schemas.chat import ChatRequest


def chat_messages(request: ChatRequest) -> list[dict[str, Any]]:
    """One user message: the images, if any, as data URLs before the prompt."""
    content: str | list[dict[str, Any]] = request.prompt
    if request.images:
        urls = (
            f"data:{image.media_type};base64,{b64encode(image.data).decode()}"
            for image in request.images
        )
        images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        content = [*images, {"type": "text", "text": request.prompt}]
    return [{"role": "user", "content": content}]
