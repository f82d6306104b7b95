"""Karpathy's split files for COCO and Flickr30k: `{"images": [{filename, split, sentences}]}`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schemas.json_stream import Element, stream_sections
from sources.annotation_file import read_elements
from sources.fields import MISSING, Field, FieldError, RawRow, bad_row, checked_object, checked_rows
from sources.records import BadRow, ReadOptions, Row
from sources.terms import ImporterTerms

_KNOWN = {"images": frozenset({"filename", "sentences"})}
# The part of COCO's validation images that everybody trains on, as Karpathy and Fei-Fei did.
_RENAMED_SPLITS = {"restval": "train"}


class KarpathyImporter(ImporterTerms):
    """Reads `dataset_coco.json` and `dataset_flickr30k.json`; each image is its own identity.

    An image is named by the first of `identity_fields` that its record has.
    """

    identity_fields: tuple[str, ...] = ("filename",)

    def rows(self, path: Path, options: ReadOptions | None = None) -> Iterator[Row]:
        """One row or one bad row for each image, in the file's order.

        Raises:
            FormatError: the file is not of this format.
        """
        options = options or ReadOptions()
        for element in read_elements(path, self.format, stream_sections, _KNOWN, options):
            if isinstance(element, BadRow):
                yield element
                continue
            try:
                raw = self._taken_apart(element)
            except FieldError as fault:
                yield bad_row(fault, path.name, element.index, element.value)
            else:
                yield from checked_rows(raw, path.name, options)

    def _taken_apart(self, element: Element) -> RawRow:
        record = checked_object(element.value)
        name = next((key for key in self.identity_fields if key in record), "filename")
        split = record.get("split", MISSING)
        if isinstance(split, str):
            split = _RENAMED_SPLITS.get(split, split)
        return RawRow(
            index=element.index,
            identity=Field(name, record.get(name, MISSING)),
            split=Field("split", split),
            file_path=_image_path(record),
            captions=Field("sentences", record.get("sentences", MISSING)),
            record=record,
            caption_key="raw",
        )


def _image_path(record: dict[str, Any]) -> Field:
    """`filepath` (the folder, in COCO's file only) and `filename` put together."""
    folder, name = record.get("filepath", ""), record.get("filename", MISSING)
    if not isinstance(folder, str):
        return Field("filepath", folder)
    if folder and isinstance(name, str) and name:
        return Field("filename", f"{folder}/{name}")
    return Field("filename", name)


_KARPATHY = (
    "Karpathy, Fei-Fei: Deep Visual-Semantic Alignments for Generating Image Descriptions. "
    "CVPR 2015"
)
KARPATHY_COCO = KarpathyImporter(
    format="karpathy-coco",
    licence="Captions CC BY 4.0; images under the Flickr terms of their authors",
    citation=(
        "Chen, Fang, Lin, Vedantam, Gupta, Dollár, Zitnick: Microsoft COCO Captions: Data "
        f"Collection and Evaluation Server. arXiv 1504.00325, 2015; splits: {_KARPATHY}"
    ),
    homepage="https://cocodataset.org",
    identity_fields=("cocoid", "imgid", "filename"),
)
KARPATHY_FLICKR30K = KarpathyImporter(
    format="karpathy-flickr30k",
    licence="Captions for non-commercial research and education; images under Flickr's terms",
    citation=(
        "Young, Lai, Hodosh, Hockenmaier: From Image Descriptions to Visual Denotations: New "
        "Similarity Metrics for Semantic Inference over Event Descriptions. TACL 2014; splits: "
        f"{_KARPATHY}"
    ),
    homepage="https://shannon.cs.illinois.edu/DenotationGraph/",
)
