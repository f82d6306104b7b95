"""What blind opponents find, with and without the encoder of releases.

    python -m benchmarks.shortcuts [--demonstration]

Image editors enlarge a photograph to a megapixel and reduce the result again, which leaves traces
whatever they edit. The first table says which encoding of photographs and of such copies hides
them. The second plants one shortcut after the other among photographs. The third counts false
alarms: releases of groups of four versions of a photograph, none of them the original. With
`--demonstration`, the demonstration of CCD is built, and released with and without the encoder.
"""

import argparse
import io
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table

from benchmarks.planted_duplicates import originals, photographs
from loupe.release.format.encoding import encode
from loupe.retrieval.shortcuts.features import (
    colour_features,
    file_features,
    name_features,
    pixel_features,
    size_features,
    text_features,
)
from loupe.retrieval.shortcuts.opponents import Evidence, corrected, find_wanted
from loupe.schemas.encoding import ImageEncoder, ReleasedImages
from loupe.schemas.shortcuts import BlindResult

MEGAPIXEL = 1024 * 1024
CLEAN_RELEASES, GROUPS, MEMBERS = 20, 30, 4
SIZE, DETAIL = (320, 240), (96, 72)
LANCZOS, BOX = Image.Resampling.LANCZOS, Image.Resampling.BOX
ENCODER = ImageEncoder(round_trip=True)
WORDS = "a red blue car dog house near under tree street with two".split()  # noqa: SIM905
Picture = Image.Image
console = Console()


def round_trip(picture: Picture) -> Picture:
    """Enlarge to a megapixel, in sides of a multiple of 32 pixels, and reduce again."""
    factor = (MEGAPIXEL / (picture.width * picture.height)) ** 0.5
    enlarged = [round(side * factor / 32) * 32 for side in picture.size]
    return picture.resize((enlarged[0], enlarged[1]), LANCZOS).resize(picture.size, LANCZOS)


def written(picture: Picture, image_format: str = "JPEG", **options: Any) -> bytes:
    """The bytes of a picture; JPEG as cameras and photo sites write it."""
    buffer = io.BytesIO()
    settings = {"quality": 90, "subsampling": 2} if image_format == "JPEG" else {}
    picture.save(buffer, image_format, **settings | options)
    return buffer.getvalue()


def saved(picture: Picture, quality: int = 90) -> Picture:
    """Save as JPEG and read again."""
    return Image.open(io.BytesIO(written(picture, quality=quality)))


def reduced(picture: Picture, factor: float, method: Image.Resampling) -> Picture:
    """Reduce both sides by a factor."""
    width, height = (round(side * factor) for side in picture.size)
    return picture.resize((width, height), method)


def released(picture: Picture, *, was_edited: bool) -> Picture:
    """The picture as the encoder of a release writes it."""
    made = encode(written(picture, "PNG"), ENCODER, picture.size, was_edited=was_edited)
    return Image.open(io.BytesIO(made.data))


ENCODINGS: dict[str, Callable[[Picture], Picture]] = {
    "as they are": lambda picture: picture,
    "JPEG 90": saved,
    "JPEG 75": lambda picture: saved(picture, 75),
    "3/4 of the sides, JPEG 90": lambda picture: saved(reduced(picture, 0.75, LANCZOS)),
    "half the sides (box), JPEG 90": lambda picture: saved(reduced(picture, 0.5, BOX)),
    "the same round trip, JPEG 90": lambda picture: saved(round_trip(picture)),
}


def told(pictures: Sequence[Picture], members: int) -> BlindResult:
    """Ask which member of each group is the first, by pixel statistics."""
    rows = [pixel_features(np.asarray(picture.convert("RGB"))) for picture in pictures]
    groups = np.arange(len(pictures)) // members
    is_first = np.arange(len(pictures)) % members == 0
    found = find_wanted("original image", Evidence.of("pixel statistics", rows), groups, is_first)
    if found is None:
        sys.exit(f"there are too few photographs: {len(pictures) // members} groups")
    return found


def halves(pictures: Sequence[Picture]) -> list[Picture]:
    """Both halves of each picture, so that there are enough groups."""
    found = []
    for one in pictures:
        middle = one.width // 2
        found += [one.crop((0, 0, middle, one.height))]
        found += [one.crop((middle, 0, one.width, one.height))]
    return found


