"""The types of difference between an image and its contrastive image (CCD, table 5)."""

from enum import StrEnum
from typing import NamedTuple


class PrimaryType(StrEnum):
    """The four aspects of an image's content."""

    ENTITY = "Entity"
    SCENE = "Scene"
    EVENT = "Event/Action"
    STYLE = "Style & Presentation"


class DifferenceType(StrEnum):
    """The nine types of difference; each contrastive image differs from its anchor in one.

    The names that the authors' code and prompts use for some of them are understood, too, and
    neither case nor space matters.
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
        return _BY_SPELLING.get(_plain(value)) if isinstance(value, str) else None

    @property
    def primary(self) -> PrimaryType:
        """The aspect that the type belongs to."""
        return _DEFINITIONS[self].primary

    @property
    def definition(self) -> str:
        """What is meant, in a few words and examples."""
        return _DEFINITIONS[self].text


class _Definition(NamedTuple):
    primary: PrimaryType
    text: str


_DEFINITIONS = {
    DifferenceType.ENTITY_TYPE: _Definition(
        PrimaryType.ENTITY, "what exactly a thing or being is: a Labrador, a Boeing 747"
    ),
    DifferenceType.ENTITY_ATTRIBUTE: _Definition(
        PrimaryType.ENTITY, "what it is like: colour, pattern, material, shape, occupation"
    ),
    DifferenceType.ENTITY_RELATION: _Definition(
        PrimaryType.ENTITY, "how things stand to each other: on top of, riding, shaking hands"
    ),
    DifferenceType.ENTITY_EMOTION: _Definition(
        PrimaryType.ENTITY, "what somebody visibly feels: happy, sad"
    ),
    DifferenceType.SCENE_TYPE: _Definition(
        PrimaryType.SCENE, "what kind of place it is: market, lakeside, inside of a church"
    ),
    DifferenceType.SCENE_ATTRIBUTE: _Definition(
        PrimaryType.SCENE, "what the place is like: crowded, tranquil, under a clear sky"
    ),
    DifferenceType.EVENT_TYPE: _Definition(
        PrimaryType.EVENT, "what is being done: chasing, dancing, caressing"
    ),
    DifferenceType.EVENT_ATTRIBUTE: _Definition(
        PrimaryType.EVENT, "who does it and to whom: the dogs chase the cat, not the cat the dogs"
    ),
    DifferenceType.STYLE: _Definition(
        PrimaryType.STYLE, "how it is shown: photograph, painting, comic, ink, impressionism"
    ),
}

_OTHER_SPELLINGS = {
    "Entity Relationship": DifferenceType.ENTITY_RELATION,
    "Event Category": DifferenceType.EVENT_TYPE,
    "Event Element": DifferenceType.EVENT_ATTRIBUTE,
    "Event Type": DifferenceType.EVENT_TYPE,
    "Event Attribute": DifferenceType.EVENT_ATTRIBUTE,
    "Style and Presentation": DifferenceType.STYLE,
}


def _plain(spelling: str) -> str:
    return "".join(spelling.casefold().split())


_BY_SPELLING = {
    **{_plain(kind.value): kind for kind in DifferenceType},
    **{_plain(spelling): kind for spelling, kind in _OTHER_SPELLINGS.items()},
}
