"""Contamination: recall of planted copies and speed of comparing a release with other images.

    python -m benchmarks.contamination [--images 100000] [--others 1000000] [--originals 300]

Recall is the share of planted variants (see `benchmarks.planted_duplicates`) that are reported as
shared with a release of the originals, for several hash distances, and the same share of unrelated
images. The variants are in a folder under other names, among equally many other images.
Speed is that of finding the nearest of a million hashes for each of a hundred thousand, for random
hashes and for hashes with correlated bits. It is compared with exclusive or and bit counts of
numpy over all pairs and with `faiss.IndexBinaryFlat`, if installed; both are measured on a sample
and scaled linearly. Finally, a complete comparison including captions and files is timed, with the
additional memory it needs.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.near_duplicates import correlated_hashes, random_hashes
from benchmarks.planted_duplicates import VARIANTS, originals, photographs, planted
from loupe.release.contamination import Other, OwnImages, SeenImage, compare, look_at
from loupe.release.other_datasets import folder_of_images
from loupe.retrieval.similarity.hamming import nearest_hashes
from loupe.schemas.similarity import SEARCHED_BITS, ContaminationLimits

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
    table = Table(
        title=f"{count} originals, {len(photographs())} photographs; % reported as shared"
    )
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
    """Number of our images within each distance of these pictures, stored under other names."""
    with tempfile.TemporaryDirectory() as folder:
        for at, data in enumerate(pictures):
            (Path(folder) / f"renamed-{at}.jpg").write_bytes(data)
        found = compare(own, folder_of_images(Path(folder)))
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
                console.print(f"  wanted: at least {TARGET_RATIO:g} times as long")


def _by_nearest(left: Hashes, right: Hashes) -> object:
    return nearest_hashes(left, right, SEARCHED_BITS)


def _seconds(search: Callable[[Hashes, Hashes], object], left: Hashes, right: Hashes) -> float:
    started = time.perf_counter()
    search(left, right)
    return time.perf_counter() - started


def _peers() -> dict[str, Callable[[Hashes, Hashes], object]]:
    """Other methods of searching all pairs."""
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


def synthetic_images(hashes: Hashes) -> Iterator[SeenImage]:
    """Images with captions and these hashes."""
    for place, look in enumerate(hashes):
        captions = (f"A person number {place} walks by.", f"Number {place} wears a coat.")
        yield SeenImage(f"{place:07}.jpg", f"{place:064x}", int(look), captions=captions)


def report_comparison(images: int, others: int, console: Console) -> None:
    random = np.random.default_rng(1)
    theirs, ours = random_hashes(others, random), random_hashes(images, random)
    ours[: images // 100] = theirs[: images // 100]
    own = OwnImages(one._replace(split="test") for one in synthetic_images(ours))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    found = compare(own, Other("others", "dataset", partial(synthetic_images, theirs)))
    seconds = time.perf_counter() - started
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    leaks = {one.measure: one.leaks for one in found.measures}
    console.print(
        f"{images:,} images and {2 * images:,} captions compared with {others:,} and "
        f"{2 * others:,}: {seconds:.1f} s, {more:,.0f} MB more; leaks {leaks}"
    )


if __name__ == "__main__":
    main()
