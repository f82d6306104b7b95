"""How often equally good models are called different (`loupe.retrieval.paired`).

    python -m benchmarks.paired_null [--boards 1000]

Boards of equally good models on the same queries of 80 persons, who differ in difficulty and in
their number of queries. A board is wrong if any model is called worse than its best (p < 0.05
after the correction). At most 5 % of the boards may be wrong.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from loupe.retrieval.paired import corrected_for_best, paired_difference

PERSONS = 80
MODELS = (2, 5, 10)


def is_wrong(random: np.random.Generator, models: int) -> tuple[bool, bool]:
    """Whether a board of equal models calls one worse, with the correction and without."""
    queries = random.integers(1, 5, PERSONS)
    share = 1 / (1 + np.exp(random.normal(0, 1, PERSONS)))
    hits = [100.0 * random.binomial(queries, share) for _ in range(models)]
    hits.sort(key=lambda one: -one.sum())
    p_value = paired_difference(hits[0], hits[-1], queries).p_value  # the smallest, as a rule
    return corrected_for_best(p_value, models) < 0.05, p_value < 0.05


def main() -> None:
    """Print the share of wrong boards by number of models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--boards", type=int, default=1_000)
    boards = parser.parse_args().boards
    table = Table("equal models", "boards", "wrong %", "without the correction %")
    for models in MODELS:
        random = np.random.default_rng(models)
        found = np.array([is_wrong(random, models) for _ in range(boards)])
        wrong, naive = 100 * found.mean(axis=0)
        table.add_row(str(models), f"{boards:,}", f"{wrong:.1f}", f"{naive:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
