"""Which embedders chose and validated the content of a release, for manifest and card."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, get_args

from sqlalchemy import Connection

from db.origins import EmbedderOrigin, embedder_origins
from release.publishable import published_name, published_values
from schemas.release import EmbedderPurpose, EmbedderUse, Manifest

_PURPOSES: tuple[EmbedderPurpose, ...] = get_args(EmbedderPurpose)
_TOLD: dict[EmbedderPurpose, str] = {
    "validated_captions": "captions measured by how well they tell their image from others",
    "similar_images": "images chosen for being like an image that was there",
    "confusing_captions": "captions compared with both images of a pair",
    "candidates": "candidates without captions: neighbours of images that have some",
}
_WORDS = {"k": "k", "eta": "η", "near_duplicates": "near-duplicates"}


class EmbedderLine(NamedTuple):
    """An embedder, what it decided of how many rows or captions, and with which settings."""

    embedder: str
    what: str
    total: int
    settings: str


def embedder_uses(connection: Connection, entity_ids: Iterable[str]) -> tuple[EmbedderUse, ...]:
    """What embedders decided of these images and captions, by purpose, name and settings."""
    counted = embedder_origins(connection, entity_ids)
    uses = [_use(origin, count) for origin, count in sorted(counted.items(), key=_order)]
    return tuple(uses)


def _order(counted: tuple[EmbedderOrigin, int]) -> tuple[int, str, str]:
    origin, _ = counted
    return _PURPOSES.index(origin.purpose), origin.embedder, origin.settings


def _use(origin: EmbedderOrigin, count: int) -> EmbedderUse:
    return EmbedderUse(
        embedder=published_name(origin.embedder),
        purpose=origin.purpose,
        count=count,
        settings=published_values(json.loads(origin.settings)),
    )


def embedder_table(manifest: Manifest) -> list[EmbedderLine]:
    """A line for each; empty where no embedder decided anything."""
    return [
        EmbedderLine(one.embedder, _TOLD[one.purpose], one.count, _in_words(one.settings))
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
