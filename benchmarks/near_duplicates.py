"""Near-duplicates: recall and precision on planted variants, speed of hashing and search.

    python -m benchmarks.near_duplicates [--originals 3000] [--hashes 1000000] [--similar 2000]
        [--embeddings 10000 100000 1000000] [--peer PYTHON]

Variants of originals (see `benchmarks.planted_duplicates`) are searched among the originals. A
found pair is correct if both images come from one original; flips count as pairs, too. The results
are compared with `imagehash.phash` on the same images, with equal hashes and with hashes within six
bits, as is common practice; it cannot find flips.
Hashing is measured in processor seconds of one thread, including decoding, on the same files:
Loupe's fingerprint (which also computes the SHA-256, the hash of the mirror image and the
spectrum), `imagehash.phash`, and `imagededup` in a separate environment (created with `uv` unless
`--peer` is given). The minimum of three rounds counts.
Finding pairs and selecting kept images is also measured for images that all look similar (with a
quadratic number of pairs) and for images that all differ.
Pairs of near embeddings (512 dimensions) are searched among random rows, 1 % of which have a near
row. This is compared with the float32 product of all rows with all (beyond the limit of the exact
search: a thousandth of the rows with all, times a thousand).
The hash search uses random hashes with planted near ones, and hashes with correlated bits like
those of real images.
"""

import argparse
import io
import resource
import subprocess
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import imagehash
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console
from rich.table import Table

from benchmarks.peers import Peer, python_of
from benchmarks.planted_duplicates import VARIANTS, Planted, originals, photographs, planted
from loupe.retrieval.similarity.distances import close_rows, single_precision
from loupe.retrieval.similarity.hamming import close_pairs
from loupe.retrieval.similarity.near_duplicates import (
    find_near_duplicates,
    fingerprint,
)
from loupe.retrieval.similarity.spectrum import small_colours
from loupe.schemas.similarity import ImageFingerprint, NearDuplicateSettings

PEER = Peer("imagededup", ("imagededup==0.3.3.post2",), "imagededup_hash.py")
OF_EACH = 300
HASHED = 400
ROUNDS = 3
RADIUS = 6
TARGET_RECALL, TARGET_PRECISION, TARGET_RATIO, TARGET_SECONDS = 98.0, 99.0, 3.0, 60.0
TARGET_PRODUCT = 1.6
DIMENSION, DISTANCE, NOISE = 512, 0.02, 0.17  # noise for a distance of 0.014

