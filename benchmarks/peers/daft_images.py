"""Seconds and memory of daft, which keeps a Parquet file, for the brightness of images.

python daft_images.py FOLDER CACHE
"""

import json
import resource
import sys
import time
from pathlib import Path

import daft
import numpy as np
from PIL import Image


@daft.func
def brightness(path: str) -> float:
    """Return the brightness of an image."""
    with Image.open(path) as picture:
        return float(np.asarray(picture.convert("RGB")).mean())


files = sorted(str(one) for one in Path(sys.argv[1]).iterdir())
started, before = time.perf_counter(), time.process_time()
rows = daft.from_pydict({"path": files})
rows.with_column("brightness", brightness(rows["path"])).write_parquet(sys.argv[2])
assert daft.read_parquet(f"{sys.argv[2]}/*.parquet").count_rows() == len(files)  # noqa: S101 - as of datasets_map
figures = {
    "step_wall": time.perf_counter() - started,
    "step_processor": time.process_time() - before,
    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}
print(json.dumps(figures))
