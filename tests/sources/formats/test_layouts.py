"""Annotation layouts that public repositories document, rebuilt small, and read."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from loupe.schemas.columns import TableColumns
from loupe.sources.importer import importer_for, read_source
from loupe.sources.records import ReadOptions, SourceRow
from loupe.sources.sniffing import sniff
from tests.sources.formats.writing import jpeg


class Layout(NamedTuple):
    """An annotation file, and what is read of it: the path and captions of its first image."""

    file: str
    text: str
    format: str
    captions: tuple[str, ...] = ("A dog runs.", "The dog is brown.")
    image: str = "images/1.jpg"
    columns: dict[str, object] = {}  # noqa: RUF012 - never modified


KARPATHY = {
    "images": [
        {
            "filepath": "images",
            "filename": "1.jpg",
            "cocoid": 1,
            "split": "train",
            "sentences": [{"raw": "A dog runs."}, {"raw": "The dog is brown."}],
        }
    ]
}
COCO = {
    "images": [{"id": 9, "file_name": "images/1.jpg"}],
    "annotations": [
        {"id": 1, "image_id": 9, "caption": "A dog runs."},
        {"id": 2, "image_id": 9, "caption": "The dog is brown."},
    ],
}
LLAVA = [
    {
        "id": "997bb945",
        "image": "images/1.jpg",
        "conversations": [
            {"from": "human", "value": "<image>\\nWhat is it?"},
            {"from": "gpt", "value": "A dog runs."},
        ],
    }
]
PEDES = [
    {
        "id": 1,
        "split": "train",
        "file_path": "images/1.jpg",
        "captions": ["A dog runs.", "The dog is brown."],
    }
]
LAYOUTS = {
    "Flickr8k on Kaggle": Layout(
        "captions.txt",
        "image,caption\nimages/1.jpg,A dog runs.\nimages/1.jpg,The dog is brown.\n",
        "csv",
    ),
    "Flickr30k results.csv": Layout(
        "results.csv",
        "image_name| comment_number| comment\n"
        "images/1.jpg| 0| A dog runs.\nimages/1.jpg| 1| The dog is brown.\n",
        "csv",
    ),
    "Flickr30k on the hub": Layout(
        "flickr_annotations_30k.csv",
        "raw,sentids,split,filename,img_id\n"
        '"[""A dog runs."", ""The dog is brown.""]","[0, 1]",train,images/1.jpg,0\n',
        "csv",
    ),
    "caption_0 to caption_1": Layout(
        "metadata.csv",
        "file_name,split,caption_0,caption_1\nimages/1.jpg,train,A dog runs.,The dog is brown.\n",
        "csv",
        columns={"captions": ("caption_0", "caption_1")},
    ),
    "OpenCLIP": Layout(
        "train.csv",
        "filepath\ttitle\nimages/1.jpg\tA dog runs.\n",
        "csv",
        ("A dog runs.",),
        columns={"captions": ("title",)},
    ),
    "LLaVA": Layout("llava.json", json.dumps(LLAVA), "json", ("A dog runs.",)),
    "BLIP": Layout(
        "coco_train.json",
        json.dumps([{"image": "images/1.jpg", "caption": ["A dog runs.", "The dog is brown."]}]),
        "json",
    ),
    "ImageFolder of Hugging Face": Layout(
        "metadata.jsonl",
        json.dumps({"file_name": "images/1.jpg", "text": "A dog runs."}),
        "json-lines",
        ("A dog runs.",),
    ),
    "COCO captions": Layout("captions_val2017.json", json.dumps(COCO), "coco-captions"),
    "Karpathy": Layout("dataset_coco.json", json.dumps(KARPATHY), "karpathy-coco"),
    "CUHK-PEDES": Layout("reid_raw.json", json.dumps(PEDES), "cuhk-pedes"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_documented_layout_is_read(tmp_path: Path, name: str) -> None:
    layout = LAYOUTS[name]
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1.jpg").write_bytes(jpeg(1))
    path = tmp_path / layout.file
    path.write_text(layout.text)
    columns = TableColumns.model_validate(layout.columns) if layout.columns else None
    (row,) = read_source(importer_for(layout.format), path, ReadOptions(columns=columns), tmp_path)
    assert isinstance(row, SourceRow)
    assert (row.file_path, row.captions) == (layout.image, layout.captions)
    found = sniff(path)
    assert found.format == layout.format
    shown = found.rows[0]
    assert isinstance(shown, SourceRow)
    assert shown.captions[0] == layout.captions[0]
