"""A killed tracking stage continues from its checkpoint with the same result."""

import random
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from loupe.demo.worlds.street import DETECTIONS, StreetWorld
from loupe.release.card.model_use import DEMONSTRATION_CITATION
from loupe.release.verify import verify_release
from tests.flows.homes import bytes_of, contents_of, problems_of
from tests.flows.worlds import RunningProgram, loupe, write_toml

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("kill")]

KILLS = 6
CHECKPOINT_FRAMES = 2
_LONGEST_PAUSE_SECONDS = 0.02  # the boxes are given, so a video is done in a second
RELEASE = Path("releases") / "walkers-0.1.0"


class Build(NamedTuple):
    """A build that can be run in several homes."""

    config: Path
    profile: Path

    def start(self, home: Path) -> RunningProgram:
        options = ("--in-process", "--config", self.config, "--profile", self.profile)
        return loupe(home, "run", "build-ufine6926", *options)


@pytest.fixture
def build(street: StreetWorld, tmp_path: Path) -> Build:
    """A build of the street with its detections and a checkpoint every few frames."""
    source = {
        "name": "street",
        "licence": "CC0-1.0",
        "citation": DEMONSTRATION_CITATION,
        "videos": str(street.folder / "videos"),
        "detections": str(street.folder / DETECTIONS),
    }
    config = write_toml(
        tmp_path / "build.toml",
        {"dataset": "walkers", "gate": "auto", "drawn": True, "sources": [source]},
    )
    builtin = {"provider": "builtin", "style": "flowing", "seed": 1}
    lenient = {"least_height_px": 20, "least_width_px": 6, "least_sharpness": 0, "least_images": 1}
    values = {
        "description": "frequent checkpoints",
        "rewrite": {"models": [builtin]},
        "tracking": {"checkpoint_frames": CHECKPOINT_FRAMES, "observations": 6},
        "filter": {**lenient, "least_contrast": 0, "least_relative_sharpness": 0},
    }
    return Build(config, write_toml(tmp_path / "profile.toml", values))


@pytest.mark.timeout(1500)
def test_kills_during_tracking_do_not_change_the_release(tmp_path: Path, build: Build) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed of the kills: {seed}")  # noqa: T201 - shown with a failure, to repeat it
    chance = random.Random(seed)
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    finish(build, undisturbed)

    positions = [checkpointed_frames(killed)]
    for _ in range(KILLS):
        run = build.start(killed)
        wait_for_frames(run, killed, positions[-1] + CHECKPOINT_FRAMES * chance.randint(1, 2))
        time.sleep(chance.uniform(0, _LONGEST_PAUSE_SECONDS))
        run.kill()
        positions.append(checkpointed_frames(killed))
    print(f"checkpointed frames after each kill: {positions}")  # noqa: T201
    assert positions == sorted(set(positions)), "every run continues, none starts over"
    finish(build, killed)

    assert problems_of(killed) == []
    assert without_claims(contents_of(killed)) == without_claims(contents_of(undisturbed))
    assert bytes_of(killed / RELEASE) == bytes_of(undisturbed / RELEASE)
    assert verify_release(killed / RELEASE).problems == []
    assert checkpoints_in(killed) == 0


def finish(build: Build, home: Path) -> None:
    """Run the build to its end."""
    run = build.start(home)
    assert run.wait() == 0, run.output


def wait_for_frames(run: RunningProgram, home: Path, frames: int) -> None:
    """Wait until `frames` frames are checkpointed; the run must not end before."""
    while checkpointed_frames(home) < frames:
        assert not run.ended_within(0.002), run.output


def checkpointed_frames(home: Path) -> int:
    """Return how many frames of all videos need not be processed again."""
    return query_number(home, "SELECT coalesce(sum(position), 0) FROM checkpoint")


def checkpoints_in(home: Path) -> int:
    return query_number(home, "SELECT count(*) FROM checkpoint")


def query_number(home: Path, query: str) -> int:
    """Return the number a query yields; 0 before the table exists."""
    if not (home / "loupe.db").exists():
        return 0
    with closing(sqlite3.connect(home / "loupe.db")) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        return int(database.execute(query).fetchone()[0]) if "checkpoint" in tables else 0


def without_claims(contents: dict[str, Counter[Any]]) -> dict[str, Counter[Any]]:
    """Return the contents without the claims, which name the run that held them."""
    return {name: rows for name, rows in contents.items() if name != "claims"}
