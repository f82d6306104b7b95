"""A disk without space or inodes: one sentence, nothing half-made, and the same after making room.

The disks are real ones: file systems in memory (tmpfs) with a limit.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from release.build import build_release
from release.manifest import MANIFEST
from tests.release.worlds import DATASET, small_world, store_world
from tests.requirements import unavailable

_RUN = """
import hashlib, json, os, subprocess, sys
from pathlib import Path
import release.build, release.export.exporting, release.report.writing
from flows.cli.main import main

def run(argv, log):
    child = os.fork()
    if not child:
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.dup2(2, 1)
        sys.argv, code = ["loupe", *argv], 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            import traceback
            traceback.print_exc()
            code = 99
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), Path(log).read_text()

def files(folder):
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(one.relative_to(folder)): hashlib.sha256(one.read_bytes()).hexdigest()
            for one in found}

disk, log, steps = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
for options, copied, argv in steps:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", disk], check=True)
    for one in copied:
        subprocess.run(["cp", "-r", one, disk], check=True)
    code, told = run(argv, log)
    left = [str(path.relative_to(disk)) for path in disk.rglob("*")]
    room = "remount,size=64m,nr_inodes=100000"
    subprocess.run(["mount", "-o", room, "none", disk], check=True)
    again, _ = run(argv, log)
    print(json.dumps([code, told, left, again, files(disk / "out")]), flush=True)
    subprocess.run(["umount", disk], check=True)
"""
FULL = ("size=8k", "size=40k", "nr_inodes=1", "nr_inodes=3", "nr_inodes=5")
"""Too little for the first file, for a later one; for a folder, its content, and a later file."""


@pytest.fixture(scope="module")
def namespace() -> list[str]:
    """Starts a program that may mount."""
    start = ["unshare", "-rm"]
    mount = [*start, "mount", "-t", "tmpfs", "-o", "size=4k", "none", "/mnt"]
    if not shutil.which("unshare") or subprocess.run(mount, check=False).returncode:
        unavailable("a mount namespace")
    return start


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small store in `home`, a `release` of it, and a `disk` to mount on."""
    folder = tmp_path_factory.mktemp("made")
    world = store_world(folder / "home", small_world().contents())
    build_release(world.store, world.blobs, DATASET, "1.0.0", folder / "release")
    world.store.close()
    (folder / "disk").mkdir()
    return folder


Tried = list[tuple[int, str, list[str], int, dict[str, str]]]
TryOn = Callable[..., Tried]


@pytest.fixture
def try_on(namespace: list[str], made: Path) -> TryOn:
    """Runs a command on disks: full ones, then the same with room, `copied` lying there before.

    Of each: exit code, what was printed and what is left; exit code and files with room.
    """

    def run(
        disks: tuple[str, ...], *argv: Any, copied: tuple[Path, ...] = (), **env: Path
    ) -> Tried:
        steps = [[one, list(map(str, copied)), list(map(str, argv))] for one in disks]
        variables = {"LOUPE_HOME": made / "home", "PYTHONPATH": Path.cwd(), **env}
        done = subprocess.run(
            [
                *namespace,
                sys.executable,
                "-c",
                _RUN,
                made / "disk",
                made / "log",
                json.dumps(steps),
            ],
            env={
                "PATH": "/usr/bin:/bin",
                **{name: str(value) for name, value in variables.items()},
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        return [tuple(json.loads(line)) for line in done.stdout.splitlines()]

    return run


def commands(made: Path) -> dict[str, list[Any]]:
    out = ["--out", made / "disk" / "out"]
    exports = ("webdataset", "hf", "coco", "lmdb", "parquet", "published")
    return {
        "build": ["release", "build", DATASET, "--version", "2.0.0", *out],
        "report": ["release", "report", made / "release", *out],
        **{one: ["release", "export", made / "release", "--format", one, *out] for one in exports},
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["build", "report", "webdataset", "hf", "coco", "lmdb", "parquet", "published"]
)
def test_a_full_disk_is_one_sentence_and_with_room_all_is_as_ever(
    name: str, made: Path, try_on: TryOn
) -> None:
    full = FULL if name in ("build", "report", "webdataset") else FULL[:1] + FULL[3:4]
    *tried, (_, _, _, code, whole) = try_on((*full, "size=64m"), *commands(made)[name])
    assert code == 0
    assert whole
    for disk, (code, told, left, again, files) in zip(full, tried, strict=True):
        assert code == 1, (disk, told)
        assert told.startswith("error: "), (disk, told)
        assert told.count("\n") == 1, (disk, told)
        place = made / "disk"
        assert f"{place / 'out'} was not written: no space or no inodes are left in {place}" in told
        assert left == [], disk
        assert (again, files) == (0, whole), disk


@pytest.mark.slow
def test_temporary_files_that_find_no_room_are_one_sentence(
    made: Path, try_on: TryOn, tmp_path: Path
) -> None:
    """As a manifest of many files needs; what the small release needs is held in memory."""
    folder = shutil.copytree(made / "release", tmp_path / "release")
    values = json.loads((folder / MANIFEST).read_text("utf-8"))
    values["files"] += [
        {"path": f"images/{number}.jpg", "sha256": f"{number:064x}", "size_bytes": 1}
        for number in range(100_000, 140_000)
    ]
    (folder / MANIFEST).write_text(json.dumps(values), "utf-8")
    for command in ("verify", "report", "export"):
        out = [] if command == "verify" else ["--out", tmp_path / "out"]
        form = ["--format", "webdataset"] if command == "export" else []
        given = ["release", command, folder, *form, *out]
        ((code, told, left, _, _),) = try_on(("size=64k",), *given, TMPDIR=made / "disk")
        assert (code, left) == (1, []), told
        assert told.startswith(f"error: temporary files cannot be written in {made / 'disk'}"), told
        assert told.count("\n") == 1
        assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_store_on_the_full_disk_is_as_it_was(made: Path, try_on: TryOn) -> None:
    home, disk, build = made / "home", made / "disk", commands(made)["build"]
    used = sum(path.stat().st_size for path in home.rglob("*") if path.is_file()) >> 10
    inodes = len(list(home.rglob("*")))
    full = (f"size={used + 170}k", f"size={used + 280}k", f"nr_inodes={inodes + 3}", "size=64m")
    *tried, (_, _, _, _, whole) = try_on(full, *build, copied=(home,), LOUPE_HOME=disk / "home")
    for options, (code, told, left, again, files) in zip(full, tried, strict=False):
        assert (code, told.count("\n")) == (1, 1), (options, told)
        assert told.startswith("error: ")
        assert str(disk) in told
        assert {path.partition("/")[0] for path in left} == {"home"}, options
        assert (again, files) == (0, whole), options
