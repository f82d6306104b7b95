"""Draws identities from a source, the same ones for the same seed."""

from collections.abc import Mapping, Sequence

from schemas.base import Record, digest_of

VERSION = "1"
STAGE = "sample_identities"


class SampleSettings(Record):
    """How many identities, how many images of each (None: all), and the seed of the draw."""

    identities: int
    images_per_identity: int | None
    seed: int


class Draw(Record):
    """Images by identity, both in the order in which they were drawn."""

    images: dict[str, tuple[str, ...]]

    @property
    def digest(self) -> str:
        """The identity of this draw: equal for equal images, in whatever order."""
        pairs = (f"{name}:{image}" for name, images in self.images.items() for image in images)
        return digest_of(*sorted(pairs))


def sample_identities(images: Mapping[str, Sequence[str]], settings: SampleSettings) -> Draw:
    """Up to `settings.identities` of the identities in `images`, each with its capped images.

    `images` maps an identity to the names of its images. Each name is ranked by a digest of seed
    and name (a hash draw): the result depends neither on the order of the input nor on a random
    number generator, and adding an identity changes nothing for the others but who is last.
    """
    drawn = _first(images, settings.identities, settings.seed)
    return Draw(
        images={
            name: tuple(_first(images[name], settings.images_per_identity, settings.seed))
            for name in drawn
        }
    )


def _first(
    names: Mapping[str, Sequence[str]] | Sequence[str], count: int | None, seed: int
) -> list[str]:
    return sorted(names, key=lambda name: digest_of(str(seed), name))[:count]
