"""The protocol of content filters, which refuse found and edited images before they are stored."""

from collections.abc import Sequence
from typing import Protocol

from loupe.models.adapter import Adapter
from loupe.schemas.chat import ChatImage, ModelRef
from loupe.schemas.content_filter import ServiceFlags


class ContentFilter(Protocol):
    """Decides whether an image may be used. Safe in threads."""

    @property
    def ref(self) -> ModelRef:
        """The filter, for provenance."""
        ...

    def refusal(self, image: ChatImage, flags: Sequence[str]) -> str | None:
        """Return why an image may not be used, in a few words; None if it may.

        Args:
            image: the encoded image.
            flags: what the service that found it says of it, such as `mature`; empty for edits.
        """
        ...


class ServiceFlagsFilter(Adapter[ServiceFlags]):
    """Refuses what the search service flagged, and looks at no image."""

    def refusal(self, image: ChatImage, flags: Sequence[str]) -> str | None:  # noqa: ARG002
        """Return the flags of the service, if there are any."""
        return f"the search service flags it as {', '.join(flags)}" if flags else None
