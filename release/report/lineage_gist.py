"""What is told of an entity in the drawing of a row's lineage: a few words of what it holds."""

import json
from typing import Any

from db.lineage import TracedEntity
from release.lineage_words import told_fields

GIST_CHARACTERS = 160

_FIELDS = {
    "source": ("name", "licence"),
    "image": ("file_path", "contrast.difference"),
    "caption": ("text",),
    "rewrite": ("text",),
    "prompt": ("prompt_id", "version"),
    "sample": ("identities_drawn", "images_drawn", "seed"),
    "settings": ("stage", "version"),
    "strategy": ("difference", "detail", "plan"),
    "strategy_draft": ("strategy.difference", "strategy.plan"),
    "image_order": ("way",),
    "edited_picture": ("model", "instruction"),
    "found_hit": ("engine", "hit.image_url"),
    "found_picture": ("attribution.creator", "attribution.source_url"),
    "candidate": ("origin.way", "difference", "plan"),
    "contrast_group": ("image_ids",),
    "caption_group": ("members",),
    "video": ("file_path",),
    "track": ("video", "number"),
    "tracklet": ("video", "track"),
    "identity": ("name",),
    "faithfulness": ("verdict",),
}
_FALLBACK = 3


def gist_of(entity: TracedEntity) -> str:
    """What a person wants to see of what an entity holds, on one line."""
    payload: Any = json.loads(entity.payload)
    if not isinstance(payload, dict):
        return ""
    fields = _FIELDS.get(entity.kind) or tuple(sorted(payload))[:_FALLBACK]
    shown = told_fields(payload, fields, 4 * GIST_CHARACTERS)
    return shown if len(shown) <= GIST_CHARACTERS else f"{shown[: GIST_CHARACTERS - 1]}…"
