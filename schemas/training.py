"""What a training writes down: a line for each step and each validation, and what came of it."""

from typing import Any, Literal

from pydantic import Field

from schemas.base import Record
from schemas.cfam import CfamTraining
from schemas.evaluation import Hardware
from schemas.records import Sha256


class StepLine(Record):
    """One step of the optimiser: `step` counts from 1, `epoch` from 0; `losses` are unweighted.

    `gradient_norm` is None where gradients overflowed under fp16, whose scaler leaves such a step
    out and goes on with a smaller scale.
    """

    kind: Literal["step"] = "step"
    step: int
    epoch: int
    loss: float
    losses: dict[str, float]
    gradient_norm: float | None
    learning_rate: float
    new_learning_rate: float
    pairs_per_second: float


class ValidationLine(Record):
    """How well texts find the identities that were held out, after a step.

    All is in percent but the median rank.
    """

    kind: Literal["validation"] = "validation"
    step: int
    epoch: int
    metrics: dict[str, float]
    queries: int
    gallery: int


class BestCheckpoint(Record):
    """The checkpoint that did best on the identities held out."""

    step: int
    epoch: int
    metrics: dict[str, float]


class TrainingProgress(Record):
    """Where a training stands: what, beside the tensors, it needs to go on.

    `settings` and `images` are digests of what it was begun with. `loss_scale` is the state of
    fp16's scaler, `seconds` what all runs took up to here. There are no states of random
    generators: every step seeds them by its number.
    """

    step: int
    settings: str
    images: str
    best: BestCheckpoint | None = None
    loss_scale: dict[str, float] = Field(default_factory=dict)
    seconds: float = 0.0


class TrainingRecord(Record):
    """`training.json`: what was trained on what, by which code, and what came of it.

    `release_id` is None where it was trained on a file of annotations, not on a release. Images of
    the train split that have no caption are left out and counted apart.
    """

    settings: CfamTraining
    release: str
    release_id: str | None
    training_images: int
    training_images_without_captions: int = 0
    training_identities: int
    training_pairs: int
    validation_images: int
    validation_identities: int
    validation_split: str
    images_digest: str
    code_revision: str
    packages: dict[str, str]
    hardware: Hardware
    device: str
    processes: int
    steps: int
    seconds: float
    best: BestCheckpoint
    best_sha256: Sha256
    last_sha256: Sha256

    def as_json(self) -> dict[str, Any]:
        """The record for `--json`."""
        return self.model_dump(mode="json")
