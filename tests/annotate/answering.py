"""Annotations as Label Studio's page creates them, and the SDK for sending them."""

import warnings
from typing import Any

from pydantic import SecretStr
from pydantic.warnings import PydanticDeprecatedSince20

Regions = list[dict[str, Any]]


def new_sdk(url: str, token: SecretStr, http_client: Any) -> Any:
    """Return Label Studio's SDK client; without a token it would read one from the environment."""
    with warnings.catch_warnings(action="ignore", category=PydanticDeprecatedSince20):
        from label_studio_sdk import LabelStudio

        return LabelStudio(base_url=url, api_key=token.get_secret_value(), httpx_client=http_client)


def accepting(text: str) -> Regions:
    return [_text(text), _choice("verdict", "accept")]


def editing(text: str) -> Regions:
    return [_text(text), _choice("verdict", "edit")]


def rejecting(text: str, reason: str | None = "not in the image", note: str = "") -> Regions:
    regions = [_text(text), _choice("verdict", "reject")]
    if reason is not None:
        regions.append(_choice("reason", reason))
    if note:
        regions.append({**_text(note), "from_name": "note"})
    return regions


def about(target: str, regions: Regions) -> Regions:
    """Return the same regions for a page that uses another name for the text."""
    return [{**region, "to_name": target} for region in regions]


def _text(text: str) -> dict[str, Any]:
    return {
        "from_name": "text",
        "to_name": "rewrite",
        "type": "textarea",
        "value": {"text": [text]},
    }


def _choice(control: str, value: str) -> dict[str, Any]:
    return {
        "from_name": control,
        "to_name": "rewrite",
        "type": "choices",
        "value": {"choices": [value]},
    }
