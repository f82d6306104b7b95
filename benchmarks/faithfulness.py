"""Prints how often the faithfulness check is right: false alarms and catch rates, per set and kind.

The second table is of paraphrases of published descriptions. Nothing may be developed on its
untouched part, so it prints no single pair.

Run from the repository root: `python -m benchmarks.faithfulness`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from time import perf_counter

from rich.console import Console
from rich.table import Table

from flows.ufine3c.faithfulness import check_faithfulness
from schemas.faithfulness import FaithfulnessReport, RewritePair
from schemas.profile import FaithfulnessSettings
from tests.corruption import Corruption, corrupt, corrupt_details
from tests.person_sets import (
    REAL,
    Pair,
    development_pairs,
    held_out_pairs,
    real_pairs,
    real_paraphrases,
    smollm2_rewrites,
)

# A corrupted copy of a source is nearly identical to it: that check is off, only facts count.
SETTINGS = FaithfulnessSettings(near_identical_similarity=1.0)
STRICT = FaithfulnessSettings(near_identical_similarity=1.0, strict=True)
KINDS = ("colour", "garment", "accessory", "sex", "side")
SETS: dict[str, Callable[[], list[Pair]]] = {
    "published, figure 9 (accepted rewrites)": lambda: real_pairs(9),
    "published, figure 5 (two annotators)": lambda: real_pairs(5),
    "own paraphrases, developed on": development_pairs,
    "own paraphrases, held out": held_out_pairs,
}


def is_suspect(source: str, rewrite: str, settings: FaithfulnessSettings = SETTINGS) -> bool:
    """Whether a person would have to look, or the rewrite is rejected."""
    result = check_faithfulness([RewritePair(source=source, rewrite=rewrite)], settings)[0]
    return not isinstance(result, FaithfulnessReport) or result.verdict == "suspect"


def false_alarms(pairs: list[Pair], settings: FaithfulnessSettings = SETTINGS) -> int:
    """How many honest rewrites are held for suspect."""
    return sum(is_suspect(pair.source, pair.rewrite, settings) for pair in pairs)


def every_corruption(text: str) -> Iterator[Corruption]:
    """Corruptions of all kinds."""
    yield from corrupt(text)
    yield from corrupt_details(text)


def catches(
    pairs: list[Pair], corruptions: Callable[[str], Iterator[Corruption]] = corrupt
) -> tuple[Counter[str], Counter[str]]:
    """(caught, tried) per kind: corruptions of sources, and of rewrites that pass uncorrupted."""
    caught, tried = Counter[str](), Counter[str]()
    sources = dict.fromkeys(pair.source for pair in pairs)
    passing = [Pair(s, s) for s in sources] + [p for p in pairs if not is_suspect(*p)]
    for pair in passing:
        for corruption in corruptions(pair.rewrite):
            tried[corruption.kind] += 1
            caught[corruption.kind] += is_suspect(pair.source, corruption.text)
    return caught, tried


def main() -> None:
    """Prints the table."""
    table = Table("set", "pairs", "false alarms", "strict", *KINDS, title="Faithfulness check")
    started, checks = perf_counter(), 0
    for name, load in SETS.items():
        if name.startswith("published") and not REAL.exists():
            continue
        pairs = load()
        caught, tried = catches(pairs)
        checks += len(pairs) * 3 + tried.total()
        rates = (f"{caught[kind]}/{tried[kind]}" if tried[kind] else "–" for kind in KINDS)
        alarms, strict = false_alarms(pairs), false_alarms(pairs, STRICT)
        table.add_row(name, str(len(pairs)), str(alarms), str(strict), *rates)
    Console(width=140).print(table)
    print(f"{checks / (perf_counter() - started):.0f} checks/s")
    if REAL.exists():
        Console(width=140).print(by_kind())
        Console(width=140).print(by_fault())


def by_kind() -> Table:
    """False alarms and changed facts found, for each part of the real paraphrases."""
    parts = ("development", "untouched")
    table = Table("kind of fact", *parts, title="Paraphrases of published descriptions")
    columns: list[dict[str, str]] = []
    totals: list[str] = []
    alarms: list[str] = []
    for part in parts:
        pairs = real_paraphrases(part)
        caught, tried = catches(pairs, every_corruption)
        column = {kind: f"{caught[kind]}/{tried[kind]}" for kind in sorted(tried)}
        columns.append(column)
        totals.append(f"{caught.total()}/{tried.total()}")
        alarms.append(f"{false_alarms(pairs)}/{len(pairs)}")
    for kind in sorted({kind for column in columns for kind in column}):
        table.add_row(kind, *(column.get(kind, "–") for column in columns))
    table.add_row("all kinds", *totals)
    table.add_row("false alarms", *alarms)
    return table


def by_fault() -> Table:
    """How many rewrites of a small language model are flagged, for each fault seen by hand."""
    flagged, rewrites = Counter[str](), Counter[str]()
    for pair, fault in smollm2_rewrites():
        rewrites[fault or "none"] += 1
        flagged[fault or "none"] += is_suspect(*pair)
    table = Table("fault", "flagged", title="Rewrites by SmolLM2-135M, labelled by hand")
    for fault, tried in rewrites.most_common():
        table.add_row(fault, f"{flagged[fault]}/{tried}")
    return table


if __name__ == "__main__":
    main()
