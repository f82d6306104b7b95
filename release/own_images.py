"""The images of a release, kept as what they are compared with other datasets by."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.records import Split

Identity = tuple[str, str]
"""The name of a source, and that of an identity in it."""


class SeenImage(NamedTuple):
    """An image as it is compared with those of other datasets.

    Attributes:
        name: its file.
        sha256: the digest of its bytes.
        look: its perceptual hash (`schemas.spectrum`); None where it has none.
        split: the split that it is in, if in any.
        identity: the person or thing shown, as its source names it; None without a source.
        video_sha256: the digest of the video that it was cut out of, if it was.
        captions: what is said of it, coarse captions included.
        fault: why it could not be looked at, if so.
    """

    name: str
    sha256: str
    look: int | None = None
    split: Split | None = None
    identity: Identity | None = None
    video_sha256: str | None = None
    captions: tuple[str, ...] = ()
    fault: str | None = None


def plain_words(text: str) -> str:
    """A caption as captions are compared: without letter case, blanks for all white space."""
    return " ".join(text.split()).casefold()


def caption_key(text: str) -> bytes:
    """16 bytes that stand for the words of a caption."""
    words = plain_words(text).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(words, digest_size=16).digest()


class OwnImages:
    """What is compared with other datasets: kept in the order of rows, captions by digest."""

    def __init__(self, images: Iterable[SeenImage] = ()) -> None:
        self.names: list[str] = []
        self.splits: list[Split | None] = []
        self.files: list[bytes] = []
        self.identities: list[Identity | None] = []
        self.videos: list[bytes | None] = []
        self.captions: list[bytes] = []
        self.caption_images: list[int] = []
        self._looks: list[int] = []
        self._looked: list[int] = []
        for image in images:
            self.add(image)

    def __len__(self) -> int:
        return len(self.names)

    def add(self, image: SeenImage) -> None:
        """Remembers the next image."""
        place = len(self.names)
        self.names.append(image.name)
        self.splits.append(image.split)
        self.files.append(bytes.fromhex(image.sha256))
        self.identities.append(image.identity)
        video = image.video_sha256
        self.videos.append(None if video is None else bytes.fromhex(video))
        if image.look is not None:
            self._looks.append(image.look)
            self._looked.append(place)
        for text in image.captions:
            self.captions.append(caption_key(text))
            self.caption_images.append(place)

    @property
    def looks(self) -> NDArray[np.uint64]:
        """The perceptual hashes of those that have one, of shape (n,)."""
        return np.array(self._looks, np.uint64)

    @property
    def looked(self) -> NDArray[np.int64]:
        """The places of the images that have a perceptual hash, of shape (n,)."""
        return np.array(self._looked, np.int64)

    def count(self, places: Iterable[int]) -> dict[Split | None, int]:
        """How many of `places` are in each split, for all splits in their order."""
        counted = Counter(self.splits[place] for place in places)
        return {split: counted[split] for split in dict.fromkeys(self.splits)}
