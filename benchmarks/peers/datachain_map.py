"""Rows per second of datachain's map-and-save; runs in an environment of its own.

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
    """The text as it is."""
    return text


chain = datachain.read_values(
    position=list(range(rows)),
    text=[f"caption number {number} of a person in a red coat" for number in range(rows)],
).persist()
started = time.perf_counter()
chain.map(copy, params=["text"], output={"copied": str}).save("copied")
print(rows / (time.perf_counter() - started))
