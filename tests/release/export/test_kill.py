"""An export that is killed at any moment leaves nothing under its name, and hinders nobody."""

import random
import time
from pathlib import Path

import pytest

from release.export import export_release
from release.export.formats import FORMATS
from tests.release.export.conftest import Releases
from tests.release.export.kinds import content_of
from tests.servers.processes import FORKED

KILLS = 6


def export_slowly(release: Path, name: str, out: Path) -> None:
    """Leaves a while in which it can be killed."""
    export_release(release, FORMATS[name], out, on_progress=lambda done, total: time.sleep(0.005))


@pytest.mark.slow
@pytest.mark.xdist_group("kill")  # all programs are forks of one process
@pytest.mark.parametrize("name", ["webdataset", "coco", "hf"])
def test_a_killed_export_leaves_nothing(
    releases: Releases, exports: Releases, name: str, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed of the kills: {seed}")  # noqa: T201 - shown with a failure, to repeat it
    chance = random.Random(seed)
    wanted, out = content_of(exports[f"tasks/{name}"]), tmp_path / "out"
    for number in range(KILLS):
        process = FORKED.Process(target=export_slowly, args=(releases["tasks"], name, out))
        process.start()
        if number:
            time.sleep(chance.uniform(0, 0.3))
        else:  # certainly in the midst
            while process.is_alive() and not list(tmp_path.glob(".out.building-*/*")):
                time.sleep(0.001)
        process.kill()
        process.join()
        if out.exists():
            assert content_of(out) == wanted
            break
    again = export_release(releases["tasks"], FORMATS[name], out)
    assert content_of(again.folder) == wanted
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
