"""A training small enough for tests: drawn images, a tiny CLIP, a few steps."""

import json
import multiprocessing
import os
import random
import time
from collections.abc import Callable, Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from PIL import Image

from loupe.retrieval.cfam.training_data import TrainingImage, TrainingSplits, hold_out_identities
from loupe.schemas.cfam import CfamTraining, StepLine, ValidationLine

COLOURS = {
    "red": (200, 30, 30), "green": (30, 160, 40), "blue": (30, 40, 200),
    "white": (240, 240, 240), "black": (15, 15, 15), "yellow": (230, 220, 40),
    "pink": (240, 150, 190), "brown": (110, 70, 40),
}  # fmt: skip
TINY_CLIP = {
    "embed_dim": 16,
    "vision_cfg": {
        "image_size": 16, "layers": 1, "width": 16, "head_width": 8, "patch_size": 8,
    },
    "text_cfg": {
        "context_length": 12, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1,
    },
}  # fmt: skip


def draw_people(folder: Path, identities: int = 12, seed: int = 0) -> list[TrainingImage]:
    """Draw people in two colours, with two images and two captions each."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)
    images = []
    for number in range(identities):
        upper, lower = chance.sample(sorted(COLOURS), 2)
        for view in range(2):
            path = folder / f"{number:03d}_{view}.png"
            picture = Image.new("RGB", (8, 16), COLOURS[lower])
            picture.paste(COLOURS[upper], (0, 0, 8, 8 + view))
            picture.save(path)
            captions = (f"a {upper} coat and {lower} trousers", f"{lower} below {upper}")
            images.append(TrainingImage(path, f"p{number}", captions))
    return images


def tiny_settings(folder: Path, **changes: Any) -> CfamTraining:
    """Settings of three epochs of six steps, updated by `changes`."""
    folder.mkdir(parents=True, exist_ok=True)
    architecture = folder / "tiny_clip.json"
    architecture.write_text(json.dumps(TINY_CLIP), encoding="utf-8")
    values: dict[str, Any] = {
        "backbone": {
            "architecture": "tiny",
            "architecture_file": architecture,
            "weights": None,
            "image_height_px": 16,
            "image_width_px": 8,
            "text_tokens": 12,
        },
        "decoder": {"queries": 2, "blocks": 1, "width": 16, "heads": 2},
        "matcher": {"blocks": 1, "heads": 2},
        "augmentation": {"padding_px": 1},
        "schedule": {
            "epochs": 3,
            "warmup_epochs": 1,
            "batch_pairs": 6,
            "new_learning_rate": 3e-3,
        },
        "validation_share": 0.25,
        "device": "cpu",
        "workers": 0,
    }
    for name, value in changes.items():
        values[name] = values.get(name, {}) | value if isinstance(value, dict) else value
    return CfamTraining.model_validate(values)


def tiny_splits(folder: Path, settings: CfamTraining) -> TrainingSplits:
    return hold_out_identities(draw_people(folder), settings.validation_share, settings.seed)


class Notes:
    """A training observer that stores all lines it receives."""

    def __init__(self) -> None:
        self.began: tuple[int, int] | None = None
        self.steps: list[StepLine] = []
        self.validations: list[ValidationLine] = []

    def begin(self, steps: int, done: int) -> None:
        self.began = (steps, done)

    def stepped(self, line: StepLine) -> None:
        self.steps.append(line)

    def validated(self, line: ValidationLine) -> None:
        self.validations.append(line)


def forked(function: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    """Start a process from a fork server that has imported torch, like image loading workers."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "loupe.retrieval.cfam.network.training", "open_clip"])
    process = context.Process(target=function, args=arguments)
    process.start()
    return process


class _Slow(Notes):
    def stepped(self, line: StepLine) -> None:
        super().stepped(line)
        time.sleep(0.05)


def train_slowly(folder: Path) -> None:
    """Train in `folder / "killed"` with a checkpoint after each step."""
    from loupe.retrieval.cfam.network.training import train

    settings = tiny_settings(folder, checkpoint_every_steps=1)
    train(settings, tiny_splits(folder / "people", settings), folder / "killed", _Slow())


def train_as(launched: Mapping[str, str], folder: Path) -> None:
    """Train one epoch in `folder / "shared"` as one of several processes started by torchrun."""
    os.environ.update(launched)
    from loupe.retrieval.cfam.network.training import train

    settings = tiny_settings(folder / "settings", schedule={"epochs": 1})
    train(settings, tiny_splits(folder / "people", settings), folder / "shared", Notes())
