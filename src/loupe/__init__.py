"""Loupe: builds fine-grained image-text retrieval datasets that can be trusted.

The names below are the public API (docs/python.md); what they need is imported when they are used.
The packages lie at the top of the repository and are linked here, so that everything is imported as
`loupe.…` and no name collides with anybody's `models`, `db` or `prompts`.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_MODULES = {
    "images": "loupe.api.images",
    "steps": "loupe.api.steps",
    "testing": "loupe.testing",
}
_PLACES = {
    "loupe.api.llm": ("llm_step",),
    "loupe.api.models": ("ChatModel", "Detector", "Embedder", "PoseModel"),
    "loupe.api.plugging": ("Format", "Page"),
    "loupe.api.pairs": ("SimilarPair",),
    "loupe.api.pipeline": ("Pipeline", "gate", "release", "source"),
    "loupe.api.reading": ("open_release", "open_store"),
    "loupe.api.similarity": ("similar",),
    "loupe.api.steps": ("check", "describe", "near_duplicates"),
    "loupe.api.records": ("Record",),
    "loupe.api.step": ("filter", "step"),
    "loupe.api.values": ("Box", "Caption", "Crop", "Image", "Rejection", "UnansweredError"),
    "loupe.schemas.errors": ("LoupeError", "UsageError"),
    "loupe.schemas.proposals": ("Candidate", "Strategy", "Tracklet"),
    "loupe.schemas.records": ("Rewrite",),
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


class _ReleasePackage(ModuleType):
    """The package `loupe.release`, which is also the function that ends a pipeline."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the release of a pipeline; see `loupe.api.pipeline.release`."""
        return __getattr__("release")(*args, **kwargs)


class _Namespace(ModuleType):
    """The module `loupe`; both its package and its function `release` have that name."""

    @property
    def release(self) -> Any:
        """The function, or the package once it is imported, which can be called as well."""
        return self.__dict__.get("release") or __getattr__("release")

    @release.setter
    def release(self, package: ModuleType) -> None:
        """Take the package, which the import system sets here."""
        package.__class__ = _ReleasePackage
        self.__dict__["release"] = package


sys.modules[__name__].__class__ = _Namespace
