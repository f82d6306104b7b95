"""Files of weights: their digests, and those in installed packages."""

import hashlib
from importlib.util import find_spec
from pathlib import Path

from models.fairmot.detector import checkpoint_digest
from schemas.errors import MissingExtraError, ModelError


def folder_digest(folder: Path) -> str:
    """SHA-256 over the lines that `sha256sum *.json *.safetensors` prints in `folder`.

    Raises:
        ModelError: there are no weights in it, or a file cannot be read.
    """
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise ModelError(f"the folder {str(folder)!r} holds no weights (*.safetensors)")
    files = [*sorted(folder.glob("*.json")), *weights]
    lines = [f"{checkpoint_digest(file)}  {file.name}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def require_digest(where: Path, wanted: str | None, found: str) -> None:
    """Raises unless the file at `where` has the wanted digest, or none is wanted.

    Raises:
        ModelError: it has another.
    """
    if wanted not in (None, found):
        raise ModelError(f"{str(where)!r} has the SHA-256 {found}; wanted {wanted}")


def file_of_package(package: str, *parts: str) -> Path:
    """A file of weights in an installed package of the extra `vision`, without importing it.

    Raises:
        MissingExtraError: the package is not installed.
    """
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError(f"the model in the package {package!r}", "vision")
    return Path(found.submodule_search_locations[0], *parts)
