"""The code that runs on the nodes of a Ray cluster, with as few imports as possible.

Values are passed on as bytes; their types are imported only in the worker process of the actor.
"""

import hashlib
import os
import pickle
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from loupe.schemas.checkout import DISTRIBUTION
from loupe.schemas.limited import PackedError, packed_error, run_limited


class Actor:
    """Works on chunks in a process of its node, and survives that process.

    Without GPUs of its own, it hides those of its node: Ray does not, and a model that may take any
    device would load on one that belongs to others.
    """

    def __init__(self, *, has_gpus: bool) -> None:
        if not has_gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""

    def revision(self, module: str) -> str:
        """Return which code the actor runs; see `revision`."""
        return revision(module)

    def work(self, module: str, chunk: bytes, seconds: float) -> tuple[bytes, PackedError | None]:
        """Return the pickled results of a program of `module` for its items, or an error.

        `chunk` are the pickled function and its arguments.
        """
        try:
            return _run(chunk, seconds=seconds, imports=(module,)), None
        except Exception as error:  # noqa: BLE001 - raised again by the driver
            return b"", packed_error(error)


def _work(chunk: bytes) -> bytes:
    function, *arguments = pickle.loads(chunk)  # noqa: S301 - of the driver
    return pickle.dumps(function(*arguments))


_run = partial(run_limited, _work, inherits=True)


@cache
def revision(module: str) -> str:
    """Return the version of this package with a digest of its files and of a program's module."""
    packages = [folder for folder in Path(__file__).parents[2].iterdir() if folder.is_dir()]
    files = [
        path
        for package in packages
        for path in package.rglob("*")
        if path.parent.name != "__pycache__" and path.is_file()
    ]
    spec = find_spec(module)
    if spec is not None and spec.origin is not None:
        files.append(Path(spec.origin))
    digest = hashlib.sha256()
    for path in sorted(files):
        data = path.read_bytes()
        digest.update(f"{path.name} {len(data)} ".encode() + data)
    return f"{DISTRIBUTION} {version(DISTRIBUTION)}, files {digest.hexdigest()[:12]}"
