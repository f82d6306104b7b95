"""Loupe: builds fine-grained image-text retrieval datasets that can be trusted.

The names below are the public API (docs/python.md); what they need is imported when they are used.
The packages lie at the top of the repository and are linked here, so that everything is imported as
`loupe.…` and no name collides with anybody's `models`, `db` or `prompts`.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loupe.api import images as images
    from loupe.api import ready as steps
    from loupe.api.llm import llm_step
    from loupe.api.models import ChatModel, Detector, Embedder, PoseModel, UnansweredError
    from loupe.api.pages import Page
    from loupe.api.pipeline import Pipeline, gate, release, source
    from loupe.api.reading import open_release, open_store
    from loupe.api.ready import check, describe, near_duplicates
    from loupe.api.records import Record
    from loupe.api.steps import filter, step  # noqa: A004 - the word of the field
    from loupe.api.values import Box, Caption, Crop, Image, Rejection
    from loupe.schemas.errors import LoupeError, UsageError
    from loupe.sources.annotations import Importer as Format
    from loupe.sources.records import BadRow, ReadOptions, SourceRow

__all__ = [
    "BadRow",
    "Box",
    "Caption",
    "ChatModel",
    "Crop",
    "Detector",
    "Embedder",
    "Format",
    "Image",
    "LoupeError",
    "Page",
    "Pipeline",
    "PoseModel",
    "ReadOptions",
    "Record",
    "Rejection",
    "SourceRow",
    "UnansweredError",
    "UsageError",
    "check",
    "describe",
    "filter",
    "gate",
    "images",
    "llm_step",
    "near_duplicates",
    "open_release",
    "open_store",
    "release",
    "source",
    "step",
    "steps",
]

_MODULES = {"images": "loupe.api.images", "steps": "loupe.api.ready"}
_PLACES = {
    "loupe.api.llm": ("llm_step",),
    "loupe.api.models": ("ChatModel", "Detector", "Embedder", "PoseModel", "UnansweredError"),
    "loupe.api.pages": ("Page",),
    "loupe.api.pipeline": ("Pipeline", "gate", "release", "source"),
    "loupe.api.reading": ("open_release", "open_store"),
    "loupe.api.ready": ("check", "describe", "near_duplicates"),
    "loupe.api.records": ("Record",),
    "loupe.api.steps": ("filter", "step"),
    "loupe.api.values": ("Box", "Caption", "Crop", "Image", "Rejection"),
    "loupe.schemas.errors": ("LoupeError", "UsageError"),
    "loupe.sources.records": ("BadRow", "ReadOptions", "SourceRow"),
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name == "Format":
        return import_module("loupe.sources.annotations").Importer
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'loupe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


class _Namespace(ModuleType):
    """The module `loupe`, in which `release` is the function, and not the package of that name."""

    @property
    def release(self) -> Any:
        """Return the function that ends a pipeline."""
        return __getattr__("release")

    @release.setter
    def release(self, package: ModuleType) -> None:
        """Ignore the package, which the import system sets here when it is first imported."""


sys.modules[__name__].__class__ = _Namespace
