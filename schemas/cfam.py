"""Settings of CFAM and the records of a training."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from loupe.schemas.base import Record, Sha256, TorchDevice
from loupe.schemas.provenance import Hardware
from loupe.schemas.validation import PlacedPath

# Settings of CFAM: its network, its losses, and how it is trained (UFineBench, sections 4 and 5.1).

Positive = Annotated[int, Field(gt=0)]
Probability = Annotated[float, Field(ge=0, le=1)]


class CfamBackbone(Record):
    """The CLIP model that CFAM starts from, as OpenCLIP names it.

    `weights` is one of OpenCLIP's pretrained tags, or None (in a file: "") for random weights;
    `checkpoint` is a file to use instead. `architecture_file` describes an architecture that
    OpenCLIP does not know (JSON in OpenCLIP's form). If `text_tokens` is more than the weights were
    trained for, the positions of the first `kept_text_positions` tokens are kept and the rest are
    stretched; 0 stretches all.
    """

    architecture: str = "ViT-B-16-quickgelu"
    architecture_file: PlacedPath | None = None
    weights: str | None = "openai"
    checkpoint: PlacedPath | None = None
    image_height_px: Positive = 384
    image_width_px: Positive = 128
    text_tokens: Annotated[int, Field(gt=2, le=4096)] = 168
    kept_text_positions: Annotated[int, Field(ge=0)] = 20

    @field_validator("weights", mode="before")
    @classmethod
    def _nothing_is_none(cls, weights: object) -> object:
        return None if weights == "" else weights  # TOML has no null value

    @property
    def starts_random(self) -> bool:
        """Whether the network is trained from scratch."""
        return self.weights is None and self.checkpoint is None


class CfamDecoder(Record):
    """The granularity decoder: `shared` by images and texts, or one for each.

    The paper's text states 16 learnable queries (section 5.1, supplement 9), which is row 7 of its
    table 9, with R@1 71.83. Its headline result of 72.87 is row 4, with 4 queries.
    """

    shared: bool = True
    queries: Positive = 16
    blocks: Positive = 2
    width: Positive = 512
    heads: Positive = 8

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads; got {self.width}, {self.heads}")
        return self


class CfamMatcher(Record):
    """The head that distinguishes matching pairs from hard negatives, on fine-grained vectors."""

    blocks: Positive = 2
    heads: Positive = 8


class CfamLosses(Record):
    """The weight of each loss; 0 disables it. `info_nce` is the baseline of the ablation."""

    global_sdm: float = Field(default=1.0, ge=0)
    local_sdm: float = Field(default=1.0, ge=0)
    matching: float = Field(default=1.0, ge=0)
    identity: float = Field(default=1.0, ge=0)
    info_nce: float = Field(default=0.0, ge=0)
    temperature: float = Field(default=0.02, gt=0)

    @model_validator(mode="after")
    def _one_is_on(self) -> Self:
        on = (self.global_sdm, self.local_sdm, self.matching, self.identity, self.info_nce)
        if not any(on):
            raise ValueError("every loss is switched off; at least one weight must be above 0")
        return self

    @property
    def fine_grained(self) -> bool:
        """Whether a loss needs the granularity decoder."""
        return bool(self.local_sdm or self.matching)


class CfamAugmentation(Record):
    """Augmentation of images and texts in training.

    `flipped_sides` says how to handle a text that names a side («a bag in her left hand») if its
    image is flipped: `swap` exchanges left and right in the text, `keep` does not flip such an
    image, `ignore` lets the text become false, as published trainers do.
    """

    flip: Probability = 0.5
    flipped_sides: Literal["swap", "keep", "ignore"] = "swap"
    padding_px: int = Field(default=10, ge=0)
    erase: Probability = 0.5
    mask_token: Probability = 0.1
    replace_token: Probability = 0.05

    @model_validator(mode="after")
    def _tokens_have_one_fate(self) -> Self:
        if self.mask_token + self.replace_token > 1:
            raise ValueError(
                f"mask_token + replace_token must be at most 1; "
                f"got {self.mask_token} + {self.replace_token}"
            )
        return self


class CfamSchedule(Record):
    """Adam with linear warm-up and cosine decay, counted in steps of the optimiser."""

    epochs: Positive = 60
    warmup_epochs: float = Field(default=5, ge=0, allow_inf_nan=False)
    batch_pairs: Positive = 64
    images_per_identity: Positive = 1
    accumulate: Positive = 1
    learning_rate: float = Field(default=1e-5, gt=0)
    new_learning_rate: float = Field(default=5e-5, gt=0)
    weight_decay: float = Field(default=4e-5, ge=0)
    clip_gradient: float | None = Field(default=None, gt=0)


class CfamTraining(Record):
    """A complete training: network, losses, data, schedule, and device.

    The best checkpoint is the one with the highest `best_by` on the identities held out of the
    training split; if there are none (`validation_share` 0), it is the last. A checkpoint is
    written after each epoch, and every `checkpoint_every_steps`.
    """

    name: str = "cfam"
    seed: int = 0
    backbone: CfamBackbone = CfamBackbone()
    decoder: CfamDecoder = CfamDecoder()
    matcher: CfamMatcher = CfamMatcher()
    losses: CfamLosses = CfamLosses()
    augmentation: CfamAugmentation = CfamAugmentation()
    schedule: CfamSchedule = CfamSchedule()
    validation_share: float = Field(default=0.1, ge=0, lt=1)
    validate_every_epochs: Positive = 1
    best_by: Literal["R@1", "mAP", "mSD"] = "mAP"
    checkpoint_every_steps: Positive = 500
    precision: Literal["no", "bf16", "fp16"] = "no"
    checkpoint_activations: bool = False
    device: TorchDevice = "auto"
    workers: int = Field(default=2, ge=0)

    @model_validator(mode="after")
    def _tables_fit_together(self) -> Self:
        if self.decoder.width % self.matcher.heads:
            raise ValueError(
                f"decoder.width must be a multiple of matcher.heads; "
                f"got {self.decoder.width}, {self.matcher.heads}"
            )
        return self


# Records of a training: a line for each step and each validation, and a summary.


class StepLine(Record):
    """One step of the optimizer: `step` counts from 1, `epoch` from 0; `losses` are unweighted.

    `gradient_norm` is None if gradients overflowed under fp16; its scaler skips such a step and
    continues with a smaller scale.
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
    """Retrieval of the held-out identities by text, after a step.

    All values are in percent except the median rank.
    """

    kind: Literal["validation"] = "validation"
    step: int
    epoch: int
    metrics: dict[str, float]
    queries: int
    gallery: int


class BestCheckpoint(Record):
    """The best checkpoint on the held-out identities; without any, the last one, unmeasured."""

    step: int
    epoch: int
    metrics: dict[str, float]


class TrainingProgress(Record):
    """The state of a training that is needed to continue, in addition to the tensors.

    `settings` and `images` are digests of the inputs it was started with, `before` the metrics of
    the network that it started from. `loss_scale` is the state of fp16's scaler, `seconds` the time
    of all runs so far. States of random generators are not needed, because every step seeds them by
    its number.
    """

    step: int
    settings: str
    images: str
    before: dict[str, float] = Field(default_factory=dict)
    best: BestCheckpoint | None = None
    loss_scale: dict[str, int | float] = Field(default_factory=dict)
    seconds: float = 0.0


class TrainingRecord(Record):
    """`training.json`: the model, the data, the code revision and the results of a training.

    `release_id` is None if it was trained on a file of annotations instead of a release. Images of
    the train split without a caption are left out and counted separately. `before` has the metrics
    before the first step. With contrastive pairs, a group counts as an identity.
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
    before: dict[str, float] = Field(default_factory=dict)
    best: BestCheckpoint
    best_sha256: Sha256
    last_sha256: Sha256

    def as_json(self) -> dict[str, Any]:
        """Return the record for `--json`."""
        return self.model_dump(mode="json")
