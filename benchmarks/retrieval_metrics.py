"""Speed and memory of the retrieval metrics at the size of UFine3C, compared with a product.

    python -m benchmarks.retrieval_metrics [--rounds 5] [--queries 37939] [--gallery 7446]

Each round measures in turn: the matrix product of all queries with the gallery, in blocks that are
discarded, by numpy and by torch (the faster one is the reference); all metrics by
`score_retrieval`, on embeddings read from files; and, in the first round only, a plain evaluation
in torch (blocks, a full sort of each, ranks and prefix sums). Each runs in a separate process
without counting imports and compilation. The minimum of all rounds counts, in elapsed seconds and
in processor seconds, which are more reliable on a shared machine.

Embeddings are noisy clusters, about as hard as UFine3C ("trained"), or pure noise with matches at
any rank ("random"), the slowest case.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import peak_mib, run_apart

IDENTITIES, DIMENSION = 2250, 512
NOISE = {"trained": 2.5, "random": 1000.0}
BLOCK = 4096
TARGET_RATIO, TARGET_MB = 1.6, 1000
METHODS = ("loupe", "numpy product", "torch product", "plain torch")

Arrays = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]


def write_problem(folder: Path, queries: int, gallery: int, noise: float) -> None:
    """Write embeddings structured like UFine3C: images of 2,250 people, and texts of images."""
    random = np.random.default_rng(0)
    person = np.concatenate(
        [np.arange(IDENTITIES), random.integers(IDENTITIES, size=gallery - IDENTITIES)]
    )
    random.shuffle(person)
    image = np.concatenate([np.arange(gallery), random.integers(gallery, size=queries - gallery)])
    centres = random.standard_normal((IDENTITIES, DIMENSION), dtype=np.float32)
    for name, ids in (("queries", person[image]), ("gallery", person)):
        rows = centres[ids]
        rows += np.float32(noise) * random.standard_normal(rows.shape, dtype=np.float32)
        np.save(folder / f"{name}.npy", rows)
        np.save(folder / f"{name}_ids.npy", ids)


def read_problem(folder: Path) -> Arrays:
    names = ("queries", "gallery", "queries_ids", "gallery_ids")
    queries, gallery, query_ids, gallery_ids = (
        np.load(folder / f"{name}.npy", mmap_mode="r") for name in names
    )
    return queries, gallery, query_ids, gallery_ids


def run_loupe(problem: Arrays) -> dict[str, float]:
    from loupe.retrieval.ranking import load_kernels, score_retrieval

    load_kernels()
    return measured(lambda: score_retrieval(*problem).means())


def run_numpy(problem: Arrays) -> dict[str, float]:
    queries, gallery = np.array(problem[0]), np.array(problem[1])
    tile = np.empty((BLOCK, len(gallery)), dtype=np.float32)

    def product() -> dict[str, float]:
        for start in range(0, len(queries), BLOCK):
            block = queries[start : start + BLOCK]
            np.matmul(block, gallery.T, out=tile[: len(block)])
        return {}

    return measured(product)


def run_torch(problem: Arrays) -> dict[str, float]:
    import torch

    queries, gallery = torch.tensor(problem[0]), torch.tensor(problem[1])
    tile = torch.empty((BLOCK, len(gallery)))

    def product() -> dict[str, float]:
        for start in range(0, len(queries), BLOCK):
            block = queries[start : start + BLOCK]
            torch.mm(block, gallery.T, out=tile[: len(block)])
        return {}

    return measured(product)


def run_plain(problem: Arrays) -> dict[str, float]:
    import torch

    queries, gallery, query_ids, gallery_ids = (torch.tensor(array) for array in problem)

    def evaluate() -> dict[str, float]:
        units = torch.nn.functional.normalize(gallery)
        precisions, distributions, firsts = [], [], []
        for start in range(0, len(queries), 512):
            block = torch.nn.functional.normalize(queries[start : start + 512])
            values, order = ((block @ units.T + 1) / 2).sort(dim=1, descending=True)
            match = gallery_ids[order] == query_ids[start : start + 512, None]
            count = match.sum(1)
            ranks = torch.arange(1, len(gallery) + 1)
            precisions.append((match.cumsum(1) / ranks * match).sum(1) / count)
            share = (values * match).cumsum(1) / values.cumsum(1)
            mine = (values * match).sum(1)
            ratio = mine / count / ((values.sum(1) - mine) / (len(gallery) - count))
            distributions.append((1 - torch.exp(-ratio)) * (share * match).sum(1) / count)
            firsts.append(match.float().argmax(1))
        first = torch.cat(firsts)
        return {
            "R@1": 100 * (first == 0).float().mean().item(),
            "mAP": 100 * torch.cat(precisions).mean().item(),
            "mSD": 100 * torch.cat(distributions).mean().item(),
        }

    return measured(evaluate)


def measured(work: Any) -> dict[str, float]:
    """Result of `work` with elapsed seconds, processor seconds and peak resident size."""
    elapsed, processor = time.perf_counter(), time.process_time()
    found: dict[str, float] = work()
    return found | {
        "elapsed": time.perf_counter() - elapsed,
        "processor": time.process_time() - processor,
        "bytes": peak_mib() * 2**20,
    }


RUNS = dict(zip(METHODS, (run_loupe, run_numpy, run_torch, run_plain), strict=True))


def compare(kind: str, arguments: argparse.Namespace, console: Console) -> None:
    """Run all rounds on one kind of embeddings and print the results."""
    found: dict[str, list[dict[str, float]]] = {method: [] for method in METHODS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_problem(folder, arguments.queries, arguments.gallery, NOISE[kind])
        for number in range(arguments.rounds):
            for method in METHODS:
                if method != "plain torch" or number == 0:
                    found[method].append(
                        run_apart("retrieval_metrics", "--method", method, "--folder", folder)
                    )
    least = {
        method: {key: min(one[key] for one in runs) for key in ("elapsed", "processor")}
        for method, runs in found.items()
    }
    peer = {
        key: min(least[method][key] for method in METHODS if method.endswith("product"))
        for key in ("elapsed", "processor")
    }
    title = f"{arguments.queries:,} x {arguments.gallery:,} x {DIMENSION}, {kind}"
    table = Table(
        "", "elapsed s", "of product", "processor s", "of product", "peak MB", title=title
    )
    for method, runs in found.items():
        times = [
            text
            for key in ("elapsed", "processor")
            for text in (f"{least[method][key]:.2f}", f"{least[method][key] / peer[key]:.2f}")
        ]
        table.add_row(method, *times, f"{max(one['bytes'] for one in runs) / 1e6:,.0f}")
    console.print(table)
    for method in ("loupe", "plain torch"):
        means = {key: round(found[method][0][key], 4) for key in ("R@1", "mAP", "mSD")}
        console.print(f"{method}: {means}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=37_939)
    parser.add_argument("--gallery", type=int, default=7_446)
    parser.add_argument("--method", choices=METHODS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.method:
        print(json.dumps(RUNS[arguments.method](read_problem(arguments.folder))))
        return
    console = Console(width=120)
    for kind in NOISE:
        compare(kind, arguments, console)
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    console.print(
        f"target: at most {TARGET_RATIO} of the faster product, below {TARGET_MB} MB; "
        f"load {load} on {os.cpu_count()} processors"
    )


if __name__ == "__main__":
    main()
