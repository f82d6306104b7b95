"""Load networks: extras, devices, files of weights with their digests, and faults of libraries."""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loupe.schemas.chat import ModelRef, NamedModel
from loupe.schemas.embedding import OpenClipEmbedder
from loupe.schemas.errors import LoupeError, MissingExtraError, ModelError
from loupe.schemas.extras import needs_extra
from loupe.schemas.validation import fault_of

if TYPE_CHECKING:
    import torch

LOCAL_FOLDER = "local-dir:"
"""How OpenCLIP marks the name of a folder."""
_REMEMBERED = 8


@contextmanager
def loading_faults(library: str, model: ModelRef) -> Iterator[None]:
    """Turns exceptions of libraries while they load a model into one sentence.

    Raises:
        ModelError: the model could not be loaded.
    """
    try:
        yield
    except LoupeError:
        raise
    except Exception as error:
        raise ModelError(f"{library} could not load {model}: {fault_of(error)}") from error


def torch_device(name: str) -> "torch.device":
    """The torch device; `auto` is CUDA if available, else the CPU.

    Raises:
        ModelError: torch knows no such device, or this machine has none.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(1, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"the device {name!r} cannot be used: {fault_of(error)}") from error


def folder_digest(folder: Path) -> str:
    """SHA-256 over the lines that `sha256sum` prints for all files in `folder`.

    First those of `*.json` and `*.safetensors`, then those of all other files, also in subfolders:
    vocabularies, templates of chats and others determine what a model answers, too. Hidden files
    and folders are left out.

    Raises:
        ModelError: there are no weights in it, or a file cannot be read.
    """
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise ModelError(f"the folder {str(folder)!r} holds no weights (*.safetensors)")
    names = [file.name for file in (*sorted(folder.glob("*.json")), *weights)]
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in names and "/." not in f"/{name}":
            names.append(name)
    lines = [f"{checkpoint_digest(folder / name)}  {name}\n" for name in names]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def local_folder(spec: OpenClipEmbedder) -> Path | None:
    """The folder of a name `local-dir:FOLDER`."""
    folder = spec.name.removeprefix(LOCAL_FOLDER)
    return Path(folder) if folder != spec.name else None


def require_digest(where: Path, wanted: str | None, found: str) -> None:
    """Raises unless the file at `where` has the wanted digest, or none is wanted.

    Raises:
        ModelError: it has another.
    """
    if wanted not in (None, found):
        raise ModelError(f"{str(where)!r} has the SHA-256 {found}; wanted {wanted}")


def file_of_package(what: str, package: str, *parts: str) -> Path:
    """A file of weights in an installed package of the extra `vision`, without importing it.

    Args:
        what: the model, as messages name it.
        package: the top-level package.
        parts: the path of the file in the package.

    Raises:
        MissingExtraError: the package is not installed.
    """
    folder = installed_folder(package)
    if folder is None:
        raise MissingExtraError(what, "vision")
    return folder.joinpath(*parts)


def installed_folder(package: str) -> Path | None:
    """The folder of a top-level package, without importing it; None if it is not installed."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0])


_NAMED_AT_MOST = 3
_COMMIT = re.compile(r"[0-9a-f]{40}")


def hub_commit(spec: NamedModel, library: str, what: str, ask: Callable[[Any], str | None]) -> str:
    """The commit of a hub's revision, as `ask` learns it from the imported library.

    Raises:
        MissingExtraError: the library is not installed; `what` needs it.
        ModelError: there is no such model, or the hub cannot be reached.
    """
    if _COMMIT.fullmatch(spec.revision):
        return spec.revision
    with needs_extra(what):
        module = import_module(library)
    with loading_faults(library, spec.ref):
        commit = ask(module)
    if commit is None:
        raise ModelError(f"{library} does not tell which commit {spec.ref} is")
    return commit


def configuration_of(transformers: Any, ref: ModelRef) -> Any:
    """The configuration of a model with its `model_type`, and its `_commit_hash` if it has one."""
    refuse_hidden_folder(ref)
    return transformers.AutoConfig.from_pretrained(
        ref.name, revision=ref.revision, trust_remote_code=False
    )


def is_place(name: str) -> bool:
    """Tell whether the name of a model is the path of a folder, and none of the hub."""
    return name.startswith((".", "/", "~"))


def refuse_hidden_folder(ref: ModelRef) -> None:
    """Raise if a folder of the working folder would be loaded in place of a model of the hub.

    Raises:
        ModelError: there is a folder of that name; one that is meant is given as a path.
    """
    if not is_place(ref.name) and Path(ref.name).exists():
        raise ModelError(
            f"the working folder has a folder {ref.name!r}, which would be loaded in place of that "
            f"model of the hub; write './{ref.name}' if it is meant, or go to another folder"
        )


def load_network(
    model_class: Any, ref: ModelRef, folder_sha256: str | None = None, **settings: Any
) -> Any:
    """A network with the weights of `ref`, ready for inference, on the CPU.

    Raises:
        ModelError: the digest of the folder is another, or its weights do not fill the network.
    """
    refuse_hidden_folder(ref)
    folder = Path(ref.name)
    if folder_sha256 is not None and folder.is_dir():
        require_digest(folder, folder_sha256, folder_digest(folder))
    model, report = model_class.from_pretrained(
        ref.name, revision=ref.revision, use_safetensors=True, output_loading_info=True, **settings
    )
    # transformers would leave them random and only warn.
    wrong = sorted(report["missing_keys"]) + sorted(map(str, report["mismatched_keys"]))
    if wrong:
        raise ModelError(f"{ref} lacks weights: {', '.join(wrong[:_NAMED_AT_MOST])}, …")
    return model.eval()


def processor_of(transformers: Any, ref: ModelRef, **settings: Any) -> Any:
    """The processor that was saved beside a network."""
    return transformers.AutoProcessor.from_pretrained(
        ref.name, revision=ref.revision, trust_remote_code=False, **settings
    )


def checkpoint_digest(path: Path) -> str:
    """Return the SHA-256 of a file, as 64 hex digits.

    Raises:
        ModelError: the file cannot be read.
    """
    try:
        status = path.stat()
        return _digest(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise ModelError(
            f"the checkpoint {str(path)!r} cannot be read: {error.strerror or error}"
        ) from error


@lru_cache(maxsize=_REMEMBERED)
def _digest(path: Path, _size: int, _changed_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
