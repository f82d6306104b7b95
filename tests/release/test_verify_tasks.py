"""`verify` names faults of tasks, tiers and captions in a benchmark of tasks."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from loupe.db.entities import NewDecision
from loupe.db.work import register_plan
from loupe.release.build import build_release
from loupe.release.verify import verify_release
from loupe.schemas.taxonomy import TIERS, Tier
from tests.release.cases import check_on_copies
from tests.release.recos_world import RECOS, benchmark, first_captions
from tests.release.test_verify import PARQUET, edit_manifest, edit_parquet, reseal_listed
from tests.release.worlds import PERSON, decide, store_world

JSON = f"{RECOS}.json"
Row = dict[str, Any]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Releases v0, v1 and v2 of one state; `later` lacks an image and a caption of v0."""
    home = tmp_path_factory.mktemp("releases")
    made = benchmark()
    world = store_world(home / "world", made.world.contents())

    def build(tier: Tier, version: str) -> Path:
        folder = home / version
        return build_release(world.store, world.blobs, RECOS, version, folder, tier=tier).folder

    folders = {str(tier): build(tier, f"{rank}.1.0") for rank, tier in enumerate(TIERS)}
    decisions = [
        NewDecision(made.images["v0"][0], "withdraw", PERSON),
        NewDecision(first_captions(made, "v0", 2)[1], "reject", PERSON),
    ]
    decide(world.store, register_plan(world.store, "test", "2", {}), decisions)
    folders["later"] = build("v1", "1.2.0")
    world.store.close()
    return folders


@pytest.fixture
def copy(sound: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of v2 that a test may damage."""
    return Path(shutil.copytree(sound["v2"], tmp_path / "copy"))


def edit_json(folder: Path, change: Callable[[list[Row]], object]) -> None:
    rows = json.loads((folder / JSON).read_text("utf-8"))
    change(rows)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (folder / JSON).write_text(f"[\n{lines}\n]\n", "utf-8")


def first_of(rows: list[Row], tier: Tier) -> Row:
    return next(row for row in rows if row["tier"] == tier)


def edit_first(folder: Path, tier: Tier, change: Callable[[Row], object], file: str = JSON) -> None:
    edit = edit_parquet if file == PARQUET else edit_json
    edit(folder, lambda rows: change(first_of(rows, tier)))


def edit_both(folder: Path, tier: Tier, changes: Row) -> None:
    """Change both files and reseal the release, as a forger would."""
    for file in (JSON, PARQUET):
        edit_first(folder, tier, lambda row: row.update(changes), file)
    reseal_listed(folder)


def state_tier(folder: Path, tier: str) -> None:
    edit_manifest(folder, lambda values: values.update(tier=tier))
    reseal_listed(folder)


class Fault(NamedTuple):
    """A change of a copy of v2, and the fault and message expected from `verify`."""

    name: str
    do: Callable[[Path], object]
    fault: str
    says: str


FAULTS = [
    Fault("captions of a v0 row removed from JSON",
          lambda f: edit_first(f, "v0", lambda row: row.update(captions=[])),
          "rows_differ", f"{JSON}: row 1 says captions []"),
    Fault("task changed in JSON",
          lambda f: edit_first(f, "v0", lambda row: row.update(task="scene")),
          "rows_differ", f"{JSON}: row 1 says task 'scene'; Parquet says 'count'"),
    Fault("task no name", lambda f: edit_both(f, "v0", {"task": "a/b"}),
          "task_wrong", f"{PARQUET}: row 1 is for the task 'a/b'; expected up to 60 letters"),
    Fault("tier changed in Parquet",
          lambda f: edit_first(f, "v0", lambda row: row.update(tier="v1"), PARQUET),
          "rows_differ", f"{JSON}: row 1 says tier 'v0'; Parquet says 'v1'"),
    Fault("tier lost throughout", lambda f: edit_both(f, "v1", {"tier": None}),
          "tier_wrong", "is of the tier None, which the release does not include"),
    Fault("tier of the release lowered", lambda f: state_tier(f, "v1"),
          "tier_wrong", "is of the tier 'v2', which the release does not include"),
    Fault("tier missing in JSON", lambda f: edit_first(f, "v0", lambda row: row.pop("tier")),
          "rows_differ", f"{JSON}: row 1 says tier None; Parquet says 'v0'"),
]  # fmt: skip


def test_every_fault_is_reported(sound: dict[str, Path], tmp_path: Path) -> None:
    def check(copy: Path, fault: Fault) -> None:
        fault.do(copy)
        problems = verify_release(copy, decode=False).problems
        assert any(
            problem.fault == fault.fault and fault.says in problem.message for problem in problems
        ), [problem.message for problem in problems]

    check_on_copies(sound["v2"], tmp_path, FAULTS, check)
