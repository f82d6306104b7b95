"""Loupe: builds fine-grained image-text retrieval datasets that can be trusted.

The names below are the public API (docs/python.md); what they need is imported when they are used.
The packages lie at the top of the repository and are linked here, so that everything is imported as
`loupe.…` and no name collides with anybody's `models`, `db` or `prompts`.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_MODULES = {"images": "loupe.api.images", "steps": "loupe.api.steps"}
_PLACES = {
    "loupe.api.llm": ("llm_step",),
    "loupe.api.models": ("ChatModel", "Detector", "Embedder", "PoseModel"),
    "loupe.api.plugging": ("Format", "Page"),
    "loupe.api.pipeline": ("Pipeline", "gate", "release", "source"),
    "loupe.api.reading": ("open_release", "open_store"),
    "loupe.api.steps": ("check", "describe", "near_duplicates"),
    "loupe.api.records": ("Record",),
    "loupe.api.step": ("filter", "step"),
    "loupe.api.values": ("Box", "Caption", "Crop", "Image", "Rejection", "UnansweredError"),
    "loupe.schemas.errors": ("LoupeError", "UsageError"),
    "loupe.sources.records": ("BadRow", "ReadOptions", "SourceRow"),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}
__all__ = sorted((*_MODULE_OF, *_MODULES))


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
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
