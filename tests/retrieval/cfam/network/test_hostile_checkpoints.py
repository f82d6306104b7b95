"""Hostile checkpoints are refused in one sentence, without running code or allocating memory."""

import json
import pickle
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from loupe.retrieval.cfam.network.checkpoints import (
    SETTINGS,
    WEIGHTS,
    Checkpoints,
    load_model,
    save_model,
)
from loupe.retrieval.cfam.network.model import Cfam
from loupe.retrieval.cfam.network.training import adam_for
from loupe.schemas.base import sha256_of
from loupe.schemas.cfam import TrainingProgress
from loupe.schemas.errors import IntegrityError, LoupeError, ModelError
from tests.retrieval.cfam.network.small_training import tiny_settings

HUGE = (10**6, 10**9, 10**18)


class Witness:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.fixture(scope="module")
def valid_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid checkpoint, read-only; tests write to other folders."""
    folder = tmp_path_factory.mktemp("valid_checkpoint")
    settings = tiny_settings(folder)
    save_model(folder / "model", Cfam(settings, 5), settings, 5)
    return folder / "model"


def leaves(content: dict[str, Any], at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in content.items():
        found += leaves(value, (*at, key)) if isinstance(value, dict) else [(*at, key)]
    return found


def changed_settings(chance: random.Random, description: bytes) -> bytes:
    """Replace one value of the settings by a value of another type or size."""
    content = json.loads(description)
    *way, last = chance.choice(leaves(content))
    inner = content
    for key in way:
        inner = inner[key]
    inner[last] = chance.choice([0, -1, *HUGE, "x", None, [], {}, [[]], 1e308, "\0"])
    return json.dumps(content).encode()


def changed_weights(chance: random.Random, weights: bytes) -> bytes:
    """Truncate the weights, flip a bit, or change their header or tensors."""
    (length,) = struct.unpack("<Q", weights[:8])
    header, data = json.loads(weights[8 : 8 + length]), weights[8 + length :]
    named = sorted(set(header) - {"__metadata__"})
    kind = chance.randrange(7)
    if kind == 0:
        return weights[: chance.randrange(len(weights))]
    if kind == 1:
        flipped = bytearray(weights)
        flipped[chance.randrange(8 + length)] ^= 1 << chance.randrange(8)
        return bytes(flipped)
    if kind == 2:
        return struct.pack("<Q", chance.choice([0, 2**31, 2**63, 10**8 + 1])) + weights[8:]
    if kind == 3:
        header[chance.choice(named)]["shape"] = [chance.choice(HUGE), 1]
    elif kind == 4:
        header[chance.choice(named)]["dtype"] = chance.choice(["F64", "I8", "BOOL", "X9", "BF16"])
    elif kind == 5:
        header["again"] = header.pop(chance.choice(named))
    else:
        metadata, tensors = header["__metadata__"], load(weights)
        tensors[chance.choice(named)].fill_(chance.choice([float("nan"), float("inf")]))
        return save(tensors, metadata)
    message = json.dumps(header).encode()
    return struct.pack("<Q", len(message)) + message + data


def load_changed(valid_checkpoint: Path, folder: Path, seed: int) -> str | None:
    """Load a changed checkpoint and return the error message; None if it is still valid."""
    chance = random.Random(seed)
    description, weights = (
        (valid_checkpoint / SETTINGS).read_bytes(),
        (valid_checkpoint / WEIGHTS).read_bytes(),
    )
    if seed % 2:
        before = sha256_of(description).encode()
        description = changed_settings(chance, description)
        weights = weights.replace(before, sha256_of(description).encode())  # keep them consistent
    else:
        weights = changed_weights(chance, weights)
    folder.mkdir(exist_ok=True)
    (folder / SETTINGS).write_bytes(description)
    (folder / WEIGHTS).write_bytes(weights)
    try:
        load_model(folder)
    except ModelError as error:
        return str(error)
    return None


def error_messages(valid_checkpoint: Path, tmp_path: Path, seeds: range) -> list[str]:
    messages = {seed: load_changed(valid_checkpoint, tmp_path / "changed", seed) for seed in seeds}
    for seed, sentence in messages.items():
        assert sentence is None or ("\n" not in sentence and sentence), (seed, sentence)
    return [sentence for sentence in messages.values() if sentence]


def test_changed_checkpoints_are_refused_with_a_message(
    valid_checkpoint: Path, tmp_path: Path
) -> None:
    assert len(error_messages(valid_checkpoint, tmp_path, range(12))) >= 6


@pytest.mark.soak
def test_many_changed_checkpoints_are_refused_with_a_message(
    valid_checkpoint: Path, tmp_path: Path
) -> None:
    assert len(error_messages(valid_checkpoint, tmp_path, range(300))) >= 150


def test_settings_of_a_huge_network_are_refused(
    subtests: pytest.Subtests, valid_checkpoint: Path, tmp_path: Path
) -> None:
    """A file of a few megabytes describes a network of terabytes."""
    cases: list[tuple[str, ...]] = [("identities",), ("settings", "decoder", "blocks"),
                                       ("architecture", "text_cfg", "layers"),
                                       ("architecture", "vision_cfg", "width")]  # fmt: skip
    for case, place in enumerate(cases):
        with subtests.test(case=case):
            content = json.loads((valid_checkpoint / SETTINGS).read_text())
            inner = content
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = 2**40
            description = json.dumps(content).encode()
            before = sha256_of((valid_checkpoint / SETTINGS).read_bytes()).encode()
            weights = (
                (valid_checkpoint / WEIGHTS)
                .read_bytes()
                .replace(before, sha256_of(description).encode())
            )
            (tmp_path / SETTINGS).write_bytes(description)
            (tmp_path / WEIGHTS).write_bytes(weights)
            with pytest.raises(ModelError, match=SETTINGS.replace(".", r"\.") + "|" + WEIGHTS):
                load_model(tmp_path)


def test_pickles_in_place_of_weights_are_not_executed(
    valid_checkpoint: Path, tmp_path: Path
) -> None:
    witness = tmp_path / "it-ran"
    (tmp_path / SETTINGS).write_bytes((valid_checkpoint / SETTINGS).read_bytes())
    for write in (
        lambda path: path.write_bytes(pickle.dumps(Witness(witness))),
        lambda path: torch.save({"a": Witness(witness)}, path),
    ):
        write(tmp_path / WEIGHTS)
        with pytest.raises(ModelError, match="cannot be read"):
            load_model(tmp_path)
        (tmp_path / "last").mkdir(exist_ok=True)
        write(tmp_path / "last" / "optimizer.safetensors")
        with pytest.raises(IntegrityError, match="damaged"):
            Checkpoints(tmp_path).load_optimizer()
    assert not witness.exists()


def test_an_optimiser_of_another_network_is_refused(tmp_path: Path) -> None:
    settings = tiny_settings(tmp_path)
    adam = adam_for(Cfam(settings, 5), settings.schedule)
    name, shape = "decoder.queries", (2, 16)
    whole = {f"{part}/{name}": torch.zeros(shape) for part in ("exp_avg", "exp_avg_sq")}
    whole[f"step/{name}"] = torch.tensor(3.0)
    adam.restore(whole)
    changes: list[Callable[[], dict[str, torch.Tensor]]] = [
        lambda: whole | {f"exp_avg/{name}": torch.zeros(3, 16)},
        lambda: whole | {f"step/{name}": torch.tensor([3.0, 3.0])},
        lambda: whole | {f"exp_avg/{name}": torch.full(shape, float("nan"))},
        lambda: whole | {f"exp_avg/{name}": torch.zeros(shape, dtype=torch.int64)},
        lambda: whole | {"exp_avg/nobody": torch.zeros(1)},
        lambda: whole | {"nothing": torch.zeros(1)},
        lambda: {f"exp_avg/{name}": torch.zeros(shape)},
    ]
    for change in changes:
        with pytest.raises(LoupeError, match="the optimiser's checkpoint"):
            adam.restore(change())


def test_a_checkpoint_that_names_another_step_is_refused(tmp_path: Path) -> None:
    """A resumed training removes checkpoints that its last checkpoint does not name."""
    checkpoints = Checkpoints(tmp_path)
    progress = TrainingProgress(step=3, settings="s", images="i")
    checkpoints.save(progress, {"a/b": torch.zeros(1)}, lambda folder: (folder / "m").touch())
    message = progress.model_copy(update={"step": 7}).model_dump_json()
    (checkpoints.last / "progress.json").write_text(message)
    with pytest.raises(IntegrityError, match="it says step 7"):
        checkpoints.load()