def hidden(pool: Sequence[Picture]) -> Table:
    """Which encodings hide the round trip of an editor."""
    table = Table("both saved as", "pairs", "original found %", "95 %", "p")
    edited = [round_trip(picture) for picture in pool]
    pairs = {
        name: [encode_(one) for pair in zip(pool, edited, strict=True) for one in pair]
        for name, encode_ in ENCODINGS.items()
    }
    by_encoder = []
    for original, copy in zip(pool, edited, strict=True):
        by_encoder += [released(original, was_edited=False), released(copy, was_edited=True)]
    for name, pictures in {**pairs, "the encoder of releases": by_encoder}.items():
        found = told(pictures, 2)
        interval = f"{found.low:.0f}–{found.high:.0f}"
        values = (found.questions, f"{found.right:.0f}", interval, f"{found.p_value:.4f}")
        table.add_row(name, *map(str, values))
    return table


class Member(NamedTuple):
    """An image of a group as opponents see it."""

    data: bytes
    name: str
    place: float
    text: str


def clean_release(stream: Iterator[bytes], seed: int) -> list[Member]:
    """Groups of one photograph, each time with another detail, all encoded alike.

    Names, places and captions are a matter of chance, and so is which member is the original.
    """
    random = np.random.default_rng(seed)
    found = []
    for _ in range(GROUPS):
        photograph, other = (
            Image.open(io.BytesIO(next(stream))).convert("RGB").resize(SIZE, LANCZOS)
            for _ in range(2)
        )
        for _ in range(MEMBERS):
            picture = photograph.copy()
            left, top = (
                int(random.integers(side - part)) for side, part in zip(SIZE, DETAIL, strict=True)
            )
            picture.paste(other.crop((left, top, left + DETAIL[0], top + DETAIL[1])), (left, top))
            words = random.choice(WORDS, random.integers(8, 16))
            member = Member(
                encode(written(picture, "PNG"), ImageEncoder(), SIZE, was_edited=False).data,
                f"images/{random.integers(10**6)}.jpg",
                float(random.random()),
                " ".join(words),
            )
            found.append(member)
    return found


def asked(members: Sequence[Member]) -> dict[str, BlindResult]:
    """What all opponents reach; the first member of each group is its original."""
    pictures = [np.asarray(Image.open(io.BytesIO(one.data)).convert("RGB")) for one in members]
    sizes = [(pixels.shape[1], pixels.shape[0]) for pixels in pictures]
    files = [file_features(one.data, *size) for one, size in zip(members, sizes, strict=True)]
    evidence = [
        Evidence.of("pixel statistics", list(map(pixel_features, pictures))),
        Evidence.of("colours of the image", list(map(colour_features, pictures))),
        Evidence.of("file", files),
        Evidence.of("size", [size_features(*size) for size in sizes]),
        Evidence.of("file name", [name_features(one.name) for one in members]),
        Evidence.of("position", [{"row": one.place} for one in members]),
        Evidence.of("length of text", [text_features(one.text) for one in members]),
        Evidence.of_words("wording", [one.text for one in members]),
    ]
    groups = np.arange(len(members)) // MEMBERS
    is_first = np.arange(len(members)) % MEMBERS == 0
    found = [find_wanted("original image", one, groups, is_first) for one in evidence]
    return {one.opponent: one for one in corrected([one for one in found if one])}


def _again(one: Member, change: Callable[[Picture], bytes]) -> Member:
    return one._replace(data=change(Image.open(io.BytesIO(one.data)).convert("RGB")))


def _grey(picture: Picture) -> bytes:
    washed = Image.blend(picture, picture.convert("L").convert("RGB"), 0.3)
    return written(washed)


def _with_exif(picture: Picture) -> bytes:
    exif = Image.Exif()
    exif[0x0131] = "Editor 1.0"
    return written(picture, exif=exif)


