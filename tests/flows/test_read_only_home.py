"""A home that is mounted read-only: reads work, writes are a one-line error."""

import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from loupe.db.store import Store
from tests.db.samples import caption, store_entities
from tests.release.export.kinds import released
from tests.requirements import unavailable

_RUN = """
import os, sys
from loupe.flows.cli.main import main
from loupe.db.store import Store
from loupe.db.work import register_plan
from loupe.models.profiles.settings import load_settings
first, second, *commands = sys.argv[1:]
for home in (first, second):
    os.environ["LOUPE_HOME"] = home
    print("home", home)
    for command in commands:
        sys.argv = ["loupe", *command.split()]
        try:
            main()
        except SystemExit as end:
            print(command, "->", end.code)
    try:
        main(lambda: register_plan(Store.open(load_settings().database_url), "stage", "1", {}))
    except SystemExit:
        pass
"""
READS = {
    "release list": 0,
    "queue list": 0,
    "cost people": 0,
    "withdrawals": 0,
    "release show {release}": 0,
    "status": 0,
    "lineage {entity}": 0,
}


@pytest.fixture(scope="module")
def can_mount() -> None:
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    if not shutil.which("unshare") or subprocess.run(command, check=False).returncode:
        unavailable("a mount namespace")


def in_read_only(homes: tuple[Path, Path], *commands: str) -> list[str]:
    """Return the output of the commands in each of two homes that are mounted read-only."""
    mounts = (
        f"mount --bind {home} {home} && mount -o remount,ro,bind {home} {home}" for home in homes
    )
    script = f'{" && ".join(mounts)} && exec "$0" -uc "$1" "${{@:2}}"'
    done = subprocess.run(
        ["unshare", "-rm", "bash", "-c", script, sys.executable, _RUN, *homes, *commands],
        env={"PYTHONPATH": str(Path.cwd()), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    assert "Traceback" not in done.stdout, done.stdout
    before, *outputs = re.split(r"^home \S+\n", done.stdout, flags=re.MULTILINE)
    assert (before, len(outputs)) == ("", len(homes)), done.stdout
    return outputs


@pytest.mark.slow
@pytest.mark.usefixtures("can_mount")
def test_reading_commands_work_and_writing_ones_are_refused(tmp_path: Path) -> None:
    """Also with the journal that a killed run left next to the database."""
    cut_off, closed = tmp_path / "cut-off", tmp_path / "closed"
    entity = caption()
    with closing(Store.open(f"sqlite:///{tmp_path / 'loupe.db'}")) as store:
        store_entities(store, [entity])
        for home in (cut_off, closed):
            home.mkdir()
            for file in tmp_path.glob("loupe.db*"):
                shutil.copy(file, home)
            store.close()
    assert (cut_off / "loupe.db-wal").exists()
    assert not (closed / "loupe.db-wal").exists()
    release = released("plain", tmp_path / "built").folder
    commands = {
        command.format(entity=entity.id, release=release): code for command, code in READS.items()
    }
    for output in in_read_only((cut_off, closed), *commands):
        for command, code in commands.items():
            assert f"{command} -> {code}\n" in output, output
        assert "cannot be written" in output
