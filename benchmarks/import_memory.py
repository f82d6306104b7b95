"""Memory and speed of reading large generated annotation files of each format.

    python -m benchmarks.import_memory [--megabytes 500] [--format ufine6926]

Each format is read in a separate process by both passes of `read_source`. Reported are the speed
in processor time and the growth of the peak resident size compared with a file of 1 MB.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import peak_mib, run_apart

CAPTION = (
    "A man in his thirties with short black hair wears a dark blue jacket over a white shirt, "
    "grey trousers and black shoes, and carries a brown leather bag in his left hand. "
)


def pedes(index: int) -> dict[str, Any]:
    captions = [f"{CAPTION}{index}.", f"{CAPTION}{index} again."]
    path = f"images/{index}.jpg"
    return {"id": index // 4, "split": "train", "file_path": path, "captions": captions}


def json_lines(index: int) -> dict[str, Any]:
    return {"file_name": f"{index:012}.jpg", "captions": [{"caption": f"{CAPTION}{index}."}] * 5}


def karpathy(index: int) -> dict[str, Any]:
    sentences = [{"raw": f"{CAPTION}{index}.", "tokens": CAPTION.split()}] * 2
    return {"filename": f"{index:012}.jpg", "split": "restval", "sentences": sentences}


def sized(record: Callable[[int], dict[str, Any]], size: int) -> Iterator[str]:
    """Yield records as JSON until they reach `size` bytes."""
    written = index = 0
    while written < size:
        text = json.dumps(record(index))
        written += len(text)
        index += 1
        yield text


def write_list(path: Path, size: int) -> None:
    with path.open("w") as file:
        file.write("[")
        for at, text in enumerate(sized(pedes, size)):
            file.write(f",\n{text}" if at else text)
        file.write("]")


def write_lines(path: Path, size: int) -> None:
    with path.open("w") as file:
        file.writelines(f"{text}\n" for text in sized(json_lines, size))


def write_karpathy(path: Path, size: int) -> None:
    with path.open("w") as file:
        file.write('{"images": [')
        for at, text in enumerate(sized(karpathy, size)):
            file.write(f", {text}" if at else text)
        file.write('], "dataset": "coco"}')


def write_coco(path: Path, size: int) -> None:
    images = max(1, size // 1400)
    with path.open("w") as file:
        file.write('{"info": {}, "annotations": [')
        for index in range(5 * images):
            text = json.dumps({"image_id": index // 5, "id": index, "caption": CAPTION})
            file.write(f", {text}" if index else text)
        file.write('], "images": [')
        for index in range(images):
            text = json.dumps({"id": index, "file_name": f"{index:012}.jpg"})
            file.write(f", {text}" if index else text)
        file.write("]}")


WRITERS: dict[str, Callable[[Path, int], None]] = {
    "ufine6926": write_list,
    "json-lines": write_lines,
    "karpathy-coco": write_karpathy,
    "coco-captions": write_coco,
}


def measure(format_name: str, path: Path) -> None:
    """Read `path`; print rows, processor seconds and peak resident size in MiB as JSON."""
    from loupe.sources.importer import importer_for, read_source

    start = time.process_time()
    rows = sum(1 for _ in read_source(importer_for(format_name), path))
    seconds = time.process_time() - start
    print(json.dumps({"rows": rows, "seconds": seconds, "peak_mib": peak_mib()}))


def measured(format_name: str, folder: Path, size: int) -> dict[str, float]:
    path = folder / f"{format_name}.json"
    WRITERS[format_name](path, size)
    figures: dict[str, float] = run_apart("import_memory", "--read", format_name, path)
    figures["megabytes"] = path.stat().st_size / 1e6
    path.unlink()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--format", choices=WRITERS, action="append")
    parser.add_argument("--read", nargs=2, metavar=("FORMAT", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        measure(arguments.read[0], Path(arguments.read[1]))
        return
    print(
        f"{'format':<16}{'MB':>6}{'rows':>10}{'rows/s':>9}{'MB/s':>6}{'peak MiB':>10}{'growth':>8}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.format or WRITERS:
            small = measured(name, Path(folder), 1)
            large = measured(name, Path(folder), arguments.megabytes * 1_000_000)
            rate, speed = (large[key] / large["seconds"] for key in ("rows", "megabytes"))
            growth = large["peak_mib"] - small["peak_mib"]
            print(
                f"{name:<16}{large['megabytes']:>6.0f}{large['rows']:>10,.0f}{rate:>9,.0f}"
                f"{speed:>6.1f}{large['peak_mib']:>10.1f}{growth:>8.1f}"
            )


if __name__ == "__main__":
    main()
