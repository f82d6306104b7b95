"""Images and fine captions that a contrastive release has more than once.

An image that two groups share, or a caption that two images share, is ambiguous:
an answer that names the other one is counted as wrong.
"""

from release.scratch import Scratch
from schemas.base import sha256_of
from schemas.release import RepeatStatistics

SHOWN = 5
"""Of so many images, and captions, that repeat one another two files are named."""

_IMAGE, _CAPTION = "image", "caption"


class Repeats:
    """Remembers the images of a release and their captions, in `scratch`, and counts the repeats.

    Images are equal by their SHA-256; captions by their words, letter case and white space aside.
    """

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._place = 0

    def add(self, file_path: str, sha256: str, captions: list[str]) -> None:
        """Remembers the next image and its fine captions; equal ones of one image count once."""
        self._place += 1
        digests = [(_IMAGE, sha256), *((_CAPTION, _digest(text)) for text in captions)]
        self._scratch.add_shown(digests, self._place, file_path)

    def result(self) -> RepeatStatistics:
        """Everything that was remembered, counted."""
        return RepeatStatistics(
            images=self._scratch.count_repeats(_IMAGE),
            captions=self._scratch.count_repeats(_CAPTION),
            image_pairs=self._scratch.repeated_pairs(_IMAGE, SHOWN),
            caption_pairs=self._scratch.repeated_pairs(_CAPTION, SHOWN),
        )


def _digest(text: str) -> str:
    return sha256_of(" ".join(text.split()).casefold().encode("utf-8", "surrogatepass"))
