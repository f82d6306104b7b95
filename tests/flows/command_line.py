"""The result of a `loupe` command: exit code, standard output and standard error."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from typer.main import get_command

from flows.cli.main import app

COMMAND = get_command(app)
"""The command line. `app` builds all its commands again in each call, which takes 30 ms."""


class Finished(NamedTuple):
    """The result of a command."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output parsed as one JSON document."""
        return json.loads(self.out)


Loupe = Callable[..., Finished]
