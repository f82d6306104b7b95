"""`loupe` as its user sees it: arguments in; exit code, standard output and standard error out."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Finished(NamedTuple):
    """What a command came to."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which must be one JSON document and nothing else."""
        return json.loads(self.out)


Loupe = Callable[..., Finished]
