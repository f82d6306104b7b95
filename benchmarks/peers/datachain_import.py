"""Decode, check and digest images with datachain; runs in a separate environment.

python datachain_import.py FILE FOLDER

FILE has a JSON object with `file_name` and `captions` in each line.
"""

import hashlib
import io
import json
import os
import sys
from pathlib import Path

file, folder = Path(sys.argv[1]), Path(sys.argv[2])
os.environ["DATACHAIN_ROOT_DIR"] = str(folder)
os.environ["DATACHAIN_NO_ANALYTICS"] = "1"

import datachain  # noqa: E402 - reads its environment when imported
from PIL import Image  # noqa: E402


def facts(name: str) -> str:
    """Return the digest and size of an image that decodes."""
    data = (file.parent / name).read_bytes()
    with Image.open(io.BytesIO(data)) as picture:
        picture.load()
        width, height = picture.size
    return f"{hashlib.sha256(data).hexdigest()} {width} {height}"


rows = [json.loads(line) for line in file.read_text().splitlines()]
chain = datachain.read_values(
    name=[row["file_name"] for row in rows],
    captions=["\n".join(row["captions"]) for row in rows],
)
chain.map(facts, params=["name"], output={"facts": str}).save("checked")
