"""A disk without space or inodes: one-sentence errors, no partial files, success after making room.

The disks are file systems in memory (tmpfs) with a size limit.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from loupe.release.build import build_release
from loupe.release.format.manifest import MANIFEST
from tests.release.worlds import DATASET, small_world, store_world
from tests.requirements import unavailable

_RUN = """
import hashlib, json, os, subprocess, sys
from pathlib import Path
# Modules that commands import; each command runs in a fork of this process.
import loupe.flows.engine.contamination
import loupe.flows.engine.releasing
import loupe.flows.withdrawal.releases
import license_expression, pandas, pyarrow.pandas_compat
import loupe.release.export.formats
import loupe.release.report.writing
from loupe.flows.cli.main import main

def run(argv, variables):
    child = os.fork()
    if not child:
        os.environ.update(variables)
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

disk, log = Path(sys.argv[1]), sys.argv[2]
for line in sys.stdin:
    options, argv, retried, copied, variables = json.loads(line)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", disk], check=True)
    for one in copied:
        subprocess.run(["cp", "-r", one, disk], check=True)
    code, message = run(argv, variables)
    left = [str(path.relative_to(disk)) for path in disk.rglob("*")]
    again = code
    if code and retried:
        room = "remount,size=64m,nr_inodes=100000"
        subprocess.run(["mount", "-o", room, "none", disk], check=True)
        again, _ = run(argv, variables)
    print(json.dumps([code, message, left, again, files(disk / "out")]), flush=True)
    subprocess.run(["umount", disk], check=True)
"""
NO_SPACE, NO_INODES, ROOM = "size=8k", "nr_inodes=3", "size=64m"
FULL = (NO_SPACE, "size=40k", "nr_inodes=1", NO_INODES, "nr_inodes=5")
"""Too little space for the first or a later file; too few inodes for a folder or its files."""
DISKS = {
    "build": FULL,
    "report": (NO_SPACE, NO_INODES),
    "webdataset": (NO_SPACE, NO_INODES),
    "hf": (NO_SPACE,),
    "parquet": (NO_SPACE,),
    "coco": (NO_INODES,),
    "published": (NO_INODES,),
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small store in `home`, a `release` of it, and the mount point `disk`."""
    folder = tmp_path_factory.mktemp("installed")
    world = store_world(folder / "home", small_world().contents())
    build_release(world.store, world.blobs, DATASET, "1.0.0", folder / "release")
    world.store.close()
    (folder / "disk").mkdir()
    return folder


class Tried(NamedTuple):
    """Result of a command on a full disk; exit code and files, after making room if retried."""

    code: int
    message: str
    left: list[str]
    again: int
    files: dict[str, str]


def without_heartbeats(message: str) -> str:
    """Return what a command printed without the lines that it is still at work."""
    return "".join(
        line for line in message.splitlines(keepends=True) if not line.startswith("still at work")
    )


Step = tuple[str, list[Any], bool]
"""Options of the disk, the arguments of the command, and whether it is retried with room."""
TryOn = Callable[..., list[Tried]]


