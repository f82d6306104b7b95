"""A home that is mounted read-only: what only reads works, what stores is refused in a sentence."""

import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from db.store import Store
from tests.db.samples import caption, store_entities
from tests.release.export.kinds import released
from tests.requirements import unavailable

_RUN = """
import sys
from flows.cli.main import main
for command in sys.argv[1:]:
    sys.argv = ["loupe", *command.split()]
    try:
        main()
    except SystemExit as end:
        print(command, "->", end.code)
from db.store import Store
from db.work import register_plan
from models.profiles.settings import load_settings
main(lambda: register_plan(Store.open(load_settings().database_url), "stage", "1", {}))
"""
READS = {
    "release list": 0,
    "queue list": 0,
    "quarantine people": 0,
    "cost people": 0,
    "withdrawals": 0,
    "annotator list": 0,
    "release verify .": 1,
    "release show {release}": 0,
    "doctor": 0,
    "status": 0,
    "lineage {entity}": 0,
}


@pytest.fixture(scope="module")
def can_mount() -> None:
    made = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    if not shutil.which("unshare") or subprocess.run(made, check=False).returncode:
        unavailable("a mount namespace")


def in_read_only(home: Path, *commands: str) -> str:
    """What the commands print where `home` is mounted read-only."""
    mount = f"mount --bind {home} {home} && mount -o remount,ro,bind {home} {home}"
    script = f'{mount} && exec "$0" -c "$1" "${{@:2}}"'
    done = subprocess.run(
        ["unshare", "-rm", "bash", "-c", script, sys.executable, _RUN, *commands],
        env={"LOUPE_HOME": str(home), "PYTHONPATH": str(Path.cwd()), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("can_mount")
@pytest.mark.parametrize("is_cut_off", [False, True])
def test_what_reads_works_and_what_stores_is_refused(tmp_path: Path, *, is_cut_off: bool) -> None:
    """Also where the last run was killed and its journal lies beside the database."""
    home = tmp_path / "home"
    home.mkdir()
    with closing(Store.open(f"sqlite:///{tmp_path / 'loupe.db'}")) as store:
        entity = caption()
        store_entities(store, [entity])
        if not is_cut_off:
            store.close()
        for file in tmp_path.glob("loupe.db*"):
            shutil.copy(file, home)
    assert (home / "loupe.db-wal").exists() == is_cut_off
    release = released("plain", tmp_path / "built").folder
    commands = {
        command.format(entity=entity.id, release=release): code for command, code in READS.items()
    }
    said = in_read_only(home, *commands)
    for command, code in commands.items():
        assert f"{command} -> {code}\n" in said, said
    assert "cannot be written" in said
