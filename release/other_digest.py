"""The digest of what was compared of another dataset, by which it can be known again.

Each image and each video is an entry: its file's SHA-256, its name, its perceptual hash and its
identity, a line each, then the digests of its captions. The digest is the SHA-256 of the SHA-256
digests of all entries, in their order, so that the order in which a store gives them does not
matter.
"""

import hashlib
from collections.abc import Iterable

from release.own_images import SeenImage

_NOTHING = "-"


class OtherDigest:
    """Gathers what is compared, 32 bytes for each entry."""

    def __init__(self) -> None:
        self._entries: list[bytes] = []

    def add_image(self, image: SeenImage, captions: Iterable[bytes]) -> None:
        """An image with the digests of its captions (`release.own_images.caption_key`)."""
        look = _NOTHING if image.look is None else f"{image.look:016x}"
        identity = _NOTHING if image.identity is None else "/".join(image.identity)
        self._add(f"image\n{image.sha256}\n{image.name}\n{look}\n{identity}\n", captions)

    def add_video(self, name: str, sha256: str) -> None:
        """A video that images were, or may be, cut out of."""
        self._add(f"video\n{sha256}\n{name}\n")

    def _add(self, lines: str, digests: Iterable[bytes] = ()) -> None:
        entry = hashlib.sha256(lines.encode("utf-8", "surrogatepass"))
        for digest in digests:
            entry.update(digest)
        self._entries.append(entry.digest())

    def result(self) -> str:
        """The digest of all that was added, as 64 hex digits."""
        return hashlib.sha256(b"".join(sorted(self._entries))).hexdigest()
