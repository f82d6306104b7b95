"""A ten-line step on small images, beside `datasets.map`, datachain and daft, which keep results.

    python -m benchmarks.own_step [--images 20000] [--rounds 3] [--environments FOLDER]

The step decodes an image and measures its brightness. Loupe first imports the images (it reads and
checks each file, stores its bytes and a record) and then runs the step, with claims, provenance
and one transaction a chunk. `datasets` maps over the same files and writes its cache; datachain
lists the folder, maps and saves a dataset; daft maps into a Parquet file, without a cache. These
two run in environments of their own, which `uv` makes in FOLDER (by default a temporary one); what
cannot be had is left out, and the output says so. Each
measurement is a process of its own; the programs take turns, and each figure is the median of the
rounds. Processor seconds are of the work alone, without the imports of libraries.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.measuring import peak_mib, run_apart
from benchmarks.peers import Peer, installed

PEERS = Path(__file__).parent / "peers"
STEPS = (
    Peer("datachain", ("datachain==0.62.0", "pillow"), "datachain_images.py"),
    Peer("daft", ("daft==0.7.26", "numpy", "pillow"), "daft_images.py"),
)
SIDE_PX = 64
Figures = Mapping[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--environments", type=Path)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_images(folder, arguments.images)
        environments = arguments.environments or folder
        report(rounds(folder, arguments.rounds, environments), arguments.images)


def write_images(folder: Path, count: int) -> None:
    """Write small JPEG files of noise, and a table that names them."""
    rng = np.random.default_rng(1)
    (folder / "images").mkdir()
    lines = ["image,title"]
    for number in range(count):
        coarse = rng.integers(0, 255, (8, 8, 3), np.uint8)
        picture = Image.fromarray(coarse).resize((SIDE_PX, SIDE_PX))
        picture.save(folder / "images" / f"{number:06}.jpg")
        lines.append(f"{number:06}.jpg,Picture number {number}.")
    (folder / "images.csv").write_text("\n".join(lines), encoding="utf-8")


def measure(folder: Path) -> dict[str, float]:
    """Import the images, run the step, and run both again; return seconds and the memory peak."""
    import loupe

    class Brightness(loupe.Record, kind="brightness"):
        value: float

    @loupe.step(version="1")
    def brightness(image: loupe.Image) -> Brightness:
        return Brightness(value=float(image.pixels.mean()))

    def run(*steps: Any) -> Callable[[], object]:
        table = loupe.source(
            "csv",
            str(folder / "images.csv"),
            images=str(folder / "images"),
            captions=["title"],
            licence="CC0-1.0",
        )
        pipeline = loupe.Pipeline("bench", version="0.1.0", sources=[table], steps=steps)
        return lambda: pipeline.run(quiet=True)

    run()  # what is imported when a pipeline is made
    found: dict[str, float] = {}
    for name, work in {
        "import": run(),
        "step": run(brightness),
        "again": run(brightness),
    }.items():
        started, processor = time.perf_counter(), processor_seconds()
        work()
        found[f"{name}_wall"] = time.perf_counter() - started
        found[f"{name}_processor"] = processor_seconds() - processor
    return {**found, "peak_mib": peak_mib()}


def processor_seconds() -> float:
    """Processor seconds of this process and its finished child processes."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def rounds(folder: Path, count: int, environments: Path) -> dict[str, list[Figures]]:
    """Measure all programs in turn; return the figures of each round by program."""
    peers = list(installed(environments, STEPS))
    found: dict[str, list[Figures]] = {}
    for number in range(count):
        home = folder / f"round-{number}"
        variables = {"LOUPE_HOME": str(home / "loupe")}
        own: Figures = run_apart("own_step", "--measure", folder, variables=variables)
        found.setdefault("Loupe", []).append(own)
        theirs = peer(sys.executable, "datasets_map.py", folder, home / "datasets")
        found.setdefault("datasets", []).append(theirs)
        for one, python in peers:
            theirs = peer(python, one.script, folder, home / one.name)
            found.setdefault(one.name, []).append(theirs)
    return found


def peer(python: str | Path, script: str, folder: Path, cache: Path) -> Figures:
    """Run a script of `benchmarks/peers` on the images; return what it prints last, as JSON."""
    command = [str(python), str(PEERS / script), str(folder / "images"), str(cache)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def report(found: Mapping[str, list[Figures]], images: int) -> None:
    """Print the medians, and how they relate to those of `datasets.map`."""
    print(f"{images:,} images of {SIDE_PX} × {SIDE_PX} pixels; medians, seconds and MiB")
    base = median(found["datasets"], "step_processor")
    for name, figures in found.items():
        for key in figures[0]:
            value = median(figures, key)
            ratio = f"{value / base:8.1f} × datasets.map" if key.endswith("processor") else ""
            print(f"{name:12}{key:20}{value:10.2f}{ratio}")


def median(figures: list[Figures], key: str) -> float:
    """Return the median of a figure over the rounds."""
    return statistics.median(one[key] for one in figures)


if __name__ == "__main__":
    main()