PLANTED: dict[str, tuple[str, Callable[[Member], Member]]] = {
    "edits are PNG": ("file", partial(_again, change=lambda one: written(one, "PNG"))),
    "edits are JPEG 75": ("file", partial(_again, change=lambda one: written(one, quality=75))),
    "edits have EXIF": ("file", partial(_again, change=_with_exif)),
    "edits were JPEG 40 before": (
        "pixel statistics",
        partial(_again, change=lambda one: written(saved(one, 40).convert("RGB"))),
    ),
    "edits were resampled": (
        "pixel statistics",
        partial(_again, change=lambda one: written(round_trip(one))),
    ),
    "edits are less saturated": ("pixel statistics", partial(_again, change=_grey)),
    "edits are 8 pixels narrower": (
        "size",
        partial(_again, change=lambda one: written(one.crop((0, 0, one.width - 8, one.height)))),
    ),
    "edits are named after the original": (
        "file name",
        lambda one: one._replace(name=one.name.replace(".jpg", "_2.jpg")),
    ),
    "edits come later": ("position", lambda one: one._replace(place=one.place + 1)),
    "captions of edits are longer": (
        "length of text",
        lambda one: one._replace(text=f"{one.text} and that is all there is to see"),
    ),
    "captions of edits say one word": (
        "wording",
        lambda one: one._replace(text=f"now {one.text.partition(' ')[2]}"),
    ),
}


def planted() -> Table:
    """Plant each shortcut in a clean release, and ask the opponent that it is meant for."""
    members = clean_release(originals(GROUPS * 2), 0)
    table = Table("planted", "opponent", "original found %", "chance %", "p")
    for name, (opponent, change) in PLANTED.items():
        changed = [one if at % MEMBERS == 0 else change(one) for at, one in enumerate(members)]
        found = asked(changed)[opponent]
        row = (opponent, f"{found.right:.0f}", f"{found.chance:.0f}", f"{found.p_value:.4f}")
        table.add_row(name, *row)
    return table


def false_alarms() -> tuple[int, int, int]:
    """Count clean releases with an alarm, the tests of all of them, and those with p < 0.01."""
    releases = tests = low = 0
    stream = originals(CLEAN_RELEASES * GROUPS * 2)
    for seed in range(CLEAN_RELEASES):
        found = asked(clean_release(stream, seed)).values()
        tests += len(found)
        low += sum(one.p_value < 0.01 for one in found)
        releases += any(one.is_shortcut() for one in found)
    return releases, tests, low


def demonstration() -> Table:
    """Build the demonstration of CCD, and ask about it with and without the encoder."""
    from typer.testing import CliRunner

    from loupe.db.blobs import BlobStore
    from loupe.db.store import Store
    from loupe.flows.cli.main import app
    from loupe.models.profiles.settings import load_settings
    from loupe.release.build import build_release
    from loupe.release.contamination import Checks
    from loupe.release.shortcuts import certify

    table = Table("demonstration of CCD", "opponent", "original found %", "95 %", "chance %", "p")
    with tempfile.TemporaryDirectory() as home:
        environment = {"LOUPE_HOME": home}
        done = CliRunner().invoke(app, ["run", "build-ccd", "--in-process"], env=environment)
        if done.exit_code:
            sys.exit(done.output)
        own = load_settings(home=Path(home))
        store, blobs = Store.open_existing(own.database_url, own.home), BlobStore(own.blobs_url)
        encodings: dict[str, ReleasedImages] = {"stored": "stored", "encoded": ENCODER}
        for number, (name, images) in enumerate(encodings.items()):
            out = Path(home) / name
            checks = Checks(images=images)
            build_release(store, blobs, "ccd-demo", f"9.{number}.0", out, checks=checks)
            for one in certify(out).results:
                interval = f"{one.low:.0f}–{one.high:.0f}"
                values = (f"{one.right:.1f}", interval, f"{one.chance:.1f}", f"{one.p_value:.4f}")
                table.add_row(name, one.name, *values)
        store.close()
    return table


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demonstration", action="store_true")
    if parser.parse_args().demonstration:
        console.print(demonstration())
        return
    pool = [Image.fromarray(pixels) for pixels in photographs()]
    if not pool:
        sys.exit("there are no photographs in ../shared/data")
    console.print(hidden(halves(pool)))
    console.print(planted())
    releases, tests, low = false_alarms()
    console.print(
        f"clean: {releases} of {CLEAN_RELEASES} releases raise an alarm; {low} of {tests} tests "
        f"have p < 0.01"
    )


if __name__ == "__main__":
    main()
