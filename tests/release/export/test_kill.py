"""An export that is killed at any moment leaves nothing under its name, and hinders nobody."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from release.export import export_release
from release.export.formats import FORMATS
from tests.release.export.conftest import Releases
from tests.release.export.kinds import content_of

KILLS = 6
EXPORT = """
import sys, time
from pathlib import Path
from release.export import export_release
from release.export.formats import FORMATS

def slowly(done, total):  # so that there is a while in which to be killed
    time.sleep(0.005)

print("ready", flush=True)
export_release(Path(sys.argv[1]), FORMATS[sys.argv[2]], Path(sys.argv[3]), on_progress=slowly)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["webdataset", "coco", "hf"])
def test_a_killed_export_leaves_nothing(
    releases: Releases, exports: Releases, name: str, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed of the kills: {seed}")  # noqa: T201 - shown with a failure, to repeat it
    chance = random.Random(seed)
    wanted, out = content_of(exports[f"tasks/{name}"]), tmp_path / "out"
    command = [sys.executable, "-c", EXPORT, str(releases["tasks"]), name, str(out)]
    for number in range(KILLS):
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout as stream:
            assert stream.readline() == b"ready\n"
            if number:
                time.sleep(chance.uniform(0, 0.3))
            else:  # certainly in the midst
                while process.poll() is None and not list(tmp_path.glob(".out.building-*/*")):
                    time.sleep(0.001)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        if out.exists():
            assert content_of(out) == wanted
            break
    again = export_release(releases["tasks"], FORMATS[name], out)
    assert content_of(again.folder) == wanted
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
