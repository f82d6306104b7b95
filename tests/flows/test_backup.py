"""The backup that the documents describe: made, the installation lost, and restored elsewhere."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flows.worlds import tiny_build
from tests.postgres import Postgres, postgres_programs
from tests.servers.processes import REPOSITORY

POSTGRES = pytest.mark.postgres


def documented_backup() -> str:
    """The commands that copy a home in use."""
    page = (REPOSITORY / "docs" / "services.md").read_text()
    section = page.partition("## Back up and restore")[2]
    found = re.search(r"```sh\n(mkdir backup\n.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


class Server:
    """A machine: a folder with `.loupe`, and perhaps a database on PostgreSQL."""

    def __init__(self, folder: Path, database_url: str) -> None:
        folder.mkdir()
        self.folder, self.database_url = folder, database_url
        programs = (Path(sys.executable).parent, postgres_programs() or "", os.environ["PATH"])
        self._variables = {
            **os.environ,
            "PATH": os.pathsep.join(map(str, programs)),
            "LOUPE_HOME": str(folder / ".loupe"),
            "LOUPE_DATABASE_URL": database_url,
        }

    def run(self, *command: str | Path) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self._variables, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def loupe(self, *arguments: str | Path) -> Any:
        return json.loads(self.run("loupe", *arguments, "--json"))


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=POSTGRES)])
def test_a_restored_installation_has_the_same_releases_and_goes_on(
    request: pytest.FixtureRequest, tmp_path: Path, database: str
) -> None:
    """Also in another folder and database; nothing is computed or paid for again."""
    urls = ["", ""]
    if database == "postgres":
        postgres: Postgres = request.getfixturevalue("postgres_server")
        urls = [postgres.url(postgres.create_database()) for _ in urls]
    lost, new = (
        Server(tmp_path / name, url) for name, url in zip(("lost", "new"), urls, strict=True)
    )
    build = ("run", "build-ufine3c", "--config", tiny_build(tmp_path), "--in-process")
    before = lost.loupe(*build)
    assert before["release_id"]

    if database == "sqlite":
        lost.run("sh", "-ec", documented_backup())
        shutil.move(lost.folder / "backup", new.folder / ".loupe")
    else:
        dump = tmp_path / "loupe.dump"
        lost.run("pg_dump", "--format=custom", f"--file={dump}", lost.database_url)
        shutil.copytree(lost.folder / ".loupe", new.folder / ".loupe")
        new.run("pg_restore", "--no-owner", f"--dbname={new.database_url}", dump)
    shutil.rmtree(lost.folder)

    assert new.loupe("store", "check", "--orphans")["faults"] == []
    again = new.loupe("release", "rebuild", "tiny", "--out", new.folder / "again")
    assert again["id"] == before["release_id"]
    after = new.loupe(*build)
    assert after["release_id"] == before["release_id"]
    assert sum(stage["done"] for stage in after["stages"]) == 0