@pytest.fixture(scope="module")
def try_on(installed: Path) -> Iterator[TryOn]:
    """Run commands, each on a new disk with the folders `copied`."""
    start = ["unshare", "-rm"]
    mount = [*start, "mount", "-t", "tmpfs", "-o", "size=4k", "none", "/mnt"]
    if not shutil.which("unshare") or subprocess.run(mount, check=False).returncode:
        unavailable("a mount namespace")
    with ExitStack() as running:

        @cache
        def runner(temporary: Path | None) -> tuple[IO[str], IO[str]]:
            """Start a program that may mount, one for each TMPDIR, which SQLite reads only once."""
            variables: dict[str, str | Path] = {"PATH": "/usr/bin:/bin", "PYTHONPATH": Path.cwd()}
            variables["LOUPE_HOME"] = installed / "home"
            if temporary:
                variables["TMPDIR"] = temporary
            program = subprocess.Popen(
                [*start, sys.executable, "-c", _RUN, installed / "disk", installed / "log"],
                env=variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert program.stdin is not None
            assert program.stdout is not None
            running.enter_context(program)
            return program.stdin, program.stdout

        def run(
            steps: list[Step],
            *,
            copied: tuple[Path, ...] = (),
            temporary: Path | None = None,
            **env: Path,
        ) -> list[Tried]:
            requests, results = runner(temporary)
            tried = []
            for step in steps:
                requests.write(json.dumps([*step, copied, env], default=str) + "\n")
                requests.flush()
                code, message, *rest = json.loads(results.readline())
                tried.append(Tried(code, without_heartbeats(message), *rest))
            return tried

        yield run


def commands(installed: Path) -> dict[str, list[Any]]:
    out = ["--out", installed / "disk" / "out"]
    exports = ("webdataset", "hf", "coco", "parquet", "published")
    return {
        "build": ["release", "build", DATASET, "--version", "2.0.0", *out],
        "report": ["release", "report", installed / "release", *out],
        **{
            one: ["release", "export", installed / "release", "--format", one, *out]
            for one in exports
        },
    }


@pytest.mark.slow
def test_a_full_disk_gives_a_one_sentence_error_and_a_retry_succeeds(
    installed: Path, try_on: TryOn
) -> None:
    argv = commands(installed)
    steps = [
        (name, disk, disk == disks[-1]) for name, disks in DISKS.items() for disk in (ROOM, *disks)
    ]
    assert DISKS.keys() == argv.keys()
    place = installed / "disk"
    whole: dict[str, dict[str, str]] = {}
    given = [(disk, argv[name], retried) for name, disk, retried in steps]
    for (name, disk, retried), tried in zip(steps, try_on(given), strict=True):
        case = (name, disk, tried.message)
        if disk == ROOM:
            whole[name] = tried.files
            assert (tried.code, bool(tried.files)) == (0, True), case
            continue
        assert tried.code == 1, case
        assert tried.message.startswith("error: "), case
        assert tried.message.count("\n") == 1, case
        reason = f"was not written: no space or no inodes are left in {place}"
        assert f"{place / 'out'} {reason}" in tried.message, case
        assert tried.left == [], case
        if retried:
            assert (tried.again, tried.files) == (0, whole[name]), case


@pytest.mark.slow
def test_a_full_temporary_folder_gives_a_one_sentence_error(
    installed: Path, try_on: TryOn, tmp_path: Path
) -> None:
    """A manifest of many files needs temporary files; that of a small release fits into memory."""
    folder = shutil.copytree(installed / "release", tmp_path / "release")
    values = json.loads((folder / MANIFEST).read_text("utf-8"))
    values["files"] += [
        {"path": f"images/{number}.jpg", "sha256": f"{number:064x}", "size_bytes": 1}
        for number in range(100_000, 140_000)
    ]
    (folder / MANIFEST).write_text(json.dumps(values), "utf-8")
    out = ["--out", tmp_path / "out"]
    given = (
        ["release", "verify", folder],
        ["release", "report", folder, *out],
        ["release", "export", folder, "--format", "webdataset", *out],
    )
    for tried in try_on(
        [("size=64k", argv, False) for argv in given], temporary=installed / "disk"
    ):
        assert (tried.code, tried.left) == (1, []), tried.message
        reason = f"error: temporary files cannot be written in {installed / 'disk'}"
        assert tried.message.startswith(reason), tried.message
        assert tried.message.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_store_on_a_full_disk_is_unchanged(installed: Path, try_on: TryOn) -> None:
    home, disk, build = installed / "home", installed / "disk", commands(installed)["build"]
    used = sum(path.stat().st_size for path in home.rglob("*") if path.is_file()) >> 10
    inodes = len(list(home.rglob("*")))
    full = (f"size={used + 170}k", f"size={used + 280}k", f"nr_inodes={inodes + 3}")
    steps = [(one, build, one == full[-1]) for one in (ROOM, *full)]
    whole, *found = try_on(steps, copied=(home,), LOUPE_HOME=disk / "home")
    assert (whole.code, bool(whole.files)) == (0, True)
    for options, tried in zip(full, found, strict=True):
        assert (tried.code, tried.message.count("\n")) == (1, 1), (options, tried.message)
        assert tried.message.startswith("error: ")
        assert str(disk) in tried.message
        assert {path.partition("/")[0] for path in tried.left} == {"home"}, options
    assert (tried.again, tried.files) == (0, whole.files)
