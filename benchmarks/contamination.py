"""Contamination: what is found of planted copies, and how fast a release is compared with another.

    python -m benchmarks.contamination [--images 100000] [--others 1000000] [--originals 300]

Recall is the share of planted variants (see `benchmarks.planted_duplicates`), in a folder under
other names among as many other images, that a release of the originals is said to share, by the
bits that count as a leak; beside it the share of the others that are.

Speed is that of the search for the nearest of a million hashes for each of a hundred thousand, over
random hashes and over hashes whose bits hang together; beside it numpy's exclusive or and count of
bits over all pairs, and `faiss.IndexBinaryFlat` where that is installed, both on a part of ours
and scaled, as they take as long for every one. Then a whole comparison, captions and files too,
with the memory that it takes beyond what it is given.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.near_duplicates import correlated_hashes, random_hashes
from benchmarks.planted_duplicates import VARIANTS, originals, photographs, planted
from release.contamination import OwnImages, SeenImage, compare, look_at
from release.other_datasets import FolderOfImages
from retrieval.similarity.hamming import nearest_hashes
from schemas.similarity import SEARCHED_BITS, ContaminationLimits, OtherKind

Hashes = NDArray[np.uint64]
SAMPLE = 500
TARGET_RECALL, TARGET_RATIO, TARGET_SECONDS = 98.0, 20.0, 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--others", type=int, default=1_000_000)
    parser.add_argument("--originals", type=int, default=300)
    arguments = parser.parse_args()
    console = Console(width=110)
    report_recall(arguments.originals, console)
    report_search(arguments.images, arguments.others, console)
    report_comparison(arguments.images, arguments.others, console)


def report_recall(count: int, console: Console) -> None:
    images = list(originals(2 * count))
    ours, others = images[:count], images[count:]
    own = _own(ours)
    table = Table(title=f"{count} originals, {len(photographs())} photographs; % said to be shared")
    table.add_column("variant")
    shown = (0, 2, 4, 6, 8, 10)
    for most in shown:
        table.add_column(f"up to {most} bits" if most else "0 bits", justify="right")
    of_each = min(100, count)
    variants = list(planted(ours, of_each))
    default = ContaminationLimits().hash_bits
    for kind in ("others", *VARIANTS):
        of_kind = [one for one in variants if one.kind == kind]
        if kind != "others":
            own = _own([ours[one.original] for one in of_kind])
        found = _within(own, [one.data for one in of_kind] or others)
        share = {most: 100 * found[most] / len(own) for most in shown}
        table.add_row(kind, *(f"{share[most]:.1f}" for most in shown))
        if kind not in ("flip", "others") and share[default] < TARGET_RECALL:
            console.print(f"{kind}: below {TARGET_RECALL} % at {default} bits")
    console.print(table)


def _own(pictures: list[bytes]) -> OwnImages:
    looks = map(look_at, pictures)
    return OwnImages(
        SeenImage(f"images/{at}.jpg", look.sha256, look.perceptual_hash, "test")
        for at, look in enumerate(looks, 1)
    )


def _within(own: OwnImages, pictures: list[bytes]) -> dict[int, int]:
    """How many of ours are how near to any of these pictures, under other names in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        for at, data in enumerate(pictures):
            (Path(folder) / f"renamed-{at}.jpg").write_bytes(data)
        found = compare(own, FolderOfImages(Path(folder)))
    looks = next(one for one in found.measures if one.measure == "perceptual_hash")
    return dict(looks.splits[0].within)


def report_search(images: int, others: int, console: Console) -> None:
    random = np.random.default_rng(0)
    _by_nearest(*random.integers(0, 2**64, (2, 5000), np.uint64))  # compiles
    for name, make in (("random", random_hashes), ("correlated", correlated_hashes)):
        theirs = make(others, random)
        ours = make(images, random)
        seconds = _seconds(_by_nearest, ours, theirs)
        console.print(
            f"{images:,} {name} hashes, the nearest of {others:,} within {SEARCHED_BITS} bits: "
            f"{seconds:.1f} s (wanted: below {TARGET_SECONDS:g})"
        )
        for peer, search in _peers().items():
            taken = _seconds(search, ours[:SAMPLE], theirs) * images / SAMPLE
            ratio = taken / seconds
            console.print(f"  {peer}: {taken:,.0f} s, {ratio:.0f} times as long")
            if peer.startswith("numpy") and ratio < TARGET_RATIO:
                console.print(f"  wanted: {TARGET_RATIO:g} times as long at least")


def _by_nearest(left: Hashes, right: Hashes) -> object:
    return nearest_hashes(left, right, SEARCHED_BITS)


def _seconds(search: Callable[[Hashes, Hashes], object], left: Hashes, right: Hashes) -> float:
    started = time.perf_counter()
    search(left, right)
    return time.perf_counter() - started


def _peers() -> dict[str, Callable[[Hashes, Hashes], object]]:
    """Ways to look at all pairs."""
    peers: dict[str, Callable[[Hashes, Hashes], object]] = {"numpy, all pairs": _by_numpy}
    try:
        import faiss  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return peers

    def by_faiss(left: Hashes, right: Hashes) -> object:
        index = faiss.IndexBinaryFlat(64)
        index.add(right.view(np.uint8).reshape(-1, 8))
        return index.search(left.view(np.uint8).reshape(-1, 8), 1)

    return {**peers, "faiss.IndexBinaryFlat": by_faiss}


def _by_numpy(left: Hashes, right: Hashes) -> object:
    return [int(np.argmin(np.bitwise_count(right ^ one))) for one in left]


class _Made:
    """So many images with captions, as they would be read."""

    name = "others"
    kind: OtherKind = "dataset"
    release_id: str | None = None

    def __init__(self, hashes: Hashes) -> None:
        self._hashes = hashes

    def contents(self) -> Iterator[SeenImage]:
        for place, look in enumerate(self._hashes):
            said = (f"A person number {place} walks by.", f"Number {place} wears a coat.")
            yield SeenImage(f"{place:07}.jpg", f"{place:064x}", int(look), captions=said)


def report_comparison(images: int, others: int, console: Console) -> None:
    random = np.random.default_rng(1)
    theirs, ours = random_hashes(others, random), random_hashes(images, random)
    ours[: images // 100] = theirs[: images // 100]
    own = OwnImages(one._replace(split="test") for one in _Made(ours).contents())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    found = compare(own, _Made(theirs))
    seconds = time.perf_counter() - started
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    leaks = {one.measure: one.leaks for one in found.measures}
    console.print(
        f"{images:,} images and {2 * images:,} captions compared with {others:,} and "
        f"{2 * others:,}: {seconds:.1f} s, {more:,.0f} MB more; leaks {leaks}"
    )


if __name__ == "__main__":
    main()
