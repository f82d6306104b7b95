"""The list of models that an OpenAI-compatible server serves."""

from collections.abc import Mapping
from typing import Any

import httpx

from loupe.models.tls import trusted_authorities
from loupe.schemas.chat import ServedModel
from loupe.schemas.profile import OpenAIChat

_TIMEOUT_SECONDS = 5.0
_LONGEST = 500  # characters of a value
_COUNTS = range(2**53)


def list_models(spec: OpenAIChat, key: str | None) -> httpx.Response:
    """The server's answer to a request for its models.

    Raises:
        httpx.HTTPError: it does not answer.
    """
    headers = dict(spec.headers)
    if key and spec.api_key_header:
        headers[spec.api_key_header] = key
    elif key:
        headers["Authorization"] = f"Bearer {key}"
    return httpx.get(
        f"{spec.base_url.rstrip('/')}/models",
        headers=headers,
        params=spec.query,
        timeout=_TIMEOUT_SECONDS,
        verify=trusted_authorities(),
        trust_env=spec.may_use_proxy,
    )


def listed_models(answer: httpx.Response) -> dict[str, Mapping[str, Any]]:
    """The listed models by id; empty if the answer is no list of models."""
    try:
        return {str(one["id"]): dict(one) for one in answer.json()["data"]}
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}


def listed_model(spec: OpenAIChat, listed: Mapping[str, Mapping[str, Any]]) -> ServedModel | None:
    """The entry of the model of `spec`, whose tag (`name:tag`) may be missing in the list.

    Values of a wrong type are left out.
    """
    name = spec.name if spec.name in listed else spec.name.partition(":")[0]
    if name not in listed:
        return None
    entry = listed[name]
    usable: dict[str, Any] = {}
    for key in ("root", "owned_by"):
        text = entry.get(key)
        if isinstance(text, str):
            usable[key] = text[:_LONGEST]
    for key in ("max_model_len", "created"):
        number = entry.get(key)
        if type(number) is int and number in _COUNTS:
            usable[key] = number
    return ServedModel(id=name, **usable)
