"""An export killed at any moment leaves no partial result and can be repeated."""

import random
import time
from pathlib import Path

import pytest

from loupe.release.export import export_release
from loupe.release.export.formats import FORMATS
from tests.release.export.conftest import Releases
from tests.release.export.kinds import content_of
from tests.servers.processes import FORKED

KILLS = 6


def export_slowly(release: Path, name: str, out: Path) -> None:
    """Export slowly enough to be killed in between."""
    export_release(release, FORMATS[name], out, on_progress=lambda done, total: time.sleep(0.005))


@pytest.mark.slow
@pytest.mark.xdist_group("kill")  # all processes are forked from one server
def test_a_killed_export_leaves_no_partial_result(
    releases: Releases, exports: Releases, tmp_path: Path
) -> None:
    name = "webdataset"
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed of the kills: {seed}")  # noqa: T201 - printed on failure, to reproduce it
    chance = random.Random(seed)
    wanted, out = content_of(exports[f"tasks/{name}"]), tmp_path / "out"
    for number in range(KILLS):
        process = FORKED.Process(target=export_slowly, args=(releases["tasks"], name, out))
        process.start()
        if number:
            time.sleep(chance.uniform(0, 0.3))
        else:  # kill the first one while it writes
            while process.is_alive() and not list(tmp_path.glob(".out.building-*/*")):
                time.sleep(0.001)
        process.kill()
        process.join()
        if out.exists():
            assert content_of(out) == wanted
            break
    again = export_release(releases["tasks"], FORMATS[name], out)
    assert content_of(again.folder) == wanted
    (tmp_path / ".out.building-late").mkdir()  # of an export killed after its last step
    assert not export_release(releases["tasks"], FORMATS[name], out).is_new
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
