"""Checkpoints of CFAM: `model.safetensors` beside `settings.json`."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from retrieval.cfam.network.architecture import Architecture, checked_architecture
from retrieval.cfam.network.model import Cfam
from schemas.base import Record, sha256_of
from schemas.cfam import CfamTraining
from schemas.errors import ModelError

WEIGHTS, SETTINGS = "model.safetensors", "settings.json"
_DIGEST = "settings_sha256"
_UNBUILDABLE: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, ModelError,
    RuntimeError, TypeError, ValueError,
)  # fmt: skip

Shapes = Mapping[str, tuple[int, ...]]


class CheckpointSettings(Record):
    """What a checkpoint needs to be built again, without the files that training began with."""

    format: Literal[1] = 1
    settings: CfamTraining
    identities: int
    architecture: dict[str, Any]


def save_model(folder: Path, model: Cfam, settings: CfamTraining, identities: int) -> None:
    """Writes the network into `folder`, each file whole or not at all.

    The weights name the digest of their settings, so that a folder caught between the two files is
    known when it is loaded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = CheckpointSettings(
        settings=settings, identities=identities, architecture=dict(model.backbone.architecture)
    )
    described = content.model_dump_json(indent=2).encode()
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    unfinished = folder / f"{SETTINGS}.unfinished"
    unfinished.write_bytes(described)
    unfinished_weights = folder / f"{WEIGHTS}.unfinished"
    # one entry alone: safetensors writes several in any order, and the same model would differ
    save_file(state, unfinished_weights, metadata={_DIGEST: sha256_of(described)})
    unfinished.replace(folder / SETTINGS)
    unfinished_weights.replace(folder / WEIGHTS)


def load_model(folder: Path) -> Cfam:
    """The network of a checkpoint, on the CPU, in evaluation mode.

    The settings of a stranger can ask for a network of any size: it is built without memory first,
    and in earnest only where the weights are those of such a network.

    Raises:
        ModelError: a file is missing or damaged, or the two do not belong together.
    """
    described = _described(folder)
    content = _parsed(described, folder)
    architecture = checked_architecture(content.architecture, str(folder / SETTINGS))
    try:
        with safe_open(folder / WEIGHTS, framework="pt") as weights:
            belongs = (weights.metadata() or {}).get(_DIGEST)
            names = list(weights.keys())
            shapes = {name: tuple(weights.get_slice(name).get_shape()) for name in names}
        if belongs != sha256_of(described):
            raise ModelError(f"{WEIGHTS} and {SETTINGS} in {folder} were not written together")
        _require_shapes(shapes, content, architecture, folder)
        state = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"the checkpoint {folder / WEIGHTS} cannot be read: {reason}") from error
    _require_finite(state, folder)
    model = Cfam(content.settings, content.identities, architecture)
    model.load_state_dict(state)
    return model.eval()


def _described(folder: Path) -> bytes:
    try:
        return (folder / SETTINGS).read_bytes()
    except OSError as error:
        reason = error.strerror or "unreadable"
        raise ModelError(f"the checkpoint {folder} has no {SETTINGS}: {reason}") from error


def _parsed(described: bytes, folder: Path) -> CheckpointSettings:
    try:
        return CheckpointSettings.model_validate_json(described)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise ModelError(f"{folder / SETTINGS} is not valid: {place}: {first['msg']}") from error


def _require_shapes(
    found: Shapes, content: CheckpointSettings, architecture: Architecture, folder: Path
) -> None:
    """Nothing, if tensors of these shapes fill the network that the settings describe."""
    unfit = f"{folder / WEIGHTS} does not fit its settings"
    settings = content.settings
    repeated = (
        settings.decoder.blocks,
        settings.matcher.blocks,
        *(architecture[part].get("layers", 0) for part in ("vision_cfg", "text_cfg")),
    )
    for blocks in repeated:
        if not isinstance(blocks, int) or blocks > len(found):
            what = f"they describe {blocks!r} blocks, and it has {len(found):,} tensors"
            raise ModelError(f"{unfit}: {what}")
    try:
        with torch.device("meta"), warnings.catch_warnings(action="ignore"):
            network = Cfam(settings, content.identities, architecture)
    except _UNBUILDABLE as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ModelError(f"{folder / SETTINGS} describes no network: {reason}") from error
    wanted = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    for name in (*wanted, *found):
        if wanted.get(name) != found.get(name):
            what = f"{name} has the shape {found.get(name)}, wanted {wanted.get(name)}"
            raise ModelError(f"{unfit}: {what}")


def _require_finite(state: dict[str, torch.Tensor], folder: Path) -> None:
    for name, tensor in state.items():
        if not tensor.sum(dtype=torch.float64).isfinite():
            raise ModelError(f"{folder / WEIGHTS} has values that are not finite in {name}")
