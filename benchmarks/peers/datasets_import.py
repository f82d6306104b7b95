"""Decode, check and digest images with Hugging Face datasets; runs in a separate environment.

python datasets_import.py FILE FOLDER

FILE has a JSON object with `file_name` and `captions` in each line.
"""

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

os.environ["HF_DATASETS_OFFLINE"] = "1"

import datasets
from PIL import Image

file, folder = Path(sys.argv[1]), Path(sys.argv[2])


def facts(row: dict[str, Any]) -> dict[str, Any]:
    """Return the digest and size of an image that decodes."""
    path = file.parent / row["file_name"]
    with Image.open(path) as picture:
        picture.load()
        width, height = picture.size
    return {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "size": [width, height]}


rows = datasets.load_dataset("json", data_files=str(file), split="train", cache_dir=str(folder))
rows.map(facts).save_to_disk(folder / "checked")
