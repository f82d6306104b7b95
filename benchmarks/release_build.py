"""Build a release, compared with copying the same files.

python -m benchmarks.release_build [--images 2000 8000] [--kilobytes 20]

Each size runs in a separate process, so that memory peaks are independent.
"""

import argparse
import json
import random
import shutil
import tempfile
from pathlib import Path

from benchmarks.measuring import elapsed, peak_mib, run_apart
from loupe.db.blobs import BlobStore
from loupe.db.store import Store
from loupe.release.build import build_release
from tests.release.worlds import DATASET, SOURCES, Composer, picture, store_world


def fill(home: Path, images: int, kilobytes: int, rewrites: int = 2) -> None:
    """Store a dataset of noisy images with two captions each, and rewrites of each caption."""
    world = Composer()
    side = int((kilobytes * 1024 / 0.8 / 2) ** 0.5)
    originals = [picture(number, (side, 2 * side)) for number in range(50)]
    for number in range(images):
        of = SOURCES[number % 3]
        tail = random.Random(number).randbytes(16)  # bytes after the end of a JPEG are not decoded
        data = originals[number % 50] + tail
        image = world.image(of, str(number // 9), f"{number}.jpg", sampled=False, data=data)
        for position in range(2):
            text = f"A tall person {number} in a blue coat with a bag, seen {position}."
            caption = world.caption(image, of, text, position)
            for again in range(rewrites):
                world.rewrite(caption, f"{text} Said again {again}.")
    store_world(home, world.contents()).store.close()


def measure(home: Path) -> None:
    """Print one line of JSON with the seconds of each task and the memory peak."""
    store = Store.open(f"sqlite:///{home / 'loupe.db'}")
    blobs = BlobStore(str(home / "blobs"))
    build_release(store, blobs, DATASET, "0.0.1", home / "warm-up")
    build = elapsed(lambda: build_release(store, blobs, DATASET, "1.0.0", home / "out"))
    peak = peak_mib()
    copy = elapsed(lambda: shutil.copytree(home / "out", home / "copy"))
    size = sum(path.stat().st_size for path in (home / "out").rglob("*") if path.is_file())
    print(json.dumps({"build": build, "copy": copy, "megabytes": size / 1e6, "peak": peak}))


def report(images: int, found: dict[str, float]) -> None:
    size = found["megabytes"]
    print(f"{images:,} images, {size:,.0f} MB, memory peak {found['peak']:,.0f} MiB")
    print(
        f"  build  {images / found['build']:8,.0f} images/s, "
        f"{found['copy'] / found['build']:.2f} of the speed of copying the result"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--kilobytes", type=int, default=20)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure)
        return
    for images in arguments.images:
        with tempfile.TemporaryDirectory() as home:
            fill(Path(home), images, arguments.kilobytes)
            report(images, run_apart("release_build", "--measure", home))


if __name__ == "__main__":
    main()
