"""Images per second that one thread inspects, compared with decoding them only.

python -m benchmarks.inspect_images [FOLDER] [--seconds 10]

Without a folder, images of the demonstration world are used.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

from PIL import Image

from loupe.demo.worlds import write_people_world
from loupe.sources.images import InspectedImage, inspect_image


def rate(work: Callable[[Path], object], paths: list[Path], seconds: float) -> float:
    """Images per second of processor time."""
    start, done = time.process_time(), 0
    for path in cycle(paths):
        work(path)
        done += 1
        spent = time.process_time() - start
        if spent > seconds:
            break
    return done / spent


def decode(path: Path) -> None:
    with Image.open(path) as picture:
        picture.load()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    if arguments.folder is None:
        with tempfile.TemporaryDirectory() as folder:
            write_people_world(Path(folder), identities=4, train_identities=1)
            compare(Path(folder), arguments.seconds)
    else:
        compare(arguments.folder, arguments.seconds)


def compare(root: Path, seconds: float) -> None:
    paths = [
        path
        for path in sorted(root.rglob("*.*"))
        if isinstance(inspect_image(root, str(path.relative_to(root))), InspectedImage)
    ]
    megapixels = sum(Image.open(path).size[0] * Image.open(path).size[1] for path in paths) / 1e6
    print(f"{len(paths)} images of {megapixels / len(paths):.2f} megapixels on average")
    inspected = rate(lambda path: inspect_image(root, str(path.relative_to(root))), paths, seconds)
    decoded = rate(decode, paths, seconds)
    print(f"inspected {inspected:,.0f}/s, only decoded {decoded:,.0f}/s: {inspected / decoded:.2f}")


if __name__ == "__main__":
    main()
