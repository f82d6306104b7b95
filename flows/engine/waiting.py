"""Builds that ended because people must decide first: how to run them again."""

import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, ValidationError

from loupe.models.profiles.settings import PREFIX, SECRETS_OF_BUILDS, Settings
from loupe.schemas.base import Record, digest_of
from loupe.schemas.processes import write_atomically
from loupe.services.prefect_server import worker_variables

_PROGRAM = "loupe"
_SECRET_NAME = re.compile(r".*(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL).*|PG.*|AWS_.*")
_LOGIN_IN_URL = re.compile(r"://[^/\s]*@")


class WaitingBuild(Record):
    """A build that waits for people.

    `command` runs it again in `folder`; it is empty for a run in Prefect, which is resumed instead.
    The run had the variables of `environment`, and those that `keys` names, whose values are secret
    and not stored.
    """

    dataset: str
    command: tuple[str, ...] = ()
    folder: str = ""
    environment: Mapping[str, str] = Field(default={}, repr=False)
    keys: tuple[str, ...] = ()

    @property
    def how(self) -> str:
        """How to continue, in words."""
        if not self.command:
            return "the queue watcher of loupe up resumes its paused run in Prefect"
        program, *options = self.command
        shown = ["python", program] if program.endswith(".py") else [Path(program).name]
        return f"{shlex.join([*shown, *options])} (in {self.folder})"

    @property
    def is_command(self) -> bool:
        """Whether it was started with `loupe run`, and not by a program or notebook of the user."""
        return len(self.command) > 1 and (Path(self.command[0]).name, self.command[1]) == (
            _PROGRAM,
            "run",
        )


def note_waiting(
    settings: Settings, dataset: str, profile: str, *, in_prefect: bool
) -> WaitingBuild:
    """Record that the build of this process, with that profile, waits for people; return it."""
    build = WaitingBuild(dataset=dataset)
    if not in_prefect:
        variables = _variables(settings, profile)
        secret = settings.environment(*SECRETS_OF_BUILDS).keys() - settings.environment().keys()
        plain = {
            name: value
            for name, value in variables.items()
            if name not in secret and not _is_secret(name, value)
        }
        build = WaitingBuild(
            dataset=dataset,
            command=(os.path.realpath(sys.argv[0]), *sys.argv[1:]),
            folder=str(Path.cwd()),
            environment=plain,
            keys=tuple(sorted(variables.keys() - plain.keys())),
        )
    path = _path(settings.home, dataset)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_atomically(path, build.model_dump_json(indent=1).encode())
    return build


def forget_waiting(home: Path, dataset: str) -> None:
    """Remove the record of a build that does not wait any more."""
    _path(home, dataset).unlink(missing_ok=True)


class WaitingBuilds(NamedTuple):
    """The builds that ended to wait for people, by dataset, and their records that are damaged."""

    builds: list[WaitingBuild]
    damaged: list[Path]


def waiting_builds(home: Path) -> WaitingBuilds:
    """Return the builds that ended to wait for people."""
    found, damaged = [], []
    for path in sorted((home / "waiting").glob("*.json")):
        try:
            found.append(WaitingBuild.model_validate_json(path.read_bytes()))
        except FileNotFoundError:
            continue  # it goes on meanwhile
        except ValidationError:
            damaged.append(path)
    return WaitingBuilds(sorted(found, key=lambda build: build.dataset), damaged)


def file_name(dataset: str) -> str:
    """Return a name for the files of a dataset, another for each."""
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", dataset)
    return f"{slug}-{digest_of('dataset', dataset)[:8]}"


def _variables(settings: Settings, profile: str) -> dict[str, str]:
    """Return the variables on which the results of this run depend; some are secret."""
    of_builds = settings.environment(*SECRETS_OF_BUILDS)
    stated = {name: os.environ[name] for name in of_builds if name in os.environ}
    chosen = settings.model_copy(update={"profile": profile})
    path = {"PATH": os.environ.get("PATH", ""), f"{PREFIX}HOME": str(settings.home)}
    return {**worker_variables(chosen), **stated, **path}


def _is_secret(name: str, value: str) -> bool:
    return bool(_SECRET_NAME.fullmatch(name) or _LOGIN_IN_URL.search(value))


def _path(home: Path, dataset: str) -> Path:
    return home / "waiting" / f"{file_name(dataset)}.json"
