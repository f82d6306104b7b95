"""Texts with their images and checks, as reviewers see them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from annotate.candidates import latest_flags, newest_reports
from db.entities import StoredEntity, fetch, parents_of
from db.store import Store
from schemas.errors import IntegrityError
from schemas.faithfulness import FaithfulnessReport
from schemas.provenance import Role
from schemas.records import Caption, Image, Rewrite

INHERITED = (Role.REWRITE_OF, Role.DESCRIBES)
"""The roles of parents that an edit inherits from the edited entity."""


class CaptionItem(NamedTuple):
    """A caption and all that is needed to judge it.

    `doubts` are warnings about it, None if it was not examined.
    """

    entity: StoredEntity
    caption: Caption
    image: Image
    image_id: str
    report: FaithfulnessReport | None
    doubts: tuple[str, ...] | None


class RewriteItem(NamedTuple):
    """A rewrite and all that is needed to judge it."""

    entity: StoredEntity
    rewrite: Rewrite
    caption: Caption
    image: Image
    image_id: str
    report: FaithfulnessReport | None


def load_caption_items(store: Store, entities: Sequence[StoredEntity]) -> list[CaptionItem]:
    """One item per caption, in order.

    Raises:
        IntegrityError: a caption describes no image.
    """
    caption_ids = [entity.id for entity in entities]
    images = _only_parent(store, caption_ids, Role.DESCRIBES)
    stored = fetch(store, set(images.values()))
    reports = newest_reports(store, caption_ids)
    doubts = latest_flags(store, caption_ids)
    return [
        CaptionItem(
            entity=entity,
            caption=entity.record(Caption),
            image=stored[images[entity.id]].record(Image),
            image_id=images[entity.id],
            report=reports.get(entity.id),
            doubts=doubts.get(entity.id),
        )
        for entity in entities
    ]


def load_rewrite_items(store: Store, entities: Sequence[StoredEntity]) -> list[RewriteItem]:
    """One item per rewrite, in order.

    Raises:
        IntegrityError: a rewrite has no source description, or that describes no image.
    """
    rewrite_ids = [entity.id for entity in entities]
    captions = _only_parent(store, rewrite_ids, Role.REWRITE_OF)
    stored = fetch(store, set(captions.values()))
    described = load_caption_items(store, list(stored.values()))
    by_caption = {item.entity.id: item for item in described}
    reports = newest_reports(store, rewrite_ids)
    return [
        RewriteItem(
            entity=entity,
            rewrite=entity.record(Rewrite),
            caption=(item := by_caption[captions[entity.id]]).caption,
            image=item.image,
            image_id=item.image_id,
            report=reports.get(entity.id),
        )
        for entity in entities
    ]


def _only_parent(store: Store, ids: Iterable[str], role: Role) -> dict[str, str]:
    wanted = sorted(set(ids))
    parents = parents_of(store, wanted, role)
    for entity_id in wanted:
        if len(found := parents.get(entity_id, [])) != 1:
            raise IntegrityError(
                f"entity {entity_id} must have one parent in the role '{role}'; got {len(found)}"
            )
    return {entity_id: found[0] for entity_id, found in parents.items()}
