"""The label of an entity in the drawing of a row's lineage: a few words of its content."""

from db.lineage import TracedEntity
from release.lineage.reading import summarize

GIST_CHARACTERS = 160


def gist_of(entity: TracedEntity) -> str:
    """What a person wants to see of what an entity holds, on one line."""
    shown = summarize(entity.kind, entity.payload, 4 * GIST_CHARACTERS)
    return shown if len(shown) <= GIST_CHARACTERS else f"{shown[: GIST_CHARACTERS - 1]}…"
