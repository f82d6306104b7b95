"""How the files of each published format lie, and what one row of it looks like."""

import re
from typing import Any

from schemas.base import Record
from schemas.records import Granularity, Split
from sources.demonstration.truth import Format, TrueIdentity, TrueImage


class Layout(Record):
    """One source: its format, its files, and how many images and captions a person gets."""

    name: str
    format: Format
    granularity: Granularity
    annotation_file: str
    image_root: str
    file_path: str
    images_per_identity: int
    captions_per_image: int
    has_validation: bool = False

    def path_of(self, identity: int, split: Split, position: int) -> str:
        """The `file_path` of an identity's image, both counted from 1 and from 0."""
        serial = (identity - 1) * self.images_per_identity + position + 1
        return self.file_path.format(id=identity, split=split, number=position + 1, serial=serial)


LAYOUTS = (
    Layout(
        name="cuhk-pedes-demo",
        format="cuhk-pedes",
        granularity=Granularity.COARSE,
        annotation_file="reid_raw.json",
        image_root="images",
        file_path="demo/{id:04d}_{number}.jpg",
        images_per_identity=3,
        captions_per_image=2,
        has_validation=True,
    ),
    Layout(
        name="icfg-pedes-demo",
        format="icfg-pedes",
        granularity=Granularity.MEDIUM,
        annotation_file="ICFG-PEDES.json",
        image_root="images",
        file_path="{split}/{id:04d}/{id:04d}_{number:03d}.jpg",
        images_per_identity=6,
        captions_per_image=1,
    ),
    Layout(
        name="ufine6926-demo",
        format="ufine6926",
        granularity=Granularity.FINE,
        annotation_file="ufine6926.json",
        image_root=".",
        file_path="images/{serial}.jpg",
        images_per_identity=4,
        captions_per_image=2,
    ),
)


def annotation_row(layout: Layout, identity: TrueIdentity, image: TrueImage) -> dict[str, Any]:
    """One image as its format has it; the order of the fields follows the published files."""
    captions = list(image.captions)
    if layout.format == "ufine6926":
        return {
            "split": identity.split,
            "id": identity.id,
            "file_path": image.file_path,
            "captions": captions,
        }
    return {
        "split": identity.split,
        "captions": captions,
        "file_path": image.file_path,
        "processed_tokens": [_tokens(caption) for caption in captions],
        "id": identity.id,
    }


def _tokens(caption: str) -> list[str]:
    return re.findall(r"[a-z]+(?:-[a-z]+)*", caption.lower())
