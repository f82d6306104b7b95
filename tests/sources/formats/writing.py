"""Small datasets of images with captions, written by the libraries that own their formats."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image

PEOPLE = ("ann", "ann", "bea", "cid")
SPLITS = ("train", "train", "test", "test")


class Pictured(NamedTuple):
    """An image with its captions."""

    name: str
    data: bytes
    person: str
    split: str
    captions: tuple[str, ...]


def jpeg(shade: int, side: int = 24) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (side, side), (shade % 256, 90, 160)).save(file, "JPEG")
    return file.getvalue()


def pictures() -> list[Pictured]:
    return [
        Pictured(
            f"{number:03d}",
            jpeg(40 * number),
            person,
            SPLITS[number],
            (f"{person.title()} wears a coat of shade {number}.", f"A person, number {number}."),
        )
        for number, person in enumerate(PEOPLE)
    ]


def parquet(folder: Path, shown: Sequence[Pictured]) -> Path:
    """Two files of pyarrow: images as bytes, and as objects of bytes and path."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for split in ("train", "test"):
        of_split = [one for one in shown if one.split == split]
        images: list[object] = [one.data for one in of_split]
        if split == "train":
            images = [{"bytes": one.data, "path": f"{one.name}.jpg"} for one in of_split]
        columns = {
            "image": images,
            "person": [one.person for one in of_split],
            "captions": [list(one.captions) for one in of_split],
        }
        pq.write_table(pa.table(columns), folder / f"{split}-00000-of-00001.parquet")
    return folder


def huggingface(folder: Path, shown: Sequence[Pictured]) -> Path:
    """A dataset that `save_to_disk` wrote, with classes for people."""
    import datasets

    names = sorted({one.person for one in shown})
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "person": datasets.ClassLabel(names=names),
            "captions": datasets.Sequence(datasets.Value("string")),
        }
    )
    splits = {}
    for split in ("train", "test"):
        of_split = [one for one in shown if one.split == split]
        columns = {
            "image": [{"bytes": one.data, "path": None} for one in of_split],
            "person": [names.index(one.person) for one in of_split],
            "captions": [list(one.captions) for one in of_split],
        }
        splits[split] = datasets.Dataset.from_dict(columns, features=features)
    datasets.disable_progress_bars()
    datasets.DatasetDict(splits).save_to_disk(str(folder / "saved"))
    return folder / "saved"


def image_folder(folder: Path, shown: Sequence[Pictured]) -> Path:
    """An ImageFolder of Hugging Face, with `metadata.jsonl`."""
    for one in shown:
        (folder / one.split).mkdir(exist_ok=True)
        (folder / one.split / f"{one.name}.jpg").write_bytes(one.data)
        fields = {"file_name": f"{one.name}.jpg", "person": one.person, "captions": one.captions}
        with (folder / one.split / "metadata.jsonl").open("a") as file:
            file.write(json.dumps(fields) + "\n")
    return folder


def webdataset(folder: Path, shown: Sequence[Pictured]) -> Path:
    """Shards of webdataset's own writer."""
    import webdataset as wds

    for split in ("train", "test"):
        with wds.TarWriter(str(folder / f"{split}-000000.tar")) as tar:
            for one in shown:
                if one.split == split:
                    fields = {"person": one.person, "captions": one.captions}
                    tar.write({"__key__": one.name, "jpg": one.data, "json": fields})
    return folder


def table(folder: Path, shown: Sequence[Pictured]) -> Path:
    """A CSV file with a line for each caption."""
    with (folder / "people.csv").open("w", newline="") as file:
        lines = csv.writer(file, delimiter=";")
        lines.writerow(["file_name", "person", "split", "caption"])
        for one in shown:
            (folder / f"{one.name}.jpg").write_bytes(one.data)
            for caption in one.captions:
                lines.writerow([f"{one.name}.jpg", one.person, one.split, caption])
    return folder / "people.csv"


def plain_folder(folder: Path, shown: Sequence[Pictured]) -> Path:
    """Images in folders of splits and people, with their captions beside them."""
    for one in shown:
        inner = folder / one.split / one.person
        inner.mkdir(parents=True, exist_ok=True)
        (inner / f"{one.name}.jpg").write_bytes(one.data)
        (inner / f"{one.name}.txt").write_text("\n".join(one.captions))
    return folder


def img2dataset(folder: Path, shown: Sequence[Pictured]) -> Path:
    """What img2dataset writes as tar shards: a caption each, and a list with what failed."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import webdataset as wds

    listed = []
    with wds.TarWriter(str(folder / "00000.tar")) as tar:
        for one in shown:
            fields = {
                "caption": one.captions[0],
                "url": f"https://example.org/{one.name}.jpg",
                "key": one.name,
                "status": "success",
                "error_message": None,
                "person": one.person,
                "split": one.split,
            }
            listed.append(fields)
            sample = {"jpg": one.data, "txt": one.captions[0], "json": fields}
            tar.write({"__key__": one.name, **sample})
    failed = {**listed[0], "key": "999", "status": "failed_to_download", "error_message": "404"}
    pq.write_table(pa.Table.from_pylist([*listed, failed]), folder / "00000.parquet")
    (folder / "00000_stats.json").write_text('{"count": 5, "successes": 4}')
    return folder


def fiftyone(folder: Path, shown: Sequence[Pictured]) -> Path:
    """A dataset of FiftyOne as its documentation shows it."""
    (folder / "data").mkdir()
    samples = []
    for one in shown:
        (folder / "data" / f"{one.name}.jpg").write_bytes(one.data)
        samples.append(
            {
                "_id": {"$oid": f"{int(one.name):024x}"},
                "filepath": f"data/{one.name}.jpg",
                "tags": [one.split],
                "metadata": None,
                "person": {"_cls": "Classification", "label": one.person},
                "captions": list(one.captions),
            }
        )
    (folder / "samples.json").write_text(json.dumps({"samples": samples}))
    (folder / "metadata.json").write_text('{"name": "people", "version": "1.5.2"}')
    return folder


def label_studio(folder: Path, shown: Sequence[Pictured]) -> Path:
    """An export of Label Studio: a text area and choices about uploaded images."""
    tasks = []
    for number, one in enumerate(shown, 1):
        (folder / f"{one.name}.jpg").write_bytes(one.data)
        texts = {
            "type": "textarea",
            "from_name": "captions",
            "to_name": "image",
            "value": {"text": list(one.captions)},
        }
        choice = {"type": "choices", "from_name": "person", "value": {"choices": [one.person]}}
        cancelled = {"was_cancelled": True, "result": [{**texts, "value": {"text": ["no"]}}]}
        tasks.append(
            {
                "id": number,
                "data": {
                    "image": f"/data/upload/7/0a1b2c3d-{one.name}.jpg",
                    "split": one.split,
                },
                "annotations": [{"id": number, "result": [texts, choice]}, cancelled],
            }
        )
    (folder / "export.json").write_text(json.dumps(tasks))
    return folder / "export.json"


Write = Callable[[Path, Sequence[Pictured]], Path]
FORMATS: dict[str, tuple[str, Write]] = {
    "parquet": ("parquet", parquet),
    "save_to_disk": ("hf", huggingface),
    "ImageFolder": ("hf", image_folder),
    "webdataset": ("webdataset", webdataset),
    "csv": ("csv", table),
    "folder": ("folder", plain_folder),
    "img2dataset": ("img2dataset", img2dataset),
    "fiftyone": ("fiftyone", fiftyone),
    "label-studio": ("label-studio", label_studio),
}
"""The formats by their writers, with the name that Loupe has for each."""
