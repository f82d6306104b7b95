"""The images of v0, and the captions that were first written of them."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from annotate.items import DESCRIBES
from db.entities import StoredEntity, find_children, parents_of
from db.store import Store
from flows.recos.captioning import WRITTEN_WITH, task_of
from flows.recos.image_selection import turned_down
from flows.recos.task_images import images_of_tier
from flows.recos.validation_loop import Draft
from schemas.errors import ConfigurationError
from schemas.records import Caption


class CaptionPool:
    """The images that captions are compared with, and the captions.

    Attributes:
        images: the images of v0 that were not turned down.
        place: the position of each image among them, by its id.
        captions: the captions as they were first written, by id, in the order of images and
            positions; those that were withdrawn are left out.
        image_of: the image of each caption, also of those that are left out.
    """

    def __init__(self, store: Store, dataset: str, settings_id: str) -> None:
        """Reads the captions that were written with those settings.

        Raises:
            ConfigurationError: there are none.
        """
        not_selected = turned_down(store, dataset)
        self.images = [
            image for image in images_of_tier(store, dataset, "v0") if image.id not in not_selected
        ]
        self.place = {image.id: place for place, image in enumerate(self.images)}
        written = list(find_children(store, settings_id, WRITTEN_WITH))
        if not written:
            raise ConfigurationError(
                f"no image of {dataset!r} has captions; look at: loupe quarantine {dataset}"
            )
        described = parents_of(store, [one.id for one in written], DESCRIBES)
        self.image_of = {caption: found[0] for caption, found in described.items()}
        self.captions = {
            one.id: one for one in sorted(filter(self._counts, written), key=self._order)
        }

    def _counts(self, caption: StoredEntity) -> bool:
        return self.image_of[caption.id] in self.place and caption.state != "withdrawn"

    def _order(self, caption: StoredEntity) -> tuple[int, int]:
        return self.place[self.image_of[caption.id]], caption.record(Caption).position

    def image(self, image_id: str) -> StoredEntity:
        """The image with that id."""
        return self.images[self.place[image_id]]

    def position(self, caption_id: str) -> int:
        """Which of its image's captions one is."""
        return self.captions[caption_id].record(Caption).position

    @cached_property
    def drafts(self) -> list[Draft]:
        """The captions as the loop begins with them."""
        return [
            Draft(
                id_,
                self.image_of[id_],
                task_of(self.image(self.image_of[id_])),
                caption.record(Caption).text,
            )
            for id_, caption in self.captions.items()
        ]

    def targets(self, drafts: Sequence[Draft]) -> NDArray[np.int64]:
        """The places of the images that drafts describe, of shape (n,)."""
        return np.array([self.place[draft.image] for draft in drafts], np.int64)
