"""All metrics of a contrastive benchmark of the size of MSCOCO-CCD, compared with a matrix product.

    python -m benchmarks.ccd_metrics [--scale 1.0] [--rounds 3] [--distractors]

19,590 images, 97,950 captions, 512 dimensions: R@1 and R@5 in both directions and three settings,
FG-CDA by type in both directions, and similarities of pairs, including normalisation. The bare
matrix product in blocks, whose results are discarded, is timed alternately in the same process;
the minimum of each counts, in elapsed and processor time. Each direction takes a product of its
own. The target is 2.5 times the time of one product and 2 GB. With `--distractors`, the mean
cosines with the nearest other samples are timed too; they need the products of images with images
and texts with texts, five times the work.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import peak_mib, run_apart
from loupe.retrieval.contrastive import CAPTIONS, ContrastiveSamples, score_contrastive
from loupe.retrieval.distractors import benchmark_distractors
from loupe.retrieval.similarity.products import Tiling
from loupe.schemas.taxonomy import DifferenceType

IMAGES, ANCHORS, DIMENSION = 19_590, 5_000, 512
TARGET_RATIO, TARGET_MIB = 2.5, 2_000_000_000 / 2**20

Rows = NDArray[np.float32]


def samples_of(images: int) -> ContrastiveSamples:
    """Anchors, then contrastive images, assigned to anchors and types in turn."""
    anchors = max(1, images * ANCHORS // IMAGES)
    at, kinds = np.arange(images), list(DifferenceType)
    return ContrastiveSamples(
        tuple(f"{image}.jpg" for image in range(images)),
        at % anchors,
        tuple(None if i < anchors else kinds[i % len(kinds)] for i in range(images)),
    )


def write_embeddings(folder: Path, samples: ContrastiveSamples) -> None:
    """Write images near their anchors and captions near their images; about half are retrieved."""
    random = np.random.default_rng(0)

    def noise(rows: int, length: float) -> Rows:
        drawn = random.standard_normal((rows, DIMENSION), dtype=np.float32)
        return drawn * np.float32(length / DIMENSION**0.5)

    anchors = noise(int(samples.is_original.sum()), 1.0)
    images = anchors[samples.anchors]
    images[samples.contrastive] += noise(len(samples.contrastive), 0.7)
    np.save(folder / "images.npy", images)
    np.save(folder / "texts.npy", np.repeat(images, CAPTIONS, axis=0) + noise(len(images) * 5, 3.0))


def bare_product(images: Rows, texts: Rows) -> None:
    """Compute the product of all images and texts in the same blocks into one buffer."""
    cut = Tiling()
    buffer = np.empty((cut.queries, cut.gallery), dtype=np.float32)
    for text in range(0, len(texts), cut.gallery):
        columns = texts[text : text + cut.gallery].T
        for image in range(0, len(images), cut.queries):
            rows = images[image : image + cut.queries]
            np.matmul(rows, columns, out=buffer[: len(rows), : columns.shape[1]])


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Elapsed seconds and processor seconds."""
    clock, processor = perf_counter(), process_time()
    work()
    return perf_counter() - clock, process_time() - processor


def measure(folder: Path, rounds: int) -> dict[str, Any]:
    """Times of the product and of all metrics, measured alternately, and the memory peak."""
    images, texts = np.load(folder / "images.npy"), np.load(folder / "texts.npy")
    samples = samples_of(len(images))
    score_contrastive(images[:9], texts[:45], samples_of(9))  # load kernels, compile if new
    product, metrics = [], []
    for _ in range(rounds):
        product.append(timed(lambda: bare_product(images, texts)))
        metrics.append(timed(lambda: score_contrastive(images, texts, samples)))
    return {"product": product, "metrics": metrics, "peak_mib": peak_mib()}


def measure_distractors(folder: Path) -> dict[str, float]:
    """Elapsed seconds, processor seconds and the memory peak of the distractor statistics."""
    images, texts = np.load(folder / "images.npy"), np.load(folder / "texts.npy")
    image_of_text = samples_of(len(images)).image_of_text
    benchmark_distractors(images[:9], texts[:45], image_of_text[:45])
    clock, processor = timed(lambda: benchmark_distractors(images, texts, image_of_text))
    return {"clock": clock, "processor": processor, "peak_mib": peak_mib()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--distractors", action="store_true")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        folder, rounds = arguments.measure, arguments.rounds
        near_only = arguments.distractors
        print(json.dumps(measure_distractors(folder) if near_only else measure(folder, rounds)))
        return
    samples = samples_of(int(IMAGES * arguments.scale))
    with tempfile.TemporaryDirectory() as folder:
        write_embeddings(Path(folder), samples)
        measure_there = ("ccd_metrics", "--measure", folder)
        found = run_apart(*measure_there, "--rounds", arguments.rounds)
        near = run_apart(*measure_there, "--distractors") if arguments.distractors else None
    print(f"{len(samples):,} images, {CAPTIONS * len(samples):,} captions, {DIMENSION} dimensions")
    for at, word in enumerate(("elapsed time", "processor time")):
        product, metrics = (min(one[at] for one in found[key]) for key in ("product", "metrics"))
        ratios = sorted(
            m[at] / p[at] for p, m in zip(found["product"], found["metrics"], strict=True)
        )
        print(
            f"{word:<18} product {product:6.2f} s, all metrics {metrics:6.2f} s: "
            f"{metrics / product:.2f}x (by round {', '.join(f'{r:.2f}x' for r in ratios)}; "
            f"target {TARGET_RATIO}x)"
        )
    if near:
        print(
            f"nearest distractors {near['clock']:.1f} s elapsed, {near['processor']:.1f} s of "
            f"processor time, peak {near['peak_mib']:.0f} MiB"
        )
    print(f"peak {found['peak_mib']:.0f} MiB (target {TARGET_MIB:.0f} MiB)")


if __name__ == "__main__":
    main()
