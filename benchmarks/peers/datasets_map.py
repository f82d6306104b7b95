"""Seconds and memory of `datasets.map` with its cache, for the brightness of images.

python datasets_map.py FOLDER CACHE
"""

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

os.environ["HF_HOME"] = sys.argv[2]
os.environ["HF_HUB_OFFLINE"] = "1"

import datasets
import numpy as np


def brightness(row: dict[str, Any]) -> dict[str, float]:
    """Return the brightness of a row's image."""
    return {"brightness": float(np.asarray(row["image"].convert("RGB")).mean())}


datasets.disable_progress_bars()
files = sorted(str(one) for one in Path(sys.argv[1]).iterdir())
started, before = time.perf_counter(), time.process_time()
rows = datasets.Dataset.from_dict({"image": files}).cast_column("image", datasets.Image())
Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
mapped = rows.map(brightness, cache_file_name=f"{sys.argv[2]}/mapped.arrow")
assert len(mapped) == len(files)  # noqa: S101 - a figure of less work would be wrong
figures = {
    "step_wall": time.perf_counter() - started,
    "step_processor": time.process_time() - before,
    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}
print(json.dumps(figures))
