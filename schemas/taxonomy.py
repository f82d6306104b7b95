"""The types of difference between an image and its contrastive image (CCD, table 5).

The definitions of the types are data, `taxonomy.toml`: prompts, answer schemas, pages, statistics
and metrics use them through the enumerations here.
"""

import tomllib
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any


class PrimaryType(StrEnum):
    """The four aspects of an image's content."""

    ENTITY = "Entity"
    SCENE = "Scene"
    EVENT = "Event/Action"
    STYLE = "Style & Presentation"


class DifferenceType(StrEnum):
    """The nine types of difference; each contrastive image differs from its anchor in one.

    Names used in the authors' code, prompts and tables are accepted as aliases; case, white space
    and punctuation are ignored.
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
        """The aspect of the type."""
        return PrimaryType(_taxonomy()[self]["primary"])

    @property
    def definition(self) -> str:
        """The definition in a few words."""
        return str(_taxonomy()[self]["definition"])

    @property
    def examples(self) -> tuple[str, ...]:
        """Examples of what may differ, in a few words each."""
        return tuple(_taxonomy()[self]["examples"])

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names of the type."""
        return tuple(_taxonomy()[self].get("aliases", ()))

    @property
    def explanation(self) -> str:
        """The definition with its examples on one line."""
        return f"{self.definition} ({'; '.join(self.examples)})"


def taxonomy_lines() -> str:
    """Return the types with their definitions, one per line, as in prompts."""
    return "\n".join(f"- {kind}: {kind.explanation}" for kind in DifferenceType)


@cache
def _taxonomy() -> dict[str, dict[str, Any]]:
    """Return the rows of the taxonomy's file by their names."""
    text = files("schemas").joinpath("taxonomy.toml").read_text(encoding="utf-8")
    return {row["name"]: row for row in tomllib.loads(text)["types"]}


@cache
def _by_spelling() -> dict[str, DifferenceType]:
    return {
        _plain(spelling): kind
        for kind in DifferenceType
        for spelling in (kind.value, *kind.aliases)
    }


def _plain(spelling: str) -> str:
    joined = spelling.casefold().replace("&", " and ")
    return "".join(character for character in joined if character.isalnum())
