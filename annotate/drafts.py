"""Drafts by a model that writers are shown: at most one for each image, and to one person only.

Descriptions of one image are to be independent of each other. Whoever is asked first may begin with
a draft; the others begin with nothing, also where the first one passes.
"""

from collections.abc import Sequence

from annotate.items import DESCRIBES
from annotate.queues import Queue
from db.entities import StoredEntity, children_of, fetch, parents_of
from db.reviews import StoredTask, first_tasks
from db.store import Store
from schemas.records import Caption, Image

PROMPTED_BY = "prompted_by"
"""The role in which a prompt stands to what a model wrote: people's captions have none."""

_OUT = ("rejected", "withdrawn")


def offered_drafts(
    store: Store, queue: Queue, tasks: Sequence[StoredTask]
) -> dict[str, StoredEntity]:
    """For each of the tasks whose page opens with a draft, by key, the draft."""
    if queue.kind != Image.kind:
        return {}
    first = first_tasks(store, queue.name, {task.entity_id for task in tasks})
    asked = {task.key for task in tasks}
    images = {image: key for image, key in first.items() if key in asked}
    return {images[image]: draft for image, draft in _drafts_of(store, list(images)).items()}


def _drafts_of(store: Store, image_ids: Sequence[str]) -> dict[str, StoredEntity]:
    """For each image the draft that stands first among those that were not taken back."""
    described = children_of(store, image_ids, DESCRIBES)
    captions = fetch(store, {one for found in described.values() for one in found})
    drafted = parents_of(store, captions, PROMPTED_BY)
    drafts = {
        image: [
            captions[one] for one in found if one in drafted and captions[one].state not in _OUT
        ]
        for image, found in described.items()
    }
    return {image: min(found, key=_place) for image, found in drafts.items() if found}


def _place(draft: StoredEntity) -> tuple[int, int]:
    return draft.record(Caption).position, draft.seq
