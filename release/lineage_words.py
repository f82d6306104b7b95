"""What an entity of a lineage holds, in a few words: for trees, drawings and lists."""

import json
from collections.abc import Mapping
from typing import Any, Final

from schemas.errors import IntegrityError

_BARE: Final = "{}"
_DIGEST: Final = "SHA-256 {:.12}…"
_SEED: Final = "seed {}"

_TOLD: Final[Mapping[str, Mapping[str, str]]] = {
    "source": {
        "name": _BARE,
        "format": "format {}",
        "annotation_file": _BARE,
        "annotation_sha256": _DIGEST,
        "licence": _BARE,
    },
    "image": {
        "file_path": _BARE,
        "contrast.difference": _BARE,
        "contrast.plan": _BARE,
        "sha256": _DIGEST,
    },
    "caption": {"text": _BARE},
    "rewrite": {"author": "by {}", "text": _BARE},
    "prompt": {"prompt_id": _BARE, "version": "version {}", "digest": _DIGEST},
    "sample": {
        "identities_drawn": "{} identities drawn",
        "images_drawn": "{} images drawn",
        "seed": _SEED,
    },
    "faithfulness": {"verdict": _BARE},
    "settings": {
        "stage": "of {}",
        "version": "version {}",
        "values.model.name": _BARE,
        "values.model.revision": "revision {}",
    },
    "strategy": {"author": "by {}", "difference": _BARE, "detail": _BARE, "plan": _BARE},
    "strategy_draft": {
        "strategy.author": "by {}",
        "strategy.difference": _BARE,
        "strategy.plan": _BARE,
        "refusal.reason": "refused: {}",
        "refusal.detail": _BARE,
    },
    "image_order": {"way": "by {}"},
    "edited_picture": {"model": _BARE, "instruction": _BARE, "seed": _SEED},
    "found_hit": {"engine": _BARE, "hit.licence": _BARE, "hit.image_url": _BARE},
    "found_picture": {
        "attribution.licence": _BARE,
        "attribution.creator": "by {}",
        "attribution.source_url": _BARE,
    },
    "candidate": {
        "origin.way": "by {}",
        "origin.model": _BARE,
        "origin.engine": _BARE,
        "difference": _BARE,
        "plan": _BARE,
    },
    "contrast_group": {"image_ids": _BARE},
    "caption_group": {"author": "by {}", "members": _BARE, "coarse_captions": _BARE},
    "video": {"file_path": _BARE},
    "track": {"video": _BARE, "number": "track {}"},
    "tracklet": {"video": _BARE, "track": "track {}"},
    "identity": {"name": _BARE},
}
"""What is told of an entity of a kind, and in which words.

A dot in a field leads into what a field holds.
"""


def gist(kind: str, payload: str, longest: int | None = None) -> str:
    """What a person wants to see of an entity's payload (JSON), on one line.

    Each value is cut at `longest` characters. A list is told by its length, what has fields of its
    own not at all; what cannot be printed is replaced. Of a kind without words of its own, all
    values are told with their names; of a payload without fields, nothing.

    Raises:
        IntegrityError: the payload is no JSON, which a release that somebody changed may hold.
    """
    try:
        values = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise IntegrityError(
            f"what is told of an entity of the kind {kind!r} is no JSON; `loupe release verify` "
            f"tells what is wrong"
        ) from error
    if not isinstance(values, Mapping):
        return ""
    words = _TOLD.get(kind) or {name: _named(name) for name in values}
    told = (_told(values, field, form, longest) for field, form in words.items())
    return printable(", ".join(one for one in told if one))


def printable(text: str) -> str:
    """A text on one line; what cannot be printed is replaced."""
    text = " ".join(text.split())
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _named(field: str) -> str:
    name = field.replace("_", " ").replace("{", "{{").replace("}", "}}")
    return f"{name} {_BARE}"


def _told(payload: Mapping[str, Any], field: str, form: str, longest: int | None) -> str:
    value: Any = payload
    for name in field.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None or isinstance(value, Mapping):
        return ""
    if isinstance(value, list):
        words = field.rpartition(".")[2].replace("_", " ")
        return f"{len(value):,} {words}" if value else ""
    return form.format(" ".join(str(value)[:longest].split()))
