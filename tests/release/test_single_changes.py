"""Verification finds any single changed value of a resealed release."""

import shutil
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from loupe.release.verify import verify_release
from tests.release import kinds
from tests.release.single_changes import Change, changed, places_in

SAMPLE = 10
"""Number of changes for each of the four kinds of release, 40 in total."""
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
"""Values protected only by the cited id, as listed in docs/verification.md."""
COUNTED_WORDS = (
    "manifest.json:statistics.words.",
    "manifest.json:statistics.vocabulary",
    "manifest.json:statistics.granularities.",
)
"""Values that are recounted only with `decode`."""


@pytest.fixture(params=kinds.KINDS)
def sound(request: pytest.FixtureRequest, every_kind: dict[str, kinds.Built]) -> Path:
    return every_kind[request.param].folder


def test_one_changed_value_is_found(sound: Path, tmp_path: Path) -> None:
    assert missed_changes(sound, tmp_path, SAMPLE) == []


@pytest.mark.soak
def test_a_thousand_changed_values_are_found(sound: Path, tmp_path: Path) -> None:
    assert missed_changes(sound, tmp_path, SOAK) == []


def missed_changes(sound: Path, home: Path, count: int) -> list[Change]:
    """Try `count` changes in all places in turn and return those that verification misses."""
    places = [one for one in places_in(sound) if not one.startswith(EXEMPT)]
    Random(count).shuffle(places)
    assert verify_release(sound).problems == []
    found, done, seed = list[Change](), 0, 0
    while done < count:
        change, folder = Change(places[seed % len(places)], seed), home / "changed"
        seed += 1
        if changed(sound, folder, change) and not is_of_withheld(sound, folder, change):
            done += 1
            decode = change.where.startswith(COUNTED_WORDS)
            found += [] if verify_release(folder, decode=decode).problems else [change]
        shutil.rmtree(folder)
    return found


def is_of_withheld(sound: Path, folder: Path, change: Change) -> bool:
    """Whether the change affects an entity with withheld parts, whose id cannot be recomputed."""
    if change.where != "lineage/entities.parquet:payload":
        return False
    columns = ["payload", "withheld"]
    before, after = (
        pq.read_table(one / "lineage" / "entities.parquet", columns=columns).to_pylist()
        for one in (sound, folder)
    )
    rows = zip(before, after, strict=True)
    return any(one["withheld"] and one["payload"] != other["payload"] for one, other in rows)
