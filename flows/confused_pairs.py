"""Which captions can be confused with which images, and what still stands of what was made of it.

A *pair* is an image of v1 and a caption of the image of v0 that it is similar to. People may change
a caption of v0 when v1 is there already: then the pair is another one. What was written and asked
for the pair of before is taken out of the way, and put back when that caption returns.
"""

from collections.abc import Iterable
from typing import NamedTuple

from annotate.items import DESCRIBES
from db.entities import LIVE, StoredEntity, find, parents_of
from db.store import Store
from flows.confusion_questions import ASKS_ABOUT, ASKS_WITH
from flows.context import RunContext
from flows.retiring import keep_current
from flows.similar_images import SIMILAR_TO, Begun
from flows.task_images import images_of_tier
from schemas.quality import Confusion
from schemas.records import Caption

CONFUSES = "confuses"
"""The role of the caption of v0 in whose words one of v1 is written."""

PairKey = tuple[str, str]
"""The ids of an image of v1 and of a caption of v0."""


class Pair(NamedTuple):
    """A similar image x′, the image x of v0, and a caption t of x."""

    similar: StoredEntity
    image: StoredEntity
    caption: StoredEntity

    @property
    def key(self) -> PairKey:
        """What it is called here."""
        return self.similar.id, self.caption.id

    @property
    def number(self) -> int:
        """Its number as an input of work: those of both entities, each in half of the bits."""
        return self.similar.seq << 32 | self.caption.seq


class WrittenCaption(NamedTuple):
    """A confusing caption, and the pair that it was written for."""

    entity: StoredEntity
    pair: PairKey


def load_pairs(store: Store, dataset: str, begun: Begun) -> list[Pair]:
    """Every live image of v1 with every accepted caption of its image, in the order of both."""
    similar = [one for one in images_of_tier(store, dataset, "v1") if one.state in LIVE]
    partner = parents_of(store, [one.id for one in similar], SIMILAR_TO)
    images = {image.id: image for image in begun.images}
    return [
        Pair(one, images[image_id], caption)
        for one in similar
        for image_id in partner[one.id]
        if image_id in images
        for caption in begun.captions[image_id]
    ]


def load_written(store: Store, dataset: str) -> list[WrittenCaption]:
    """All confusing captions of a dataset, whatever was decided on them or their pairs."""
    captions = {one.id: one for one in find(store, dataset, Caption.kind)}
    confused = parents_of(store, captions, CONFUSES)
    described = parents_of(store, confused, DESCRIBES)
    return [
        WrittenCaption(captions[one], (described[one][0], found[0]))
        for one, found in confused.items()
    ]


class Standing:
    """What of all that was written and asked is of a pair that there still is."""

    def __init__(self, pairs: Iterable[Pair], written: Iterable[WrittenCaption]) -> None:
        self._pairs = {pair.key for pair in pairs}
        self._of_caption = {one.entity.id: one.pair for one in written}
        self._described = {
            one.pair[0]
            for one in written
            if one.pair in self._pairs and one.entity.state != "rejected"
        }

    def has_caption(self, caption_id: str) -> bool | None:
        """Whether a confusing caption stands; None for captions that are none."""
        pair = self._of_caption.get(caption_id)
        return None if pair is None else pair in self._pairs

    def has_question(self, caption_id: str, similar_id: str) -> bool:
        """Whether a question about a caption and an image of v1 is still worth an answer.

        It is not where that image has no caption that is, or may be, accepted.
        """
        pair = self._of_caption.get(caption_id, (similar_id, caption_id))
        return pair in self._pairs and similar_id in self._described


def load_standing(store: Store, dataset: str, begun: Begun) -> Standing:
    """What stands now."""
    return Standing(load_pairs(store, dataset, begun), load_written(store, dataset))


def keep_standing(context: RunContext, dataset: str, begun: Begun) -> None:
    """Retires captions and open questions of pairs that are no more; reopens those that are again.

    Questions that were answered keep their answers.
    """
    pairs = load_pairs(context.store, dataset, begun)
    before = Standing(pairs, load_written(context.store, dataset))
    keep_current(
        context, dataset, Caption.kind, lambda one: before.has_caption(one.id), states=LIVE
    )
    standing = Standing(pairs, load_written(context.store, dataset))
    asked = [one.id for one in find(context.store, dataset, Confusion.kind)]
    captions = parents_of(context.store, asked, ASKS_ABOUT)
    images = parents_of(context.store, asked, ASKS_WITH)

    def is_open(question: StoredEntity) -> bool:
        return standing.has_question(captions[question.id][0], images[question.id][0])

    keep_current(context, dataset, Confusion.kind, is_open)
