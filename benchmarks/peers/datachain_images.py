"""Seconds and memory of datachain with caching, for the brightness of images.

python datachain_images.py FOLDER CACHE
"""

import json
import os
import resource
import sys
import time

os.environ["DATACHAIN_ROOT_DIR"] = sys.argv[2]
os.environ["DATACHAIN_NO_ANALYTICS"] = "1"

import datachain
import numpy as np
from datachain import ImageFile


def brightness(file: ImageFile) -> float:
    """Return the brightness of an image."""
    return float(np.asarray(file.read().convert("RGB")).mean())


def processor_seconds() -> float:
    """Processor seconds of this process and its finished child processes."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


started, before = time.perf_counter(), processor_seconds()
files = datachain.read_storage(f"file://{sys.argv[1]}", type="image").settings(cache=True)
saved = files.map(brightness=brightness).save("mapped")
assert saved.count() == len(os.listdir(sys.argv[1]))  # noqa: S101, PTH208 - as of datasets_map
figures = {
    "step_wall": time.perf_counter() - started,
    "step_processor": processor_seconds() - before,
    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}
print(json.dumps(figures))
