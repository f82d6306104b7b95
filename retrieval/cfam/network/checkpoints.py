"""Checkpoints of CFAM and of its training, written atomically, and CFAM as an embedder."""

import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import torch
from PIL import Image
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from loupe.models.torch_embedder import TorchEmbedder
from loupe.models.weights import checkpoint_digest, require_digest
from loupe.retrieval.cfam.network.backbone import Architecture, checked_architecture
from loupe.retrieval.cfam.network.model import Cfam
from loupe.retrieval.cfam.network.pairs import ClipTokenizer, clip_pixels
from loupe.schemas.base import Record, sha256_of
from loupe.schemas.cfam import CfamTraining, TrainingProgress
from loupe.schemas.decoders import plain_picture
from loupe.schemas.embedding import CfamEmbedder
from loupe.schemas.errors import IntegrityError, ModelError
from loupe.schemas.processes import flush_to_disk
from loupe.schemas.validation import fault_of

# Checkpoints of CFAM: `model.safetensors` beside `settings.json`.

WEIGHTS, SETTINGS = "model.safetensors", "settings.json"
_DIGEST = "settings_sha256"
_UNBUILDABLE: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, ModelError,
    RuntimeError, TypeError, ValueError,
)  # fmt: skip

Shapes = Mapping[str, tuple[int, ...]]


class CheckpointSettings(Record):
    """The settings that rebuild a checkpoint, without the files that training started from."""

    format: Literal[1] = 1
    settings: CfamTraining
    identities: int
    architecture: dict[str, Any]


