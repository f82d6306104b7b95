"""How well the blind opponent of pixel statistics tells a photograph from its resized copy.

Image editors enlarge a photograph to a megapixel and reduce the result again, which leaves traces
whatever they edit. The table says whether a common encoding of both hides them. A second table
counts false alarms: groups of four photographs of which none differs from the others.

Run from the repository root: `python -m benchmarks.shortcuts`.
"""

import io
import sys
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table

from benchmarks.planted_duplicates import originals, photographs
from loupe.retrieval.shortcuts.features import file_features, pixel_features
from loupe.retrieval.shortcuts.opponents import Evidence, find_wanted
from loupe.schemas.shortcuts import BlindResult

MEGAPIXEL = 1024 * 1024
CLEAN_RELEASES, GROUPS, MEMBERS = 20, 12, 4
LANCZOS, BOX = Image.Resampling.LANCZOS, Image.Resampling.BOX
Picture = Image.Image


def round_trip(picture: Picture) -> Picture:
    """Enlarge to a megapixel, in sides of a multiple of 32 pixels, and reduce again."""
    factor = (MEGAPIXEL / (picture.width * picture.height)) ** 0.5
    enlarged = [round(side * factor / 32) * 32 for side in picture.size]
    return picture.resize((enlarged[0], enlarged[1]), LANCZOS).resize(picture.size, LANCZOS)


def saved(picture: Picture, quality: int = 90) -> Picture:
    """Save as JPEG and read again."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality, subsampling=2)
    return Image.open(buffer)


def reduced(picture: Picture, factor: float, method: Image.Resampling) -> Picture:
    """Reduce both sides by a factor."""
    width, height = (round(side * factor) for side in picture.size)
    return picture.resize((width, height), method)


ENCODINGS: dict[str, Callable[[Picture], Picture]] = {
    "as they are": lambda picture: picture,
    "JPEG 90": saved,
    "JPEG 75": lambda picture: saved(picture, 75),
    "3/4 of the sides, JPEG 90": lambda picture: saved(reduced(picture, 0.75, LANCZOS)),
    "half the sides (box), JPEG 90": lambda picture: saved(reduced(picture, 0.5, BOX)),
    "the same round trip, JPEG 90": lambda picture: saved(round_trip(picture)),
}


def told(pictures: Sequence[Picture], members: int) -> BlindResult | None:
    """Ask which member of each group is the first, by pixel statistics."""
    rows = [pixel_features(np.asarray(picture.convert("RGB"))) for picture in pictures]
    groups = np.arange(len(pictures)) // members
    is_first = np.arange(len(pictures)) % members == 0
    return find_wanted("original image", Evidence.of("pixel statistics", rows), groups, is_first)


def false_alarms() -> tuple[int, int]:
    """Count the tests of clean groups with p < 0.01, by pixel statistics and by files."""
    alarms = tests = 0
    stream = originals(CLEAN_RELEASES * GROUPS * MEMBERS)
    for _ in range(CLEAN_RELEASES):
        files = [next(stream) for _ in range(GROUPS * MEMBERS)]
        pictures = [Image.open(io.BytesIO(data)).convert("RGB") for data in files]
        described = [
            file_features(data, *picture.size)
            for data, picture in zip(files, pictures, strict=True)
        ]
        by_file = find_wanted(
            "original image",
            Evidence.of("file", described),
            np.arange(len(files)) // MEMBERS,
            np.arange(len(files)) % MEMBERS == 0,
        )
        for found in (told(pictures, MEMBERS), by_file):
            tests += found is not None
            alarms += found is not None and found.p_value < 0.01
    return alarms, tests


def main() -> None:
    """Print both tables."""
    pool = [Image.fromarray(pixels) for pixels in photographs()]
    if not pool:
        sys.exit("there are no photographs in ../shared/data")
    pairs = [one for picture in pool for one in (picture, round_trip(picture))]
    table = Table("both saved as", "pairs", "original found %", "95 %", "p")
    for name, encode in ENCODINGS.items():
        found = told([encode(picture) for picture in pairs], 2)
        if found is not None:
            interval = f"{found.low:.0f}–{found.high:.0f}"
            values = (found.questions, f"{found.right:.0f}", interval, f"{found.p_value:.4f}")
            table.add_row(name, *map(str, values))
    console = Console()
    console.print(table)
    alarms, tests = false_alarms()
    console.print(f"clean groups: {alarms} of {tests} tests with p < 0.01")


if __name__ == "__main__":
    main()
