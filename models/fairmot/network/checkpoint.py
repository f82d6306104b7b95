"""Published checkpoints: read as weights and nothing else, and held against the network."""

import hashlib
import io
import pickle
import re
import struct
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from models.fairmot.network.fairmot import FairMOTNetwork
from schemas.errors import ModelError

Weights = dict[str, Tensor]

_WRAPPER = "module."
"""Put before all names by the wrapper that trains on several GPUs."""

_CLASSIFIER = "base.fc."
"""ImageNet's classifier: published checkpoints carry it, and nothing uses it."""

_EXTENT_CHANNELS = (2, 4)
_MOST_EMBEDDING_CHANNELS = 4096  # published ones have 128 or 512
_NAMED_AT_MOST = 3
_UNREADABLE = (
    # What pickle and torch raise on bytes that are no checkpoint is not a closed list.
    ArithmeticError, AssertionError, AttributeError, EOFError, ImportError, LookupError,
    MemoryError, OSError, RuntimeError, TypeError, ValueError, pickle.UnpicklingError,
    struct.error, zipfile.BadZipFile,
)  # fmt: skip


def load_network(path: Path, sha256: str | None = None) -> FairMOTNetwork:
    """The network with the weights of a checkpoint, on the CPU, in float32, ready for inference.

    Nothing in the file is run: what is not a tensor or a plain value is refused.

    Args:
        path: a checkpoint as FairMOT's training saves it, or its `state_dict` alone.
        sha256: the digest that the file must have.

    Raises:
        ModelError: the file is missing, has another digest, holds code, is no checkpoint, or is
            one of another network.
    """
    weights = _named_weights(_read(path, sha256), path)
    with torch.device("meta"):  # no memory and no random numbers for what is replaced at once
        network = FairMOTNetwork(*_head_sizes(weights, path))
    _compare(network.state_dict(), weights, path)
    network.load_state_dict({name: _plain(tensor) for name, tensor in weights.items()}, assign=True)
    return network.requires_grad_(requires_grad=False).eval()


def _read(path: Path, sha256: str | None) -> object:
    try:
        with path.open("rb") as file:
            if sha256 is not None:
                _check_digest(file, sha256, path)
            return _unpickle(file, path)
    except OSError as error:
        raise ModelError(
            f"the checkpoint {str(path)!r} cannot be read: {error.strerror or error}"
        ) from error


def _check_digest(file: io.BufferedReader, wanted: str, path: Path) -> None:
    found = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    if found != wanted.lower():
        raise ModelError(f"the checkpoint {str(path)!r} has the SHA-256 {found}; wanted {wanted}")


def _unpickle(file: io.BufferedReader, path: Path) -> object:
    try:
        _require_stored(file, path)
        with warnings.catch_warnings(action="ignore"):  # of what then is refused, or fits
            return torch.load(file, map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        if named is not None:
            raise ModelError(
                f"the checkpoint {str(path)!r} names the code {named[1]!r} beside weights; it was "
                f"refused, and nothing of it was run"
            ) from error
        raise ModelError(
            f"{str(path)!r} is no checkpoint that torch can read as weights alone"
        ) from error


def _require_stored(file: io.BufferedReader, path: Path) -> None:
    """Nothing, if the file unpacks to no more than it is; torch itself compresses nothing."""
    if not zipfile.is_zipfile(file):
        file.seek(0)
        return
    with zipfile.ZipFile(file) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    if unpacked > size:
        raise ModelError(
            f"the checkpoint {str(path)!r} of {size:,} bytes unpacks to {unpacked:,}; "
            f"wanted one as torch writes it, without compression"
        )


def _named_weights(checkpoint: object, path: Path) -> Weights:
    """The tensors by name, without wrapper and classifier."""
    found = checkpoint.get("state_dict", checkpoint) if isinstance(checkpoint, Mapping) else None
    if not isinstance(found, Mapping) or not all(map(_is_named_weight, found.items())):
        raise ModelError(f"the checkpoint {str(path)!r} does not hold tensors by name")
    named = {name.removeprefix(_WRAPPER): tensor for name, tensor in found.items()}
    return {name: tensor for name, tensor in named.items() if not name.startswith(_CLASSIFIER)}


def _is_named_weight(item: tuple[object, object]) -> bool:
    name, tensor = item
    return (
        isinstance(name, str)
        and isinstance(tensor, Tensor)
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
    )


def _head_sizes(weights: Weights, path: Path) -> tuple[int, int]:
    """The channels of extents and of embeddings, which differ among published checkpoints."""
    extents, embedding = (
        weights[name].shape[0] if name in weights and weights[name].ndim else 0
        for name in ("wh.2.weight", "id.2.weight")
    )
    if extents not in _EXTENT_CHANNELS or not 0 < embedding <= _MOST_EMBEDDING_CHANNELS:
        raise ModelError(
            f"{str(path)!r} is no checkpoint of FairMOT: 'wh.2.weight' must have 2 or 4 channels "
            f"and 'id.2.weight' 1 to {_MOST_EMBEDDING_CHANNELS}; got {extents} and {embedding}"
        )
    return extents, embedding


def _compare(wanted: Mapping[str, Tensor], found: Weights, path: Path) -> None:
    """Nothing, if all tensors have the names and forms that are wanted, and finite values.

    Values are looked at last: a tensor that repeats one value takes no room until somebody copies
    it, so only those of the right form may be.
    """
    differing = [
        f"{name} {_form(found[name])} for {_form(tensor)}"
        for name, tensor in wanted.items()
        if name in found and _form(found[name]) != _form(tensor)
    ]
    _refuse_any("lacks", [name for name in wanted if name not in found], path)
    _refuse_any("has too much:", [name for name in found if name not in wanted], path)
    _refuse_any("has parameters of another form:", differing, path)
    infinite = [name for name, tensor in found.items() if not _is_finite(tensor)]
    _refuse_any("has values that are not finite in", infinite, path)


def _refuse_any(problem: str, names: Sequence[str], path: Path) -> None:
    if names:
        raise ModelError(
            f"{str(path)!r} is no checkpoint of FairMOT on DLA-34: it {problem} {_some(names)}"
        )


def _form(tensor: Tensor) -> str:
    kind = torch.float32 if tensor.is_floating_point() else tensor.dtype  # which it will have
    return f"{list(tensor.shape)} {str(kind).removeprefix('torch.')}"


def _plain(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def _is_finite(tensor: Tensor) -> bool:
    return bool(tensor.sum(dtype=torch.float64).isfinite())  # one pass, and no copy


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _NAMED_AT_MOST
    return ", ".join(names[:_NAMED_AT_MOST]) + (f" and {rest} more" if rest > 0 else "")