def save_model(folder: Path, model: Cfam, settings: CfamTraining, identities: int) -> None:
    """Writes the network to `folder`, each file atomically.

    The weights name the digest of their settings, so that files of different checkpoints are
    detected on loading.
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
    # a single entry: safetensors writes several in any order, so equal models would differ
    save_file(state, unfinished_weights, metadata={_DIGEST: sha256_of(described)})
    unfinished.replace(folder / SETTINGS)
    unfinished_weights.replace(folder / WEIGHTS)


def load_model(folder: Path) -> Cfam:
    """The network of a checkpoint, on the CPU, in evaluation mode.

    Untrusted settings can ask for a network of any size, so the network is first built without
    memory, and really only if the weights fit it.

    Raises:
        ModelError: a file is missing or damaged, or the two do not belong together.
    """
    described, content = _described(folder)
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
        raise ModelError(
            f"the checkpoint {folder / WEIGHTS} cannot be read: {fault_of(error)}"
        ) from error
    _require_finite(state, folder)
    model = Cfam(content.settings, content.identities, architecture)
    model.load_state_dict(state)
    return model.eval()


def _described(folder: Path) -> tuple[bytes, CheckpointSettings]:
    """The settings of a checkpoint, as they are written and parsed."""
    try:
        described = (folder / SETTINGS).read_bytes()
        return described, CheckpointSettings.model_validate_json(described)
    except OSError as error:
        reason = error.strerror or "unreadable"
        raise ModelError(f"the checkpoint {folder} has no {SETTINGS}: {reason}") from error
    except ValidationError as error:
        reason = fault_of(error, CheckpointSettings)
        raise ModelError(f"{folder / SETTINGS} is not valid: {reason}") from error


def _require_shapes(
    found: Shapes, content: CheckpointSettings, architecture: Architecture, folder: Path
) -> None:
    """Raises unless tensors of these shapes fill the network that the settings describe."""
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
        raise ModelError(f"{folder / SETTINGS} describes no network: {fault_of(error)}") from error
    wanted = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    for name in (*wanted, *found):
        if wanted.get(name) != found.get(name):
            what = f"{name} has the shape {found.get(name)}, wanted {wanted.get(name)}"
            raise ModelError(f"{unfit}: {what}")


def _require_finite(state: dict[str, torch.Tensor], folder: Path) -> None:
    for name, tensor in state.items():
        if not tensor.sum(dtype=torch.float64).isfinite():
            raise ModelError(f"{folder / WEIGHTS} has values that are not finite in {name}")


# Checkpoints of a training: each is there as a whole or not at all, however the training ends.
#
# DIR/checkpoints/00000120/: model.safetensors, settings.json, optimizer.safetensors, progress.json
# DIR/last -> checkpoints/00000120
# DIR/best -> checkpoints/00000080
#
# A checkpoint is written to a folder beside its own, flushed, renamed, and only then named by
# `last`, in one step. What `best` names is said in the last checkpoint, so that both cannot
# disagree for longer than until the training is taken up again.

_FOLDER = "checkpoints"
_UNFINISHED = ".unfinished-"
_OPTIMIZER = "optimizer.safetensors"
_PROGRESS = "progress.json"


class Checkpoints:
    """The checkpoints of the training in `home`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._folder = home / _FOLDER

    @property
    def last(self) -> Path:
        """The newest checkpoint."""
        return self._home / "last"

    @property
    def best(self) -> Path:
        """The checkpoint with the best validation."""
        return self._home / "best"

    def save(
        self,
        progress: TrainingProgress,
        optimizer: Mapping[str, Tensor],
        save_model: Callable[[Path], None],
    ) -> None:
        """Writes a checkpoint as the last one, and removes those that are not needed any more."""
        target = self._named(progress.step)
        unfinished = self._folder / f"{_UNFINISHED}{target.name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        save_model(unfinished)
        save_file(dict(optimizer), unfinished / _OPTIMIZER)
        (unfinished / _PROGRESS).write_text(progress.model_dump_json(indent=2), encoding="utf-8")
        for path in (*unfinished.iterdir(), unfinished):
            flush_to_disk(path)
        unfinished.rename(target)
        flush_to_disk(self._folder)
        _point(self.last, target)
        self.tidy(progress)

    def load(self) -> TrainingProgress | None:
        """The progress stored in the last checkpoint; None if there is none.

        Nothing is changed; every process may read at once.

        Raises:
            IntegrityError: the checkpoint is damaged.
        """
        if not self.last.exists():
            return None
        path = self.last / _PROGRESS
        try:
            progress = TrainingProgress.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise IntegrityError(f"{path} is damaged: {fault_of(error)}") from error
        # `tidy` removes folders that it does not name
        if self.last.resolve() != self._named(progress.step).resolve():
            raise IntegrityError(f"{path} is damaged: it says step {progress.step}")
        return progress

    def load_optimizer(self) -> dict[str, Tensor]:
        """The optimiser's tensors of the last checkpoint, on the CPU.

        Raises:
            IntegrityError: the file is damaged.
        """
        path = self.last / _OPTIMIZER
        try:
            return dict(load_file(path))
        except (OSError, SafetensorError) as error:
            raise IntegrityError(f"{path} is damaged: {error}") from error

    def tidy(self, progress: TrainingProgress | None) -> None:
        """Finishes or removes what an interrupted training left behind; for one process only.

        `best` is set as the last checkpoint says, and unreferenced checkpoints are removed.

        Args:
            progress: what `load` gave.
        """
        if progress is None:
            shutil.rmtree(self._folder, ignore_errors=True)
            return
        needed = {self._named(progress.step)}
        if progress.best is not None:
            best = self._named(progress.best.step)
            _point(self.best, best)
            needed.add(best)
        for folder in self._folder.iterdir():
            if folder not in needed:
                shutil.rmtree(folder)

    def _named(self, step: int) -> Path:
        return self._folder / f"{step:08d}"


def _point(link: Path, target: Path) -> None:
    """Atomically makes `link` name `target`."""
    beside = link.with_name(f"{_UNFINISHED}{link.name}")
    beside.unlink(missing_ok=True)
    beside.symlink_to(target.relative_to(link.parent), target_is_directory=True)
    beside.replace(link)
    flush_to_disk(link.parent)


class CfamImageTextEmbedder(TorchEmbedder[CfamEmbedder]):
    """The two towers of a checkpoint; the decoder and heads are used in training only.

    Raises:
        ModelError: the checkpoint is missing, damaged, or has another digest than was asked for.
    """

    def __init__(self, spec: CfamEmbedder) -> None:
        super().__init__(spec)
        if spec.checkpoint_sha256 is not None:
            weights = spec.checkpoint / WEIGHTS
            require_digest(weights, spec.checkpoint_sha256, checkpoint_digest(weights))
        self._model = load_model(spec.checkpoint).to(self._device, self._dtype)
        self._size = self._model.settings.backbone
        self._tokenizer = ClipTokenizer(self._size.text_tokens)
        self.dimension = self._model.dimension

    def _encode_images(self, images: Sequence[Image.Image]) -> Tensor:
        pixels = [clip_pixels(plain_picture(image), self._size) for image in images]
        return self._model.encode_images(torch.stack(pixels).to(self._device, self._dtype))

    def _encode_texts(self, texts: Sequence[str]) -> Tensor:
        return self._model.encode_texts(self._tokenizer(texts).to(self._device))
