"""A release in which one value was changed, and which was sealed again, does not verify."""

import shutil
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from release.verify import verify_release
from tests.release import kinds
from tests.release.single_changes import Change, changed, places_in

SAMPLE = 15
"""Changes of each of the four kinds of release; all of them together are 60."""
SOAK = 260
EXEMPT = (
    "lineage/decisions.parquet:reason",
    "lineage/entities.parquet:activity",
    "manifest.json:version",
    "manifest.json:about.",
    "manifest.json:statistics.agreement.",
    "manifest.json:statistics.contrasts.without_",
    "manifest.json:statistics.contrasts.left_out.",
    "manifest.json:statistics.rewrites.rejected",
    "manifest.json:statistics.rewrites.pending",
)
"""What only the cited id tells, as docs/verification.md lists it."""
COUNTED_WORDS = (
    "manifest.json:statistics.words.",
    "manifest.json:statistics.vocabulary",
    "manifest.json:statistics.granularities.",
)
"""What is counted again with `decode` only."""


@pytest.fixture(params=kinds.KINDS)
def sound(request: pytest.FixtureRequest, every_kind: dict[str, kinds.Built]) -> Path:
    return every_kind[request.param].folder


def test_one_changed_value_is_found(sound: Path, tmp_path: Path) -> None:
    assert missed(sound, tmp_path, SAMPLE) == []


@pytest.mark.soak
def test_of_a_thousand_changed_values_every_one_is_found(sound: Path, tmp_path: Path) -> None:
    assert missed(sound, tmp_path, SOAK) == []


def missed(sound: Path, home: Path, count: int) -> list[Change]:
    """Those of so many changes that no verification finds; every column has its turn first."""
    places = [one for one in places_in(sound) if not one.startswith(EXEMPT)]
    Random(count).shuffle(places)
    assert verify_release(sound) == []
    found, done, seed = list[Change](), 0, 0
    while done < count:
        change, folder = Change(places[seed % len(places)], seed), home / "changed"
        seed += 1
        if changed(sound, folder, change) and not is_of_withheld(sound, folder, change):
            done += 1
            decode = change.where.startswith(COUNTED_WORDS)
            found += [] if verify_release(folder, decode=decode) else [change]
        shutil.rmtree(folder)
    return found


def is_of_withheld(sound: Path, folder: Path, change: Change) -> bool:
    """Whether it changes an entity with withheld parts, whose id cannot be computed again."""
    if change.where != "lineage/entities.parquet:payload":
        return False
    columns = ["payload", "withheld"]
    before, after = (
        pq.read_table(one / "lineage" / "entities.parquet", columns=columns).to_pylist()
        for one in (sound, folder)
    )
    rows = zip(before, after, strict=True)
    return any(one["withheld"] and one["payload"] != other["payload"] for one, other in rows)
