"""Which embedders chose and validated the content of a release, for manifest and card."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from schemas.release import EmbedderPurpose, Manifest

_PURPOSES: dict[EmbedderPurpose, str] = {
    "validated_captions": "captions validated by how well they distinguish their image from others",
    "similar_images": "images selected for their similarity to an existing image",
    "confusing_captions": "captions compared with both images of a pair",
    "candidates": "candidates without captions: neighbours of images with captions",
}
_WORDS = {"k": "k", "eta": "η", "near_duplicates": "near-duplicates"}


class EmbedderLine(NamedTuple):
    """An embedder, what it decided of how many rows or captions, and with which settings."""

    embedder: str
    what: str
    total: int
    settings: str


def embedder_table(manifest: Manifest) -> list[EmbedderLine]:
    """A line for each; empty where no embedder decided anything."""
    return [
        EmbedderLine(one.embedder, _PURPOSES[one.purpose], one.count, _in_words(one.settings))
        for one in manifest.embedders
    ]


def _in_words(settings: Mapping[str, Any]) -> str:
    """Settings in a line; a table in them in parentheses."""
    details = []
    for name, value in settings.items():
        word = _WORDS.get(name, name.replace("_", " "))
        if isinstance(value, dict):
            details.append(f"{word} ({_in_words(value)})")
        else:
            details.append(f"{word} {value:.4g}" if isinstance(value, float) else f"{word} {value}")
    return ", ".join(details)
