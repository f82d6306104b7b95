"""How long a training is, counted in batches and steps, and where in it a step stands."""

from collections.abc import Sequence
from typing import NamedTuple

from retrieval.cfam.learning_rate import rate_factor
from retrieval.cfam.network.sampler import BatchSequence, IdentityBatches, Shard
from retrieval.cfam.training_data import TrainingPair
from schemas.base import digest_of
from schemas.cfam import CfamSchedule, CfamTraining
from schemas.errors import UsageError


class Course(NamedTuple):
    """A training from its first step to its last; steps are counted from 0 here."""

    schedule: CfamSchedule
    seed: int
    batches: IdentityBatches
    steps_per_epoch: int

    @property
    def steps(self) -> int:
        """How many there are."""
        return self.schedule.epochs * self.steps_per_epoch

    @property
    def pairs_per_step(self) -> int:
        """Of all processes and accumulated batches together."""
        return self.schedule.batch_pairs * self.schedule.accumulate

    def rate_factor(self, step: int) -> float:
        """What the learning rates are multiplied with in a step."""
        warmup_steps = round(self.schedule.warmup_epochs * self.steps_per_epoch)
        return rate_factor(step, self.steps, warmup_steps)

    def seed_of(self, step: int, process: int) -> int:
        """The seed of what the network draws in a step (dropped patches, where it drops any)."""
        return int(digest_of(str(self.seed), str(step), str(process))[:15], 16)

    def batches_from(self, step: int, shard: Shard) -> BatchSequence:
        """What one process takes of the batches from a step on."""
        accumulate, epochs = self.schedule.accumulate, self.schedule.epochs
        per_epoch = self.steps_per_epoch * accumulate
        return BatchSequence(self.batches, per_epoch, epochs, step * accumulate, shard)

    def epoch_of(self, step: int) -> int:
        """The epoch, from 0."""
        return step // self.steps_per_epoch

    def ends_epoch(self, step: int) -> bool:
        """Whether it is the last of its epoch."""
        return (step + 1) % self.steps_per_epoch == 0


def course_of(pairs: Sequence[TrainingPair], settings: CfamTraining) -> Course:
    """The training that `settings` make of `pairs`.

    Raises:
        UsageError: there are too few pairs for one step.
    """
    schedule = settings.schedule
    batches = IdentityBatches(
        pairs, schedule.batch_pairs, schedule.images_per_identity, settings.seed
    )
    steps_per_epoch = batches.batches_per_epoch // schedule.accumulate
    if not steps_per_epoch:
        raise UsageError(
            f"{len(pairs)} pairs are {batches.batches_per_epoch} batches, fewer than one step "
            f"accumulates ({schedule.accumulate}); set schedule.accumulate lower"
        )
    return Course(schedule, settings.seed, batches, steps_per_epoch)
