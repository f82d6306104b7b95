"""The training data of CFAM: images with captions as pairs, some identities held out."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from loupe.schemas.base import digest_of
from loupe.schemas.errors import UsageError
from loupe.schemas.processes import locked_folder

# The training data of CFAM: images with captions as pairs; some identities are held out to
# validate.

_LEAST_IDENTITIES = 2
"""A single identity leaves nothing to distinguish."""


class TrainingImage(NamedTuple):
    """An image of one identity, and its descriptions."""

    path: Path
    identity: str
    captions: tuple[str, ...]


class TrainingPair(NamedTuple):
    """An image with one of its captions.

    `image` numbers the images and `identity` the identities of the training set, both from 0.
    """

    path: Path
    caption: str
    image: int
    identity: int


class TrainingSplits(NamedTuple):
    """The images to train on, and those to validate on: no identity is in both."""

    training: tuple[TrainingImage, ...]
    validation: tuple[TrainingImage, ...]


def hold_out_identities(images: Sequence[TrainingImage], share: float, seed: int) -> TrainingSplits:
    """Holds out `share` of the identities for validation, at least two; none if it is 0.

    The choice depends on the seed and the identities' names only: the order of images does not
    matter, and if identities are added to a dataset, most of the others stay where they were.

    Raises:
        UsageError: there are too few identities for both.
    """
    if share == 0:
        splits = TrainingSplits(tuple(images), ())
        require_identities(splits, "validation_share = 0")
        return splits
    identities = sorted({image.identity for image in images})
    wanted = max(_LEAST_IDENTITIES, round(share * len(identities)))
    drawn = sorted(identities, key=lambda identity: digest_of("validation", str(seed), identity))
    held_out = set(drawn[:wanted])
    splits = TrainingSplits(
        tuple(image for image in images if image.identity not in held_out),
        tuple(image for image in images if image.identity in held_out),
    )
    parts = f"{len(held_out)} of {_identities(len(identities))}"
    require_identities(splits, f"validation_share = {share:g} holds out {parts}")
    return splits


def require_identities(splits: TrainingSplits, where: str) -> None:
    """Raises unless splits have several identities with captions.

    A validation split may be empty.

    Raises:
        UsageError: one has too few; begins with `where`.
    """
    needed = {"train on": splits.training, "validate with": splits.validation}
    for purpose, images in needed.items():
        number = len({image.identity for image in images if image.captions})
        is_wanted = bool(images) or purpose == "train on"
        if is_wanted and number < _LEAST_IDENTITIES:
            raise UsageError(
                f"{where}: {_identities(number)} with captions {'is' if number == 1 else 'are'} "
                f"too few to {purpose}; wanted at least {_LEAST_IDENTITIES}"
            )


def _identities(number: int) -> str:
    return "1 identity" if number == 1 else f"{number} identities"


def training_pairs(images: Iterable[TrainingImage]) -> tuple[TrainingPair, ...]:
    """Each caption with its image, in order; identities are numbered by name."""
    given = list(images)
    numbers = {name: number for number, name in enumerate(sorted({one.identity for one in given}))}
    return tuple(
        TrainingPair(image.path, caption, place, numbers[image.identity])
        for place, image in enumerate(given)
        for caption in image.captions
    )


def digest_of_images(images: Iterable[TrainingImage]) -> str:
    """A digest of the images that are trained on, in order; their folders do not count."""
    return digest_of(*(part for one in images for part in _parts(one)))


def _parts(image: TrainingImage) -> tuple[str, ...]:
    return (image.path.name, image.identity, str(len(image.captions)), *image.captions)


# One training at a time in a folder.


@contextmanager
def occupied(home: Path) -> Iterator[None]:
    """Creates `home` and locks it for this process; the system releases the lock when it ends.

    Raises:
        UsageError: another process trains there, or the folder cannot be made.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{home} cannot be made a folder: {error.strerror}") from error
    try:
        with locked_folder(home, waits=False):
            yield
    except BlockingIOError as error:
        raise UsageError(f"another process is training in {home}") from error
