"""Check the images of a release, its leak certificate and its declared contamination.

The other datasets of the contamination are not available, so the rows are compared with those of
their items that the manifest names. `loupe release contamination` repeats the whole comparison.
"""

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

from PIL import Image

from loupe.release.contamination import (
    Other,
    OwnImages,
    SeenCaption,
    SeenImage,
    SeenVideo,
    compare,
    seen_row,
)
from loupe.release.files import LEAKS, ReleasedFile
from loupe.release.findings import Findings
from loupe.release.leaks import DEFAULT_LIMITS, find_leaks, leak_sentence
from loupe.release.manifest import MANIFEST
from loupe.release.row_files import RowBatch
from loupe.release.rows import ReleaseRow
from loupe.retrieval.similarity.distances import ComparedImage, perceptual_hash
from loupe.retrieval.similarity.spectrum import UnusablePictureError, look_hash
from loupe.schemas.base import Split
from loupe.schemas.decoders import (
    DECODER_FAULTS,
    FORMATS,
    MOST_PIXELS,
    decode_limited,
    too_many_scans,
)
from loupe.schemas.limited import LimitExceededError
from loupe.schemas.release import Manifest
from loupe.schemas.similarity import (
    Contamination,
    LeakCertificate,
    Measure,
    SharedMeasure,
    SharedPair,
)

_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SEGMENTS = frozenset(range(0xC0, 0xFF)) - frozenset(range(0xD0, 0xDB))
"""Markers that are followed by a length, and after which the header may continue."""


def jpeg_size(data: bytes | memoryview) -> tuple[int, int] | None:
    """Width and height in pixels; None if it is not a JPEG, or needs a full parser.

    Takes a tenth of the time of opening the image with Pillow. The image data are not checked.
    """
    at, end = 2, len(data) - 9
    if end < at or data[0] != 0xFF or data[1] != 0xD8:
        return None
    while at <= end and data[at] == 0xFF:
        kind, length = data[at + 1], data[at + 2] << 8 | data[at + 3]
        if kind in _START_OF_FRAME:
            return data[at + 7] << 8 | data[at + 8], data[at + 5] << 8 | data[at + 6]
        if kind not in _SEGMENTS:
            return None
        at += 2 + length
    return None


class DecodingOptions(NamedTuple):
    """What to compute of images besides their size: decoding, or one of two hashes.

    `look` is the hash for comparisons with other datasets.
    """

    decode: bool
    hash: bool
    look: bool


class ImageCheck(NamedTuple):
    """The problem with the image of a row, if any, and its hashes if they are needed.

    `listed` is the manifest's entry of the image's file; None if it has none.
    """

    listed: ReleasedFile | None
    problem: str | None
    perceptual_hash: int | None = None
    look: int | None = None


def check_images(
    batch: RowBatch, listed: Mapping[str, ReleasedFile], wanted: DecodingOptions
) -> list[ImageCheck]:
    """Compare embedded images with the digests that the manifest lists; thread-safe.

    Images are decoded if something is `wanted` of them, else only their header is read.
    """
    return [
        _check(row, path, image, listed.get(row["file_path"]), wanted)
        for row, path, image in zip(batch.rows, batch.paths, batch.images, strict=True)
    ]


def _check(
    row: dict[str, Any],
    path: str | None,
    image: memoryview | None,
    listed: ReleasedFile | None,
    wanted: DecodingOptions,
) -> ImageCheck:
    if not image:
        return ImageCheck(listed, "holds no image")
    size = row["width_px"], row["height_px"]
    problem = _other_image(row, path, image, listed)
    if problem or (not any(wanted) and jpeg_size(image) == size):
        return ImageCheck(listed, problem)
    try:
        return ImageCheck(listed, *decode_limited(_decoded, bytes(image), size, wanted))
    except LimitExceededError as fault:
        return ImageCheck(listed, f"has an image that does not decode (it {fault})")


