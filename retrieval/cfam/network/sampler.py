"""Which pairs are in a batch: different identities if possible, reproducible by seed."""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from retrieval.cfam.training_data import TrainingPair
from schemas.errors import UsageError

Batch = tuple[int, ...]
"""Positions in the list of pairs."""


class Shard(NamedTuple):
    """The part of each batch that one of several processes takes."""

    process: int = 0
    processes: int = 1


_WHOLE = Shard()


class IdentityBatches:
    """The batches of every epoch, all of the same size.

    An epoch cuts the shuffled pairs of each identity into portions of `images_per_identity`,
    different images if possible, and distributes the portions so that no identity is in a batch
    twice. That fails only for an identity with more portions than there are batches; its portions
    are left out first. Pairs that do not fill a batch are left out too, other pairs in each epoch.
    If the pairs of an identity do not fill its last portion, some of them occur twice.

    No state is kept between epochs: an epoch is a function of the seed and its number, so that a
    training can resume at any batch.
    """

    def __init__(
        self, pairs: Sequence[TrainingPair], size: int, images_per_identity: int = 1, seed: int = 0
    ) -> None:
        if size % images_per_identity:
            raise UsageError(
                f"schedule.batch_pairs must be a multiple of images_per_identity "
                f"({images_per_identity}); got {size}"
            )
        if len(pairs) < size:
            raise UsageError(
                f"there are {len(pairs)} pairs to train on, and one batch wants {size}; "
                f"set schedule.batch_pairs lower"
            )
        self._images = [pair.image for pair in pairs]
        self._size, self._portion, self._seed = size, images_per_identity, seed
        places: defaultdict[int, list[int]] = defaultdict(list)
        for place, pair in enumerate(pairs):
            places[pair.identity].append(place)
        self._places = dict(sorted(places.items()))
        portions = sum(-(-len(own) // images_per_identity) for own in self._places.values())
        self.batches_per_epoch = max(1, portions * images_per_identity // size)

    def epoch(self, number: int) -> list[Batch]:
        """The batches of an epoch, in order."""
        chance = np.random.default_rng([self._seed, number])
        portions = self._left(
            {own: self._portions(places, chance) for own, places in self._places.items()}, chance
        )
        batches = _dealt_out(portions, self.batches_per_epoch, chance)
        return [
            tuple(batch[place] for place in chance.permutation(len(batch))) for batch in batches
        ]

    def _portions(self, places: list[int], chance: np.random.Generator) -> list[Batch]:
        """The pairs of one identity in portions; neighbours show different images."""
        by_image: defaultdict[int, list[int]] = defaultdict(list)
        for place in chance.permutation(places):
            by_image[self._images[place]].append(int(place))
        rounds = max(map(len, by_image.values()))
        order = [
            own[turn] for turn in range(rounds) for own in by_image.values() if turn < len(own)
        ]
        missing = -len(order) % self._portion
        order += [order[turn % len(order)] for turn in range(missing)]
        return [
            tuple(order[start : start + self._portion])
            for start in range(0, len(order), self._portion)
        ]

    def _left(
        self, portions: dict[int, list[Batch]], chance: np.random.Generator
    ) -> dict[int, list[Batch]]:
        """As many portions as the batches hold; of one identity at most one for each batch."""
        surplus = sum(map(len, portions.values())) - (
            self.batches_per_epoch * self._size // self._portion
        )
        for own in portions.values():
            dropped = min(surplus, max(0, len(own) - self.batches_per_epoch))
            surplus -= dropped
            del own[len(own) - dropped :]
        holders = [identity for identity, own in portions.items() for _ in own]
        for identity in chance.permutation(holders)[:surplus]:
            portions[int(identity)].pop()
        return portions


class BatchSequence:
    """The batches of all epochs for one process: the batch sampler of a `DataLoader`.

    The parts of all processes, in order, are the batch. Each pair comes as (epoch, position).

    Args:
        batches: of every epoch.
        per_epoch: how many batches of an epoch are taken.
        epochs: when it ends.
        first: the batch to begin with, counted from 0 over all epochs.
        shard: which part of each batch.
    """

    def __init__(
        self,
        batches: IdentityBatches,
        per_epoch: int,
        epochs: int,
        first: int = 0,
        shard: Shard = _WHOLE,
    ) -> None:
        self._batches, self._per_epoch, self._epochs = batches, per_epoch, epochs
        self._first, self._shard = first, shard

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        process, processes = self._shard
        epoch, begin = divmod(self._first, self._per_epoch)
        for number in range(epoch, self._epochs):
            for batch in self._batches.epoch(number)[begin : self._per_epoch]:
                length = len(batch) // processes
                part = batch[process * length : (process + 1) * length]
                yield [(number, place) for place in part]
            begin = 0


def _dealt_out(
    portions: dict[int, list[Batch]], batches: int, chance: np.random.Generator
) -> list[list[int]]:
    """The portions in batches, filled evenly: in rounds, each round in an order of its own.

    An identity takes the next batches of the round that do not contain it; those that it skips are
    left for the next identity. So it always takes the emptiest, and all are full at the end.
    """
    filled: list[list[int]] = [[] for _ in range(batches)]
    waiting: deque[int] = deque()
    for identity in chance.permutation(list(portions)):
        taken: set[int] = set()
        for portion in portions[int(identity)]:
            if len(taken) == batches:
                taken.clear()
            batch = _next_batch(waiting, taken, batches, chance)
            taken.add(batch)
            filled[batch].extend(portion)
    return [filled[place] for place in chance.permutation(batches)]


def _next_batch(
    waiting: deque[int], taken: set[int], batches: int, chance: np.random.Generator
) -> int:
    """The first batch of the round that is not taken; starts a new round if there is none."""
    for place, batch in enumerate(waiting):
        if batch not in taken:
            del waiting[place]
            return batch
    waiting.extend(map(int, chance.permutation(batches)))
    return _next_batch(waiting, taken, batches, chance)
