"""Rows per second of map-and-save in datachain; runs in a separate environment.

python datachain_map.py ROWS FOLDER
"""

import os
import sys
import time

rows, folder = int(sys.argv[1]), sys.argv[2]
os.environ["DATACHAIN_ROOT_DIR"] = folder
os.environ["DATACHAIN_NO_ANALYTICS"] = "1"

import datachain  # noqa: E402 - reads its environment when imported


def copy(text: str) -> str:
    """Return the text unchanged."""
    return text


chain = datachain.read_values(
    position=list(range(rows)),
    text=[f"caption number {number} of a person in a red coat" for number in range(rows)],
).persist()
started = time.perf_counter()
chain.map(copy, params=["text"], output={"copied": str}).save("copied")
print(rows / (time.perf_counter() - started))