def _decoded(
    data: bytes, size: tuple[int, int], wanted: DecodingOptions
) -> tuple[str | None, int | None, int | None]:
    """The problem with an image that should have `size`, its perceptual hash, and its look."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            if picture.size != size:
                problem = f"says its image has {size} pixels; the image has {picture.size}"
                return problem, None, None
            if (pixels := size[0] * size[1]) > MOST_PIXELS:
                problem = f"has an image of {pixels:,} pixels; {MOST_PIXELS:,} are allowed"
                return problem, None, None
            if what := too_many_scans(data):
                return f"has an image that {what}", None, None
            if wanted.decode:
                picture.load()
        hashed = perceptual_hash(data) if wanted.hash else None
        look = look_hash(data) if wanted.look else None
    except UnusablePictureError as fault:
        return f"has an image that {fault}", None, None
    except (*DECODER_FAULTS, Image.DecompressionBombError) as error:
        return f"has an image that does not decode ({error})", None, None
    return None, hashed, look


def _other_image(
    row: dict[str, Any], path: str | None, data: memoryview, listed: ReleasedFile | None
) -> str | None:
    if path != row["file_path"]:
        return f"calls its image {path!r}; expected {row['file_path']!r}"
    if listed is None:
        return f"shows {path}, which {MANIFEST} does not list"
    if hashlib.sha256(data).hexdigest() != listed.sha256:
        return f"holds other bytes than {path}"
    if row["sha256"] != listed.sha256:
        return f"says that {path} has the SHA-256 {row['sha256']}; {MANIFEST} lists {listed.sha256}"
    return None


_FROM_PIXELS: tuple[Measure, ...] = ("perceptual_hash",)
_FROM_MODELS: tuple[Measure, ...] = ("embedding",)


def found_leaks(
    manifest: Manifest,
    splits: Mapping[Split, Sequence[ComparedImage]],
    findings: Findings,
    *,
    decode: bool,
) -> LeakCertificate | None:
    """The certificate computed from the rows; reports leaks between splits assigned here.

    Embeddings require the model that made them, perceptual hashes require decoding. What was not
    computed is taken from the certificate.
    """
    if len(splits) < 2:
        return None
    stated = manifest.leaks
    found = find_leaks(splits, stated.limits if stated else DEFAULT_LIMITS)
    unseen = _FROM_MODELS if decode else (*_FROM_MODELS, *_FROM_PIXELS)
    known = stated.comparisons if stated else ()
    measured = (
        *(one for one in found.comparisons if one.measure not in unseen),
        *(one for one in known if one.measure in unseen),
    )
    for one in measured:
        if one.leaks and manifest.videos:
            findings.add("leak", f"the splits leak: {leak_sentence(one)}", LEAKS)
    return found.model_copy(update={"comparisons": measured})


_HASH = re.compile("[0-9a-f]{16}")
_KEY = re.compile("[0-9a-f]{32}")
_NOWHERE = "\0"
"""The name of an item that is in no release."""


def _stated_items(held: Contamination) -> Iterator[SeenImage | SeenVideo | SeenCaption]:
    """The items of another dataset that a manifest names, to compare the rows with them again."""
    for source in held.sources:
        yield SeenImage(_NOWHERE, "", identity=(source, _NOWHERE))
    for measure in held.measures:
        if measure.measure == "video":
            yield SeenVideo(_NOWHERE, _NOWHERE)
        if measure.measure == "caption":
            yield SeenCaption(_NOWHERE, b"")
        for pair in measure.nearest:
            yield from _stated_item(measure.measure, pair.second, pair.value, held.sources)


def _stated_item(
    measure: str, name: str, value: str, sources: Iterable[str]
) -> Iterator[SeenImage | SeenVideo | SeenCaption]:
    if measure == "file":
        yield SeenImage(name, value)
    elif measure == "video":
        yield SeenVideo(name, value)
    elif measure == "caption":
        if _KEY.fullmatch(value):
            yield SeenCaption(name, bytes.fromhex(value))
    elif measure == "perceptual_hash" and _HASH.fullmatch(value):
        yield SeenImage(name, "", look=int(value, 16))
    else:
        for source in sources:
            if value.startswith(f"{source}/"):
                yield SeenImage(name, "", identity=(source, value[len(source) + 1 :]))


class ContaminationChecks:
    """Compares the rows again with the items of other datasets that the manifest names.

    Perceptual hashes require decoded images and are skipped without them.
    """

    def __init__(self, manifest: Manifest, findings: Findings, *, decode: bool) -> None:
        self._stated = manifest.contamination
        self._findings = findings
        self._decode = decode
        self._own = OwnImages()

    @property
    def needs_looks(self) -> bool:
        """Whether images must be hashed."""
        return bool(self._stated) and self._decode

    def add(self, row: ReleaseRow, look: int | None) -> None:
        """Add a row; `look` is its hash by `loupe.retrieval.similarity.spectrum`."""
        if self._stated:
            self._own.add(seen_row(row, look))

    def run(self) -> None:
        """Check the statements on every other dataset."""
        for held in self._stated:
            other = Other(held.name, held.other, partial(_stated_items, held))
            found = {one.measure: one for one in compare(self._own, other).measures}
            for measure in held.measures:
                name = measure.measure.replace("_", " ")
                for what in self._faults(measure, found.get(measure.measure)):
                    message = f"{LEAKS}: compared with {held.name!r} by {name}: {what}"
                    self._findings.add("contamination_differs", message, LEAKS)

    def _faults(self, stated: SharedMeasure, found: SharedMeasure | None) -> Iterator[str]:
        if self._decode or stated.measure != "perceptual_hash":
            said, right = (
                {str(split.split): split.compared for split in one.splits} if one else {}
                for one in (stated, found)
            )
            if said != right:
                yield f"it says that {said} were compared; the rows have {right}"
            pairs = zip_longest(stated.nearest, found.nearest if found else ())
            for pair, near in ((one, other) for one, other in pairs if one != other):
                yield f"it names {_pair(pair)}; by the rows it is {_pair(near)}"
                break
        within = sum(pair.distance <= stated.threshold for pair in stated.nearest)
        if within != min(stated.leaks, len(stated.nearest)) or within < bool(stated.leaks):
            yield f"it counts {stated.leaks:,} leaks and shows {within:,}"
        for split in stated.splits:
            counts = [count for _, count in split.within]
            if [*counts, split.compared] != sorted([*counts, split.compared]) or dict(
                split.within
            ).get(stated.threshold) != split.leaks:
                yield f"its numbers for {split.split} are inconsistent"


def _pair(pair: SharedPair | None) -> str:
    if pair is None:
        return "no pair"
    return f"{pair.first} of {pair.split} and {pair.value!r:.120}, {pair.distance} apart"
