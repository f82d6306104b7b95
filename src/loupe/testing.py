"""`loupe.testing`: what models of one's own are written with, and chance that repeats.

The models of the demonstration are written with these names, and those of a plugin can be, too.
"""

from loupe.models.adapter import Adapter, BuiltinChatModel, picture_of
from loupe.models.image_editor import edited_picture
from loupe.schemas.chat import ChatRequest
from loupe.schemas.decoders import as_rgb, plain_picture
from loupe.schemas.errors import ConfigurationError, FormatError
from loupe.sources.chance import Chance

__all__ = [
    "Adapter",
    "BuiltinChatModel",
    "Chance",
    "ChatRequest",
    "ConfigurationError",
    "FormatError",
    "as_rgb",
    "edited_picture",
    "picture_of",
    "plain_picture",
]
