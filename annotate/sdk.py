"""Label Studio's SDK, imported when it is needed; it warns of pydantic 1's words in itself."""

import warnings
from typing import Any

from pydantic import SecretStr
from pydantic.warnings import PydanticDeprecatedSince20


def new_client(url: str, token: SecretStr, http_client: Any) -> Any:
    """A client for the Label Studio at `url`.

    The SDK would read the token from the environment as it stood at import: it is always given.
    """
    with _quietly():
        from label_studio_sdk import LabelStudio

        return LabelStudio(  # type: ignore[no-untyped-call]
            base_url=url, api_key=token.get_secret_value(), httpx_client=http_client
        )


def parse_config(config: str) -> Any:
    """A labelling configuration as the SDK's `LabelInterface`, which validates what goes in."""
    with _quietly():
        from label_studio_sdk.label_interface.interface import LabelInterface

        interface: Any = LabelInterface(config)
    interface.validate()
    return interface


def _quietly() -> warnings.catch_warnings:
    return warnings.catch_warnings(action="ignore", category=PydanticDeprecatedSince20)