Pairs = set[tuple[int, int]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--originals", type=int, default=3000)
    parser.add_argument("--hashes", type=int, default=1_000_000)
    parser.add_argument("--similar", type=int, default=2000)
    parser.add_argument("--embeddings", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--peer", type=Path, help="Python with imagededup installed")
    arguments = parser.parse_args()
    console = Console(width=110)
    images = list(originals(arguments.originals))
    variants = list(planted(images, min(OF_EACH, len(images))))
    report_recall(images, variants, console)
    report_hashing(images[:HASHED], arguments.peer, console)
    report_clusters(arguments.similar, console)
    report_search(arguments.hashes, console)
    for count in arguments.embeddings:
        report_embeddings(count, console)


def report_recall(images: list[bytes], variants: list[Planted], console: Console) -> None:
    owners = [*range(len(images)), *(one.original for one in variants)]
    data = [*images, *(one.data for one in variants)]
    methods: dict[str, Callable[[Sequence[bytes]], Pairs]] = {
        "Loupe": found_by_loupe,
        "pHash equal": lambda all_: found_by_phash(all_, 0),
        f"pHash within {RADIUS}": lambda all_: found_by_phash(all_, RADIUS),
    }
    what = "compositions and streets" if photographs() else "only streets: no photographs found"
    table = Table("", *VARIANTS, "the first five", "precision", title=f"% found; {what}")
    for name, find in methods.items():
        pairs = find(data)
        right = sum(owners[i] == owners[j] for i, j in pairs)
        recall = recall_of(pairs, variants, len(images))
        first = np.mean([recall[kind] for kind in list(VARIANTS)[:5]])
        shares = (*(recall[kind] for kind in VARIANTS), first, 100 * right / max(1, len(pairs)))
        table.add_row(name, *(f"{share:.1f}" for share in shares))
    console.print(table)
    console.print(
        f"{len(images):,} originals, {len(variants):,} variants; "
        f"wanted: {TARGET_RECALL:g} at a precision of {TARGET_PRECISION:g}"
    )


def recall_of(pairs: Pairs, variants: Sequence[Planted], first: int) -> dict[str, float]:
    found: Counter[str] = Counter()
    for place, variant in enumerate(variants, start=first):
        found[variant.kind] += (variant.original, place) in pairs
    planted_ = Counter(variant.kind for variant in variants)
    return {kind: 100 * found[kind] / planted_[kind] for kind in planted_}


def found_by_loupe(data: Sequence[bytes]) -> Pairs:
    fingerprints = {str(place): fingerprint(one, str(place)) for place, one in enumerate(data)}
    images = {name: one for name, one in fingerprints.items() if isinstance(one, ImageFingerprint)}
    found = find_near_duplicates(
        images, NearDuplicateSettings(), colours_of=lambda name: small_colours(data[int(name)])
    )
    return {(int(one.first), int(one.second)) for one in found.pairs}


def found_by_phash(data: Sequence[bytes], radius: int) -> Pairs:
    hashes = [int(str(imagehash.phash(Image.open(io.BytesIO(one)))), 16) for one in data]
    return {(i, j) for i, j in close_pairs(np.array(hashes, np.uint64), radius).tolist()}


def report_hashing(images: Sequence[bytes], peer: Path | None, console: Console) -> None:
    methods: dict[str, Callable[[Path], float]] = {
        "Loupe": lambda folder: seconds_of(folder, lambda data: fingerprint(data, "")),
        "imagehash": lambda folder: seconds_of(
            folder, lambda data: imagehash.phash(Image.open(io.BytesIO(data)))
        ),
    }
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        folder = root / "images"
        folder.mkdir()
        for place, data in enumerate(images):
            (folder / f"{place:05}.jpg").write_bytes(data)
        python = peer or python_of(PEER, root)
        methods["imagededup"] = lambda folder: peer_seconds(python, folder)
        rounds = [{method: take(folder) for method, take in methods.items()} for _ in range(ROUNDS)]
    speeds = {method: len(images) / min(one[method] for one in rounds) for method in methods}
    for method, speed in speeds.items():
        console.print(f"{method:<12} {speed:>8,.0f} images per processor second")
    ratio = speeds["Loupe"] / max(speeds["imagehash"], speeds["imagededup"])
    console.print(f"{'ratio':<12} {ratio:>8.2f} to the faster peer (wanted: {TARGET_RATIO:g})")


def seconds_of(folder: Path, hash_of: Callable[[bytes], object]) -> float:
    files = sorted(folder.iterdir())
    hash_of(files[0].read_bytes())
    started = time.process_time()
    for file in files:
        hash_of(file.read_bytes())
    return time.process_time() - started


def peer_seconds(python: Path, folder: Path) -> float:
    script = Path(__file__).parent / "peers" / PEER.script
    command = [str(python), str(script), str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.strip().splitlines()[-1])


def report_clusters(similar: int, console: Console) -> None:
    for name, images in (
        ("similar", similar_images(similar)),
        ("different", different_images(50 * similar)),
    ):
        tracemalloc.start()
        find_near_duplicates(images, NearDuplicateSettings())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        started = time.perf_counter()
        found = find_near_duplicates(images, NearDuplicateSettings())
        elapsed = time.perf_counter() - started
        console.print(
            f"{len(images):,} {name} images: {len(found.pairs):,} pairs, "
            f"{len(found.kept):,} kept, in {elapsed:.1f} s with {peak / 1e6:,.0f} MB more memory"
        )


def similar_images(count: int) -> dict[str, ImageFingerprint]:
    """Fingerprints of one picture with different noise."""
    random = np.random.default_rng(0)
    spectra = random.integers(-100, 100, 255) + random.normal(0, 4, (count, 255))
    return _fingerprints(spectra.astype(np.int8), random.integers(0, 2, count, np.uint64))


def different_images(count: int) -> dict[str, ImageFingerprint]:
    """Fingerprints of unrelated images."""
    random = np.random.default_rng(0)
    spectra = random.integers(-127, 128, (count, 255)).astype(np.int8)
    return _fingerprints(spectra, random.integers(0, 2**64, count, np.uint64))


def _fingerprints(
    spectra: NDArray[np.int8], hashes: NDArray[np.uint64]
) -> dict[str, ImageFingerprint]:
    return {
        str(number): ImageFingerprint(
            sha256=f"{number:064x}",
            width_px=640,
            height_px=480,
            perceptual_hash=f"{hash_:016x}",
            mirrored_hash=f"{hash_ ^ (1 << 64) - 1:016x}",
            spectrum=spectrum.tobytes().hex(),
        )
        for number, (spectrum, hash_) in enumerate(zip(spectra, hashes.tolist(), strict=True))
    }


def report_search(count: int, console: Console) -> None:
    random = np.random.default_rng(0)
    close_pairs(random.integers(0, 2**64, 10_000, np.uint64), RADIUS)  # compiles
    for name, hashes in (
        ("random", random_hashes(count, random)),
        ("correlated", correlated_hashes(count, random)),
    ):
        started, processor = time.perf_counter(), time.process_time()
        pairs = close_pairs(hashes, RADIUS)
        elapsed, processor = time.perf_counter() - started, time.process_time() - processor
        console.print(
            f"{count:,} {name} hashes within {RADIUS} bits: {len(pairs):,} pairs in {elapsed:.1f} s"
            f" ({processor:.1f} processor s; wanted: below {TARGET_SECONDS:g})"
        )


def report_embeddings(count: int, console: Console) -> None:
    random = np.random.default_rng(0)
    rows = single_precision(random.standard_normal((count, DIMENSION), dtype=np.float32))
    near = count // 100
    moved = random.standard_normal((near, DIMENSION), dtype=np.float32) * (NOISE / DIMENSION**0.5)
    rows[-near:] = single_precision(rows[:near] + moved)
    started = time.process_time()
    pairs, recall = close_rows(rows, DISTANCE)
    elapsed = time.process_time() - started
    found = np.count_nonzero(pairs[:, 1] - pairs[:, 0] == count - near)
    started = time.process_time()
    some = count if recall is None else count // 1000
    for start in range(0, some, 1024):
        rows[start : min(some, start + 1024)] @ rows.T
    product = (time.process_time() - started) * count / some
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    how = "all pairs" if recall is None else f"an index, stated recall {recall:.1%}"
    console.print(
        f"{count:,} embeddings by {how}: {100 * found / near:.2f} % of {near:,} planted pairs, "
        f"{elapsed:,.1f} processor s, {elapsed / product:.2f} of the bare product "
        f"(wanted: {TARGET_PRODUCT:g}), peak {peak:.1f} GB"
    )


def random_hashes(count: int, random: np.random.Generator) -> NDArray[np.uint64]:
    """Random hashes, every tenth of which is within six bits of another."""
    hashes = random.integers(0, 2**64, count, np.uint64)
    near, others = random.integers(0, count, (2, count // 10))
    hashes[near] = hashes[others] ^ _bits(random.integers(0, 64, (6, len(near))))
    return hashes


def _bits(places: Iterable[NDArray[np.int64]]) -> NDArray[np.uint64]:
    found: NDArray[np.uint64] = np.bitwise_or.reduce(
        [np.uint64(1) << one.astype(np.uint64) for one in places]
    )
    return found


def correlated_hashes(count: int, random: np.random.Generator) -> NDArray[np.uint64]:
    """Hashes of spectra composed of six patterns and noise, with half of the bits set."""
    patterns = random.normal(size=(6, 64))
    hashes = np.empty(count, np.uint64)
    for start in range(0, count, 100_000):
        size = len(hashes[start : start + 100_000])
        spectra = random.normal(size=(size, 6)) @ patterns + random.normal(0, 1.2, (size, 64))
        bits = spectra > np.median(spectra, axis=1, keepdims=True)
        hashes[start : start + size] = np.packbits(bits, axis=1).view(">u8").ravel()
    return hashes


if __name__ == "__main__":
    main()
