"""Keys of services: read from the environment, and kept out of everything that is written down."""

import os
from urllib.parse import quote

from schemas.chat import ModelRef
from schemas.errors import ConfigurationError


def read_key(variable: str, what: str, service: ModelRef) -> str:
    """What the environment variable holds.

    Raises:
        ConfigurationError: it is not set, or holds nothing.
    """
    if value := os.environ.get(variable, "").strip():
        return value
    raise ConfigurationError(
        f"{service.name} takes its {what} from the environment variable {variable}, which is not "
        f"set"
    )


def without_key(text: str, key: str) -> str:
    """`text` in which the key, should a server repeat it, is not to be read."""
    for spelling in {key, quote(key, safe="")}:
        text = text.replace(spelling, "***")
    return text
