"""The rows of a release: one image with its captions, and where each of them comes from."""

from typing import Any, NamedTuple

from schemas.records import Split


class ReleasedCaption(NamedTuple):
    """A text that describes an image. The author of an original is its source."""

    entity_id: str
    text: str
    author: str
    reviewed: bool
    is_rewrite: bool
    by_person: bool


class ReleaseRow(NamedTuple):
    """An image with its captions. `number` counts rows and `id` persons, both from 1."""

    number: int
    id: int
    source: str
    identity: str
    split: Split
    file_path: str
    source_file_path: str
    captions: tuple[ReleasedCaption, ...]
    image_entity_id: str
    sha256: str
    media_type: str
    width_px: int
    height_px: int

    def published(self) -> dict[str, Any]:
        """The row in the published JSON format."""
        return {
            "id": self.id,
            "source": self.source,
            "split": self.split,
            "file_path": self.file_path,
            "captions": [caption.text for caption in self.captions],
        }

    def entity_ids(self) -> list[str]:
        """The entities that stand in the row: the image, then its captions in order."""
        return [self.image_entity_id, *(caption.entity_id for caption in self.captions)]
