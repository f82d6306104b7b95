"""Images and texts as inputs of the network: augmented, as pixels and tokens, in batches."""

import math
import multiprocessing
import re
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Generator, Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.v2 import InterpolationMode, functional

from loupe.retrieval.cfam.training_data import TrainingPair
from loupe.schemas.base import digest_of
from loupe.schemas.cfam import CfamAugmentation, CfamBackbone, CfamTraining
from loupe.schemas.decoders import DECODER_FAULTS, FORMATS, as_rgb, too_many_scans
from loupe.schemas.errors import UsageError
from loupe.schemas.grouping import grouped
from loupe.schemas.validation import fault_of

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
        places = grouped((pair.identity, place) for place, pair in enumerate(pairs))
        self._places = dict(sorted(places.items()))
        portions = sum(map(self._portion_count, self._places.values()))
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

    def _portion_count(self, places: list[int]) -> int:
        """How many portions the pairs of one identity make."""
        return -(-len(places) // self._portion)

    def _portions(self, places: list[int], chance: np.random.Generator) -> list[Batch]:
        """The pairs of one identity in portions; neighbours show different images."""
        mixed = chance.permutation(places).tolist()
        by_image = grouped((self._images[place], place) for place in mixed)
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


# Images as CLIP's pixels.

MEAN = (0.48145466, 0.4578275, 0.40821073)
DEVIATION = (0.26862954, 0.26130258, 0.27577711)
"""Of the images that CLIP was trained on (Radford et al. 2021); those of all CLIPs that CFAM takes.

After normalising, 0 is the mean colour: padding and erased rectangles have it.
"""


def clip_pixels(image: Image.Image, size: CfamBackbone) -> Tensor:
    """The image at the network's height and width, bicubic, normalised: (3, H, W) in float32.

    Proportions are not kept: crops of people are about 1 to 3, and every pixel counts.
    """
    height_width = [size.image_height_px, size.image_width_px]
    resized = functional.resize(
        image.convert("RGB"), height_width, interpolation=InterpolationMode.BICUBIC
    )
    scaled = functional.to_dtype(functional.pil_to_tensor(resized), torch.float32, scale=True)
    pixels: Tensor = functional.normalize(scaled, list(MEAN), list(DEVIATION))
    return pixels


# Texts as CLIP's tokens, of any length.

START, END = 49406, 49407
MASK = 49405
"""CLIP has no token for a masked word. As in IRRA, the last and rarest word of its vocabulary
(«jekyll») is used.
"""
_PADDING = 0


class ClipTokenizer:
    """OpenCLIP's tokenizer, for texts of up to `length` tokens, start and end included.

    Longer texts are cut. A text cannot contain the start or end token.
    """

    def __init__(self, length: int) -> None:
        from open_clip import SimpleTokenizer

        self._tokenizer = SimpleTokenizer()
        self._length = length

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """Tokens of shape (B, length), padded with zeros."""
        rows = torch.full((len(texts), self._length), _PADDING, dtype=torch.long)
        for row, text in zip(rows, texts, strict=True):
            words = [token for token in self._tokenizer.encode(text) if token < START]
            ids = [START, *words[: self._length - 2], END]
            row[: len(ids)] = torch.tensor(ids)
        return rows


# Augmentation of an image and its text in training (UFineBench, section 5.1).
#
# All randomness comes from a generator that the caller passes. `generator_for` makes one for each
# sample of each epoch, so that neither the order of the data nor the number of workers matters.

_ERASED_SHARE = (0.02, 0.4)
"""Of the image's area (Zhong et al., Random Erasing, AAAI 2020)."""
_LOG_ASPECT = (math.log(0.3), math.log(1 / 0.3))
_ATTEMPTS = 10
_SIDES = re.compile(r"\b(?a:left|right)\b", re.IGNORECASE)
_OTHER = {"left": "right", "right": "left"}


def generator_for(seed: int, epoch: int, row: int) -> Generator:
    """The random generator of one sample of one epoch."""
    words = digest_of(str(seed), str(epoch), str(row))
    return Generator().manual_seed(int(words[:15], 16))


class PairAugmentation:
    """Augments an image and its text for one epoch.

    In this order: flip (the text may have to follow), padding and random cropping, an erased
    rectangle, masked and replaced tokens.
    """

    def __init__(
        self, settings: CfamAugmentation, backbone: CfamBackbone, tokenizer: ClipTokenizer
    ) -> None:
        self._settings = settings
        self._backbone = backbone
        self._tokenizer = tokenizer

    def __call__(
        self, image: Image.Image, text: str, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Pixels of shape (3, H, W) and tokens of shape (L,)."""
        settings = self._settings
        pixels = clip_pixels(image, self._backbone)
        if _chance(generator) < settings.flip and not self._must_stay(text):
            pixels = functional.horizontal_flip(pixels)
            text = swapped_sides(text) if settings.flipped_sides == "swap" else text
        pixels = shifted(pixels, settings.padding_px, generator)
        if _chance(generator) < settings.erase:
            pixels = erased(pixels, generator)
        tokens = self._tokenizer([text])[0]
        return pixels, disturbed(tokens, settings.mask_token, settings.replace_token, generator)

    def _must_stay(self, text: str) -> bool:
        return self._settings.flipped_sides == "keep" and names_a_side(text)


def names_a_side(text: str) -> bool:
    """Whether the text contains "left" or "right", in any sense."""
    return _SIDES.search(text) is not None


def swapped_sides(text: str) -> str:
    """The text with left and right exchanged, capitals kept, which fits the flipped image.

    It looks at words, not at sense: «left the shop» becomes «right the shop».
    """
    return _SIDES.sub(lambda found: _in_case_of(found.group(), _OTHER[found.group().lower()]), text)


def _in_case_of(example: str, word: str) -> str:
    if example.isupper():
        return word.upper()
    return word.capitalize() if example[0].isupper() else word


def shifted(pixels: Tensor, padding_px: int, generator: Generator) -> Tensor:
    """The image padded with the mean colour on all sides and randomly cropped to its old size."""
    down, right = _below(2 * padding_px + 1, generator), _below(2 * padding_px + 1, generator)
    height, width = pixels.shape[-2:]
    padded = functional.pad(pixels, [padding_px])
    cut: Tensor = functional.crop(padded, down, right, height, width)
    return cut


def erased(pixels: Tensor, generator: Generator) -> Tensor:
    """The image with a rectangle of the mean colour, or unchanged if none fits in ten tries.

    The rectangle's share of the area is uniform in 0.02 to 0.4, its aspect log-uniform in 0.3 to
    3.3 (random erasing, Zhong et al. 2020, and torchvision's defaults except for the largest
    share).
    """
    height, width = pixels.shape[-2:]
    for _ in range(_ATTEMPTS):
        area = height * width * _uniform(*_ERASED_SHARE, generator)
        aspect = math.exp(_uniform(*_LOG_ASPECT, generator))
        rows, columns = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < rows < height and 0 < columns < width:
            top, left = _below(height - rows + 1, generator), _below(width - columns + 1, generator)
            gone: Tensor = functional.erase(pixels, top, left, rows, columns, torch.zeros(1))
            return gone
    return pixels


def disturbed(tokens: Tensor, mask: float, replace: float, generator: Generator) -> Tensor:
    """The tokens with some words masked and others replaced by random words of the vocabulary.

    Start, end and padding stay.

    Args:
        tokens: of shape (L,).
        mask: the share of words that become `MASK`.
        replace: the share of words that become another.
        generator: where chance comes from; as much is drawn whatever the shares.
    """
    places = torch.arange(len(tokens))
    is_word = (places > 0) & (places < tokens.argmax())
    chance = torch.rand(len(tokens), generator=generator)
    others = torch.randint(MASK, tokens.shape, generator=generator)
    masked = is_word & (chance < mask)
    replaced = is_word & (chance >= mask) & (chance < mask + replace)
    return tokens.masked_fill(masked, MASK).where(~replaced, others)


def _chance(generator: Generator) -> float:
    return torch.rand((), generator=generator).item()


def _uniform(low: float, high: float, generator: Generator) -> float:
    return low + (high - low) * _chance(generator)


def _below(limit: int, generator: Generator) -> int:
    return int(torch.randint(limit, (), generator=generator))


# Loads images and texts in workers; unreadable images are reported, not raised.
#
# What a worker produces depends on the seed, the epoch and the pair only.


class Unreadable(NamedTuple):
    """An image that could not be read; a worker's exception would lose its message."""

    sentence: str


class PairBatch(NamedTuple):
    """Pixels (B, 3, H, W), tokens (B, L), identities (B,), and the images' paths."""

    pixels: Tensor
    tokens: Tensor
    identities: Tensor
    paths: tuple[Path, ...]


class AugmentedPairs(Dataset[Any]):
    """The pairs of a training, indexed by (epoch, position)."""

    def __init__(self, pairs: Sequence[TrainingPair], settings: CfamTraining) -> None:
        self._pairs, self._settings = pairs, settings

    def __getitem__(self, key: tuple[int, int]) -> tuple[Tensor, Tensor, int, Path] | Unreadable:
        epoch, place = key
        pair = self._pairs[place]
        image = read_image(pair.path)
        if isinstance(image, Unreadable):
            return image
        chance = generator_for(self._settings.seed, epoch, place)
        return *self._augment(image, pair.caption, chance), pair.identity, pair.path

    @cached_property
    def _augment(self) -> PairAugmentation:
        """Created on first use: a worker would otherwise receive the vocabulary through a pipe."""
        settings = self._settings
        tokenizer = tokenizer_for(settings.backbone.text_tokens)
        return PairAugmentation(settings.augmentation, settings.backbone, tokenizer)


@cache
def tokenizer_for(length: int) -> ClipTokenizer:
    """The tokenizer, whose vocabulary takes a second to load, once for each process."""
    return ClipTokenizer(length)


def read_image(path: Path) -> Image.Image | Unreadable:
    """The image in RGB, decoded."""
    try:
        data = path.read_bytes()
        if what := too_many_scans(data):
            return Unreadable(f"the image {path} {what}")
        with Image.open(BytesIO(data), formats=FORMATS) as opened:
            return as_rgb(opened)
    except (*DECODER_FAULTS, UnidentifiedImageError, Image.DecompressionBombError) as error:
        return Unreadable(f"the image {path} cannot be read: {fault_of(error)}")


def pair_loader(
    pairs: Sequence[TrainingPair], batches: BatchSequence, settings: CfamTraining, *, pin: bool
) -> DataLoader[Any]:
    """Batches of augmented pairs: `PairBatch`, or `Unreadable` instead."""
    return DataLoader(
        AugmentedPairs(pairs, settings),
        batch_sampler=batches,
        collate_fn=_pairs_together,
        pin_memory=pin,
        **_workers(settings.workers),
    )


def image_batches(
    paths: Sequence[Path], size: CfamBackbone, batch: int, threads: int
) -> Iterator[Tensor]:
    """Batches of images in order, without augmentation: pixels (B, 3, H, W).

    Images are decoded in threads: decoding releases the GIL, and no process has to be started.

    Raises:
        UsageError: an image cannot be read.
    """
    with ThreadPoolExecutor(max(1, threads)) as pool:
        for start in range(0, len(paths), batch):
            images = map(readable, pool.map(read_image, paths[start : start + batch]))
            yield torch.stack([clip_pixels(image, size) for image in images])


def readable(batch: Any) -> Any:
    """`batch`, if all its images could be read.

    Raises:
        UsageError: one could not.
    """
    if isinstance(batch, Unreadable):
        raise UsageError(batch.sentence)
    return batch


def _workers(count: int) -> dict[str, Any]:
    """The settings of workers: forked from a server that has only imported their modules.

    Forking from this process would copy locks of threads and the state of CUDA. The generator keeps
    the loader from drawing its unused seed from torch's own.
    """
    context = None
    if count:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__, "open_clip"])
    return {
        "num_workers": count,
        "multiprocessing_context": context,
        "generator": torch.Generator(),
    }


def _pairs_together(samples: Sequence[Any]) -> PairBatch | Unreadable:
    for sample in samples:
        if isinstance(sample, Unreadable):
            return sample
    pixels, tokens, identities, paths = zip(*samples, strict=True)
    return PairBatch(torch.stack(pixels), torch.stack(tokens), torch.tensor(identities), paths)
