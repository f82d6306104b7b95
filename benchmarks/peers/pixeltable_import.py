"""Decode, check and digest images with pixeltable; runs in a separate environment.

python pixeltable_import.py FILE FOLDER

FILE has a JSON object with `file_name` and `captions` in each line. The database server that
pixeltable starts is ended.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

file, folder = Path(sys.argv[1]), Path(sys.argv[2])
home = folder / "home"
home.mkdir()
os.environ["PIXELTABLE_HOME"] = str(home)

import pixeltable  # noqa: E402 - reads its environment when imported
from pixeltable_digest import digest  # noqa: E402

rows = [json.loads(line) for line in file.read_text().splitlines()]
columns = {"picture": pixeltable.Image, "path": pixeltable.String, "caption": pixeltable.String}
table = pixeltable.create_table("pictures", columns)
table.add_computed_column(size=table.picture.width)  # decodes each
table.add_computed_column(sha256=digest(table.path))
paths = [str(file.parent / row["file_name"]) for row in rows]
table.insert(
    {"picture": path, "path": path, "caption": "\n".join(row["captions"])}
    for path, row in zip(paths, rows, strict=True)
)

lock = home / "pgdata" / "postmaster.pid"
os.kill(int(lock.read_text().split()[0]), signal.SIGINT)
while lock.exists():
    time.sleep(0.1)
