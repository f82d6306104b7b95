"""The result of a `loupe` command: exit code, standard output and standard error."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple


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
