"""Checkpoints of CFAM: `model.safetensors` beside `settings.json`."""

from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from retrieval.cfam.network.architecture import checked_architecture
from retrieval.cfam.network.model import Cfam
from schemas.base import Record, sha256_of
from schemas.cfam import CfamTraining
from schemas.errors import ModelError

WEIGHTS, SETTINGS = "model.safetensors", "settings.json"
_DIGEST = "settings_sha256"


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

    Raises:
        ModelError: a file is missing or damaged, or the two do not belong together.
    """
    described = _described(folder)
    content = _parsed(described, folder)
    architecture = checked_architecture(content.architecture, str(folder / SETTINGS))
    model = Cfam(content.settings, content.identities, architecture)
    try:
        with safe_open(folder / WEIGHTS, framework="pt") as weights:
            belongs = (weights.metadata() or {}).get(_DIGEST)
        state = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"the checkpoint {folder / WEIGHTS} cannot be read: {reason}") from error
    if belongs != sha256_of(described):
        raise ModelError(f"{WEIGHTS} and {SETTINGS} in {folder} were not written together")
    _fill(model, state, folder)
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


def _fill(model: Cfam, state: dict[str, Any], folder: Path) -> None:
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip()
        raise ModelError(f"{folder / WEIGHTS} does not fit its settings: {reason}") from error
