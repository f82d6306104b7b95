"""Exported files of a release, read with `datasets`, pyarrow and the importers."""

import hashlib
import io
import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from PIL import Image

from loupe.sources.importer import importer_for, read_source
from loupe.sources.records import SourceRow
from tests.release.export.conftest import Releases
from tests.release.export.kinds import truth, without_image

READ_WITH_DATASETS = """
import hashlib, io, json, sys
import datasets
from datasets import Image, load_dataset

for number, folder in enumerate(sys.argv[2:]):
    # A cache of its own, because datasets takes folders of one name for one.
    loaded = load_dataset(folder, cache_dir=f"{sys.argv[1]}/{number}")
    found = []
    for split in ("train", "val", "test"):
        if split not in loaded:
            continue
        rows = loaded[split]
        assert isinstance(rows.features["image"], Image), rows.features
        stored = rows.cast_column("image", Image(decode=False))
        for number, row in enumerate(stored):
            pixels = rows[number]["image"]
            image = row.pop("image")
            row["pixels"] = hashlib.sha256(pixels.convert("RGB").tobytes()).hexdigest()
            row["image"] = hashlib.sha256(image["bytes"]).hexdigest()
            row["path"] = image["path"]
            found.append(row)
    print(json.dumps(found))
"""


def read_with_datasets(folders: list[Path], home: Path) -> list[list[dict[str, Any]]]:
    """Rows that `datasets.load_dataset` returns for each folder, without network access."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(home / "home")}
    command = [sys.executable, "-c", READ_WITH_DATASETS, str(home / "cache"), *map(str, folders)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_datasets_loads_every_row(releases: Releases, exports: Releases, tmp_path: Path) -> None:
    read = read_with_datasets([exports[f"{kind}/hf"] for kind in releases], tmp_path)
    for (kind, release), found in zip(releases.items(), read, strict=True):
        wanted = truth(release)
        assert len(found) == len(wanted), kind
        for row, true in zip(found, wanted, strict=True):
            with Image.open(io.BytesIO(true["image"])) as picture:
                pixels = picture.convert("RGB").tobytes()
            assert row.pop("pixels") == hashlib.sha256(pixels).hexdigest(), kind
            assert row.pop("image") == hashlib.sha256(true["image"]).hexdigest(), kind
            assert row.pop("path") == true["file_path"], kind
            assert row == without_image(true), kind


def test_pyarrow_reads_every_row(
    releases: Releases, exports: Releases, subtests: pytest.Subtests
) -> None:
    for kind, name in product(releases, ("parquet", "hf")):
        with subtests.test(kind=kind, format=name):
            assert_export_equals_release(releases[kind], exports[f"{kind}/{name}"])


def assert_export_equals_release(release: Path, export: Path) -> None:
    shards = (export / "data").glob("*.parquet")
    rows = pyarrow.dataset.dataset(sorted(map(str, shards))).to_table().to_pylist()
    wanted = {row["file_path"]: row for row in truth(release)}
    assert {row["file_path"]: row["image"]["bytes"] for row in rows} == {
        path: row["image"] for path, row in wanted.items()
    }
    assert all(without_image(row) == without_image(wanted[row["file_path"]]) for row in rows)
    assert len(rows) == len(wanted)


def test_the_importers_read_the_published_layouts(releases: Releases, exports: Releases) -> None:
    cases: list[tuple[str, str, str]] = [
        ("plain", "ufine3c", "ufine3c.json"),
        ("street", "ufine6926", "ufine6926.json"),
        ("contrasts", "ccd", "ccd.jsonl"),
    ]
    for kind, format_name, file in cases:
        folder = exports[f"{kind}/published"]
        rows = list(read_source(importer_for(format_name), folder / file))
        wanted = truth(releases[kind])
        images = "images/" if kind == "contrasts" else ""
        assert [
            (f"{images}{row.file_path}", list(row.captions))
            for row in rows
            if isinstance(row, SourceRow)
        ] == [
            (
                row["file_path"],
                [" ".join(text.split()) for text in row["captions"]],
            )  # the importer normalises whitespace
            for row in wanted
        ], (kind, format_name, file)
        assert all((folder / row["file_path"]).read_bytes() == row["image"] for row in wanted), (
            kind,
            format_name,
            file,
        )


def test_a_benchmark_of_tasks_is_published_with_its_candidates(
    releases: Releases, exports: Releases
) -> None:
    folder = exports["tasks/published"]
    rows = json.loads((folder / "recos.json").read_text(encoding="utf-8"))
    fields = ("id", "source", "task", "tier", "split", "file_path", "captions")
    assert rows == [{name: row[name] for name in fields} for row in truth(releases["tasks"])]
