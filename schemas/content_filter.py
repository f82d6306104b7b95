"""Filters of the content of found and edited images: what they are given, and which there are."""

from typing import Annotated, Literal

from pydantic import Field

from loupe.schemas.chat import NamedModel, PluginModel


class ServiceFlags(NamedModel):
    """Refuses images that the search service itself flagged, such as Openverse's `mature`."""

    provider: Literal["service-flags"] = "service-flags"
    name: str = "service-flags"
    revision: str = "1"


class PluginContentFilter(PluginModel):
    """The content filter of a plugin."""


ContentFilterSpec = Annotated[ServiceFlags | PluginContentFilter, Field(discriminator="provider")]
