"""Loads images and texts as the network takes them; what cannot be read is named, not raised.

Workers load and augment. They draw from nothing that they own: what comes out hangs on the seed,
the epoch and the pair alone.
"""

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from retrieval.cfam.network.augmentation import PairAugmentation, generator_for
from retrieval.cfam.network.pixels import clip_pixels
from retrieval.cfam.network.sampler import BatchSequence
from retrieval.cfam.network.tokens import ClipTokenizer
from retrieval.cfam.training_data import TrainingPair
from schemas.cfam import CfamBackbone, CfamTraining
from schemas.decoders import DECODER_FAULTS, FORMATS, too_many_scans
from schemas.errors import UsageError


class Unreadable(NamedTuple):
    """An image that could not be read; errors lose their sentence on the way from a worker."""

    sentence: str


class PairBatch(NamedTuple):
    """Pixels (B, 3, H, W), tokens (B, L), identities (B,), and which images these are."""

    pixels: Tensor
    tokens: Tensor
    identities: Tensor
    paths: tuple[Path, ...]


class AugmentedPairs(Dataset[Any]):
    """The pairs of a training; asked for by (epoch, place)."""

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
        """Made where it is used: a worker would else get the vocabulary through a pipe."""
        settings = self._settings
        tokenizer = tokenizer_for(settings.backbone.text_tokens)
        return PairAugmentation(settings.augmentation, settings.backbone, tokenizer)


@cache
def tokenizer_for(length: int) -> ClipTokenizer:
    """The tokenizer, whose vocabulary takes a second to read, once for the process."""
    return ClipTokenizer(length)


def read_image(path: Path) -> Image.Image | Unreadable:
    """The image in RGB, decoded."""
    try:
        data = path.read_bytes()
        if what := too_many_scans(data):
            return Unreadable(f"the image {path} {what}")
        with Image.open(BytesIO(data), formats=FORMATS) as opened:
            return opened.convert("RGB")
    except (*DECODER_FAULTS, UnidentifiedImageError, Image.DecompressionBombError) as error:
        return Unreadable(f"the image {path} cannot be read: {str(error).splitlines()[0]}")


def pair_loader(
    pairs: Sequence[TrainingPair], batches: BatchSequence, settings: CfamTraining, *, pin: bool
) -> DataLoader[Any]:
    """Batches of augmented pairs: `PairBatch`, or `Unreadable` in its place."""
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
    """Batches of images in order, as they are: pixels (B, 3, H, W).

    Threads decode: that takes no lock of Python's, and no process has to be started for it.

    Raises:
        UsageError: an image cannot be read.
    """
    with ThreadPoolExecutor(max(1, threads)) as pool:
        for start in range(0, len(paths), batch):
            images = map(readable, pool.map(read_image, paths[start : start + batch]))
            yield torch.stack([clip_pixels(image, size) for image in images])


def readable(batch: Any) -> Any:
    """`batch`, if its images could be read.

    Raises:
        UsageError: one could not.
    """
    if isinstance(batch, Unreadable):
        raise UsageError(batch.sentence)
    return batch


def _workers(count: int) -> dict[str, Any]:
    """Workers are forked from a server that has nothing but their modules.

    Forked from here they would take over threads' locks and CUDA's state. The generator keeps the
    loader from drawing its seed, which nobody uses, from torch's own.
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
