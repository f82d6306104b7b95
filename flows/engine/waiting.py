"""Builds that ended because people must decide first: how to run them again."""

import re
import shlex
import sys
from pathlib import Path

from pydantic import ValidationError

from loupe.schemas.base import Record, digest_of
from loupe.schemas.processes import write_atomically


class WaitingBuild(Record):
    """A build that waits for people.

    `command` runs it again in `folder`; it is empty for a run in Prefect, which is resumed instead.
    """

    dataset: str
    command: str = ""
    folder: str = ""

    @property
    def how(self) -> str:
        """How to continue, in words."""
        if not self.command:
            return "the queue watcher of loupe up resumes its paused run in Prefect"
        return f"{self.command} (in {self.folder})"


def note_waiting(home: Path, dataset: str, *, in_prefect: bool) -> None:
    """Record that the build of this process waits for people."""
    build = WaitingBuild(dataset=dataset)
    if not in_prefect:
        build = WaitingBuild(dataset=dataset, command=_own_command(), folder=str(Path.cwd()))
    path = _path(home, dataset)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_atomically(path, build.model_dump_json(indent=1).encode())


def forget_waiting(home: Path, dataset: str) -> None:
    """Remove the record of a build that does not wait any more."""
    _path(home, dataset).unlink(missing_ok=True)


def waiting_builds(home: Path) -> list[WaitingBuild]:
    """Return the builds that ended to wait for people, by dataset; damaged records are left out."""
    found = []
    for path in sorted((home / "waiting").glob("*.json")):
        try:
            found.append(WaitingBuild.model_validate_json(path.read_bytes()))
        except (ValidationError, FileNotFoundError):
            continue
    return sorted(found, key=lambda build: build.dataset)


def _own_command() -> str:
    program, *options = sys.argv
    is_script = program.endswith(".py")
    return shlex.join(
        ["python", program, *options] if is_script else [Path(program).name, *options]
    )


def _path(home: Path, dataset: str) -> Path:
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", dataset)
    return home / "waiting" / f"{slug}-{digest_of('dataset', dataset)[:8]}.json"
