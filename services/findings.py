"""What a check of this installation found, and the command that mends it."""

import importlib.util
from enum import StrEnum

from schemas.base import Record

EXTRAS = {
    "torch": ("torch", "transformers", "open_clip", "diffusers"),
    "gpu": ("vllm",),
    "s3": ("s3fs",),
}
"""The modules of each extra."""


class Verdict(StrEnum):
    """`lacking` stops the profile in force; `absent` is only needed for something else."""

    OK = "ok"
    ABSENT = "absent"
    LACKING = "lacking"


class Finding(Record):
    """What one check found; `remedy` is a command, empty where there is nothing to mend."""

    subject: str
    verdict: Verdict
    detail: str
    remedy: str = ""


def lacking(subject: str, detail: str, remedy: str) -> Finding:
    """Something that the profile in force needs is not there."""
    return Finding(subject=subject, verdict=Verdict.LACKING, detail=detail, remedy=remedy)


def absent(subject: str, detail: str, remedy: str) -> Finding:
    """Something is not there that is only needed for something else."""
    return Finding(subject=subject, verdict=Verdict.ABSENT, detail=detail, remedy=remedy)


def missing_modules(extra: str) -> list[str]:
    """The modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra] if importlib.util.find_spec(module) is None]
