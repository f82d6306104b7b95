"""What the lineage in a release tells of what was withdrawn from it since: ids, and no words."""

from collections.abc import Iterable

from db.lineage import WITHHELD_WHOLE, Lineage
from schemas.withdrawal import WithdrawnRow


def without_withdrawn(
    traced: Lineage, captions: dict[str, str], rows: Iterable[WithdrawnRow]
) -> tuple[Lineage, dict[str, str]]:
    """A lineage, and the captions beside its root, without the words of what was withdrawn.

    Where any of it was withdrawn all that it tells of an image or text may tell of that, so that
    nothing is left of it but ids, kinds and how they hang together.
    """
    given = list(rows)
    images = {row.entity_id for row in given if row.is_whole}
    texts = {text for row in given for text in row.texts}
    left = {id_: text for id_, text in captions.items() if id_ not in texts}
    if not images.isdisjoint(traced.entities):
        left = {}
    elif texts.isdisjoint(traced.entities):
        return traced, left
    withheld = {
        id_: node._replace(entity=node.entity._replace(payload="{}", withheld=(WITHHELD_WHOLE,)))
        for id_, node in traced.entities.items()
    }
    return traced._replace(entities=withheld), left
