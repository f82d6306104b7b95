"""Whether CFAM learns, and how fast its full-size network steps.

Run from the repository root: `python -m benchmarks.cfam_training`. First the demonstration: a small
CLIP from scratch on drawn people, with all of CFAM's losses and with InfoNCE alone, over as many
steps, scored on people that nobody trained on. Then the steps of the full-size network beside those
of its bare CLIP, on a GPU where there is one.
"""

import argparse
import gc
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from flows.training_configuration import load_training
from retrieval.cfam.training_data import TrainingImage, TrainingSplits, hold_out_identities
from retrieval.chance import chance_scores
from schemas.cfam import CfamBackbone, CfamLosses, CfamSchedule, CfamTraining
from schemas.training import StepLine, ValidationLine
from sources.demonstration import write_people_world
from sources.demonstration.truth import TrueIdentity, load_truth
from sources.demonstration.layouts import LAYOUTS

WORLD_SEED = 11
TRAINED, TESTED = 120, 50  # identities of each of the three sources
DRAWS = 2000
INFO_NCE = CfamLosses(global_sdm=0, local_sdm=0, matching=0, identity=0, info_nce=1)


class Scored(NamedTuple):
    """What a training came to on the test identities; `hits` by query, `owners` their identity."""

    seconds: float
    hits: NDArray[np.float64]
    precision: NDArray[np.float64]
    owners: NDArray[np.int64]


class Silent:
    """A watcher that says nothing."""

    def begin(self, steps: int, done: int) -> None:
        """Nothing."""

    def stepped(self, line: StepLine) -> None:
        """Nothing."""

    def validated(self, line: ValidationLine) -> None:
        """Nothing."""


def world(folder: Path, trained: int, tested: int) -> tuple[list[TrainingImage], ...]:
    """The training and the test images of a world, drawn where it is not there yet."""
    if not (folder / "truth.json").exists():
        write_people_world(folder, WORLD_SEED, tested, trained, 0)
    truth = load_truth(folder)
    images: dict[str, list[TrainingImage]] = {"train": [], "val": [], "test": []}
    for layout in LAYOUTS:
        home = folder / layout.name / layout.image_root
        for identity in truth.identities[layout.name]:
            images[identity.split] += _images(home, layout.name, identity)
    return images["train"], images["test"]


def _images(home: Path, source: str, identity: TrueIdentity) -> Iterator[TrainingImage]:
    for image in identity.images:
        name = f"{source}/{identity.id}"
        yield TrainingImage(home / image.file_path, name, image.captions)


def train_and_score(
    settings: CfamTraining, splits: TrainingSplits, tested: Sequence[TrainingImage]
) -> Scored:
    """Trains, and scores the best checkpoint on `tested`."""
    import torch

    from retrieval.cfam.network.training import train
    from retrieval.cfam.network.validation import embed_pairs
    from retrieval.cfam.network.weights import load_model
    from retrieval.ranking import score_retrieval

    with tempfile.TemporaryDirectory() as name:
        trained = train(settings, splits, Path(name), Silent())
        assert trained is not None
        model = load_model(Path(name) / "best")
    found = embed_pairs(model, tested, settings, torch.device("cpu"))
    scores = score_retrieval(
        found.texts, found.images, found.text_identities, found.image_identities
    ).by_query
    return Scored(trained.seconds, scores["R@1"], scores["mAP"], found.text_identities)


def bootstrap(values: NDArray[np.float64], owners: NDArray[np.int64], seed: int = 0) -> Any:
    """Means over queries of identities drawn with replacement, of shape (DRAWS,)."""
    chance = np.random.default_rng(seed)
    names, places = np.unique(owners, return_inverse=True)
    sums, counts = np.bincount(places, values), np.bincount(places)
    drawn = chance.integers(len(names), size=(DRAWS, len(names)))
    return sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)


def interval(means: NDArray[np.float64]) -> str:
    """The middle 95 %."""
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{low:.1f} … {high:.1f}"
