"""Print false alarms and catch rates of the faithfulness check by set and kind.

The second table is about pairs written by hand. It prints no single pair, because nothing may be
developed on the sets in `UNTOUCHED`; `--development` leaves these sets out.

Run from the repository root: `python -m benchmarks.faithfulness`.
"""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from time import perf_counter

from rich.console import Console
from rich.table import Table

from loupe.flows.faithfulness import check_faithfulness
from loupe.schemas.faithfulness import FaithfulnessReport, RewritePair
from loupe.schemas.profile import FaithfulnessSettings
from tests.corruption import corrupt
from tests.person_sets import (
    REAL,
    Pair,
    development_pairs,
    hand_written,
    held_out_pairs,
    real_pairs,
    real_paraphrases,
    smollm2_rewrites,
)

# A corrupted copy is nearly identical to its source, and many handwritten pairs retell a part of
# their source, so both checks are disabled; only what is said counts.
SETTINGS = FaithfulnessSettings(near_identical_similarity=1.0, min_length_share=0)
DEFAULT = FaithfulnessSettings()
STRICT = SETTINGS.model_copy(update={"strict": True})
KINDS = ("colour", "garment", "accessory", "sex", "side")
SETS: dict[str, Callable[[], list[Pair]]] = {
    "published, figure 9 (accepted rewrites)": lambda: real_pairs(9),
    "published, figure 5 (two annotators)": lambda: real_pairs(5),
    "published, our paraphrases of figures 5, 8, 9": lambda: [
        *real_paraphrases("development"),
        *real_paraphrases("untouched"),
    ],
    "own paraphrases, developed on": development_pairs,
    "own paraphrases, later file": held_out_pairs,
}
DEVELOPED_ON = ("hand_written_pairs", "more_pairs")
UNTOUCHED = ("untouched_pairs", "voices_pairs", "independent_pairs")


def is_suspect(source: str, rewrite: str, settings: FaithfulnessSettings = SETTINGS) -> bool:
    """Whether the rewrite is rejected or needs review by a person."""
    result = check_faithfulness(RewritePair(source=source, rewrite=rewrite), settings)
    return not isinstance(result, FaithfulnessReport) or result.verdict == "suspect"


def is_dropped(source: str, rewrite: str) -> bool:
    """Whether the rewrite is rejected without review by a person."""
    result = check_faithfulness(RewritePair(source=source, rewrite=rewrite), DEFAULT)
    return not isinstance(result, FaithfulnessReport)


def false_alarms(pairs: list[Pair], settings: FaithfulnessSettings = SETTINGS) -> int:
    """Number of faithful rewrites flagged as suspect."""
    return sum(is_suspect(pair.source, pair.rewrite, settings) for pair in pairs)


def catches(pairs: list[Pair]) -> tuple[Counter[str], Counter[str]]:
    """(caught, tried) per kind, for corruptions of sources and of rewrites that pass the check."""
    caught, tried = Counter[str](), Counter[str]()
    sources = dict.fromkeys(pair.source for pair in pairs)
    passing = [Pair(s, s) for s in sources] + [p for p in pairs if not is_suspect(*p)]
    for pair in passing:
        for corruption in corrupt(pair.rewrite):
            tried[corruption.kind] += 1
            caught[corruption.kind] += is_suspect(pair.source, corruption.text)
    return caught, tried


def main() -> None:
    """Print the tables."""
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
    names = DEVELOPED_ON if "--development" in sys.argv else (*DEVELOPED_ON, *UNTOUCHED)
    Console(width=140).print(by_kind(names))
    if REAL.exists():
        Console(width=140).print(by_fault())


def by_kind(names: Sequence[str]) -> Table:
    """Changed facts found, false alarms and dropped paraphrases, by set of handwritten pairs."""
    table = Table("kind of fact", *names, title="Pairs written by hand")
    columns: list[dict[str, str]] = []
    for name in names:
        tried, caught, alarms, dropped, pairs = Counter[str](), Counter[str](), 0, 0, 0
        for person in hand_written(name):
            passing = {person.description}
            for pair in person.pairs():
                pairs += 1
                dropped += is_dropped(*pair)
                if is_suspect(*pair):
                    alarms += 1
                else:
                    passing.add(pair.rewrite)
            for changed in person.changed:
                if changed.original in passing:
                    tried[changed.kind] += 1
                    caught[changed.kind] += is_suspect(person.description, changed.text)
        column = {kind: f"{caught[kind]}/{tried[kind]}" for kind in sorted(tried)}
        column["all kinds"] = f"{caught.total()}/{tried.total()}"
        column["false alarms"] = f"{alarms}/{pairs}"
        column["dropped"] = f"{dropped}/{pairs}"
        columns.append(column)
    totals = ("all kinds", "false alarms", "dropped")
    kinds = sorted({kind for column in columns for kind in column} - set(totals))
    for kind in (*kinds, *totals):
        table.add_row(kind, *(column.get(kind, "–") for column in columns))
    return table


def by_fault() -> Table:
    """Number of flagged rewrites of a small language model for each fault labelled by hand."""
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
