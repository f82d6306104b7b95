"""What an entity of a lineage holds, in a few words: for trees, drawings and lists."""

from collections.abc import Iterable
from typing import Any


def told_fields(payload: dict[str, Any], fields: Iterable[str], longest: int | None = None) -> str:
    """Some fields of a payload on one line, each cut at `longest` characters.

    A dot in a field leads into what a field holds. A list is told by its length, what has fields of
    its own not at all; what cannot be printed is replaced.
    """
    told = (_told(payload, field, longest) for field in fields)
    text = ", ".join(one for one in told if one)
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _told(payload: dict[str, Any], field: str, longest: int | None) -> str:
    value: Any = payload
    for name in field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None or isinstance(value, dict):
        return ""
    if isinstance(value, list):
        words = field.rpartition(".")[2].replace("_", " ")
        return f"{len(value):,} {words}" if value else ""
    return " ".join(str(value)[:longest].split())
