"""What is known of an image, besides what it shows: facts that prompts state to models."""

from collections.abc import Sequence

from loupe.db.entities import LIVE, fetch_parents, newest_children, parents_of
from loupe.db.store import Store
from loupe.schemas.provenance import Role
from loupe.schemas.records import ImageFacts
from loupe.schemas.recos import RenderedTruth, TextReading


def facts_of(store: Store, image_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the known facts of images by id.

    They come from what was rendered, the source, or the text read in a photograph.
    """
    facts = {
        image_id: one.record(TextReading).facts
        for image_id, one in newest_children(store, image_ids, Role.READ_IN).items()
        if one.state in LIVE
    }
    copied = parents_of(store, image_ids, Role.SAMPLED_FROM)
    known: dict[str, tuple[str, ...]] = {}  # of images of sources
    kinds: tuple[tuple[Role, type[RenderedTruth | ImageFacts]], ...] = (
        (Role.RENDERED_FROM, RenderedTruth),
        (Role.KNOWN_FROM, ImageFacts),
    )
    for role, kind in kinds:
        found = fetch_parents(store, {one for many in copied.values() for one in many}, role)
        known |= {
            original: one.record(kind).facts for original, many in found.items() for one in many
        }
    return facts | {
        image_id: known[original] for image_id, (original,) in copied.items() if known.get(original)
    }
