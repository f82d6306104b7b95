"""The types of difference between an image and its contrastive image (CCD, table 5).

What the types mean is data, `taxonomy.toml`: prompts, answer schemas, pages, statistics and metrics
all read it through the enumerations here.
"""

import tomllib
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

_FILE = "taxonomy.toml"


class PrimaryType(StrEnum):
    """The four aspects of an image's content."""

    ENTITY = "Entity"
    SCENE = "Scene"
    EVENT = "Event/Action"
    STYLE = "Style & Presentation"


class DifferenceType(StrEnum):
    """The nine types of difference; each contrastive image differs from its anchor in one.

    The names that the authors' code, prompts and tables use for some of them are understood, too,
    and neither case nor space nor punctuation matters.
    """

    ENTITY_TYPE = "Entity Type"
    ENTITY_ATTRIBUTE = "Entity Attribute"
    ENTITY_RELATION = "Entity Relation"
    ENTITY_EMOTION = "Entity Emotion"
    SCENE_TYPE = "Scene Type"
    SCENE_ATTRIBUTE = "Scene Attribute"
    EVENT_TYPE = "Event/Action Type"
    EVENT_ATTRIBUTE = "Event/Action Attribute"
    STYLE = "Style & Presentation"

    @classmethod
    def _missing_(cls, value: object) -> "DifferenceType | None":
        return _by_spelling().get(_plain(value)) if isinstance(value, str) else None

    @property
    def primary(self) -> PrimaryType:
        """The aspect that the type belongs to."""
        return _taxonomy()[self].primary

    @property
    def definition(self) -> str:
        """What is meant, in a few words."""
        return _taxonomy()[self].definition

    @property
    def examples(self) -> tuple[str, ...]:
        """What may differ, a few words each."""
        return _taxonomy()[self].examples

    @property
    def aliases(self) -> tuple[str, ...]:
        """What the type is called elsewhere."""
        return _taxonomy()[self].aliases

    @property
    def explanation(self) -> str:
        """The definition with its examples, on one line."""
        return f"{self.definition} ({'; '.join(self.examples)})"


class TypeEntry(NamedTuple):
    """What the taxonomy's file says of a type."""

    primary: PrimaryType
    definition: str
    examples: tuple[str, ...]
    aliases: tuple[str, ...]


def taxonomy_lines() -> str:
    """The types with what is meant by them, a line each, as prompts tell them."""
    return "\n".join(f"- {kind}: {kind.explanation}" for kind in DifferenceType)


def read_taxonomy(text: str) -> dict[DifferenceType, TypeEntry]:
    """The types that a taxonomy in TOML defines, in its order.

    Raises:
        ValueError: it does not define each type once, or a spelling means two types.
    """
    entries: dict[DifferenceType, TypeEntry] = {}
    named: dict[str, str] = {}
    for row in tomllib.loads(text)["types"]:
        kind, entry = _entry(row)
        for spelling in {_plain(one) for one in (kind.value, *entry.aliases)}:
            if spelling in named:
                raise ValueError(f"{kind.value!r} and {named[spelling]!r} share {spelling!r}")
            named[spelling] = kind.value
        entries[kind] = entry
    if missing := [kind.value for kind in DifferenceType if kind not in entries]:
        raise ValueError(f"the taxonomy does not define {missing}")
    return entries


def _entry(row: dict[str, Any]) -> tuple[DifferenceType, TypeEntry]:
    by_value = {kind.value: kind for kind in DifferenceType}
    if row["name"] not in by_value:
        raise ValueError(f"{row['name']!r} is no type; there are {list(by_value)}")
    entry = TypeEntry(
        PrimaryType(row["primary"]),
        row["definition"],
        tuple(row["examples"]),
        tuple(row.get("aliases", ())),
    )
    return by_value[row["name"]], entry


@cache
def _taxonomy() -> dict[DifferenceType, TypeEntry]:
    return read_taxonomy(files("schemas").joinpath(_FILE).read_text(encoding="utf-8"))


@cache
def _by_spelling() -> dict[str, DifferenceType]:
    return {
        _plain(spelling): kind
        for kind, entry in _taxonomy().items()
        for spelling in (kind.value, *entry.aliases)
    }


def _plain(spelling: str) -> str:
    joined = spelling.casefold().replace("&", " and ")
    return "".join(character for character in joined if character.isalnum())
