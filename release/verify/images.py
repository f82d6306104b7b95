"""Check the images of a release, its leak certificate and its declared contamination.

The other datasets of the contamination are not available, so their values and which of them are
nearest cannot be checked. Checked are the distances between the stated values and the rows, the
number of compared items, and the consistency of the numbers. `loupe release contamination` repeats
the comparison with the other dataset.
"""

import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from PIL import Image

from release.contamination import plain_words
from release.files import LEAKS
from release.findings import Findings
from release.leaks import DEFAULT_LIMITS, SplitImages, leak_sentence
from release.manifest import MANIFEST
from release.row_files import RowBatch
from retrieval.similarity.distances import perceptual_hash
from retrieval.similarity.spectrum import UnusablePictureError, look_hash
from schemas.base import Split
from schemas.decoders import DECODER_FAULTS, FORMATS, MOST_PIXELS, decode_limited, too_many_scans
from schemas.limited import LimitExceededError
from schemas.release import Manifest, ReleasedFile
from schemas.similarity import (
    Contamination,
    LeakCertificate,
    Measure,
    SharedMeasure,
    SharedPair,
    SharedSplit,
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
    manifest: Manifest, splits: SplitImages, findings: Findings, *, decode: bool
) -> LeakCertificate | None:
    """The certificate computed from the rows; reports leaks between splits assigned here.

    Embeddings require the model that made them, perceptual hashes require decoding. What was not
    computed is taken from the certificate.
    """
    stated = manifest.leaks
    found = splits.certificate(stated.limits if stated else DEFAULT_LIMITS)
    if found is None:
        return None
    measured, unseen = [], _FROM_MODELS if decode else (*_FROM_MODELS, *_FROM_PIXELS)
    for one in found.comparisons:
        if one.measure not in unseen:
            measured.append(one)
            if one.leaks and manifest.videos:
                message = f"the splits leak: {leak_sentence(one, splits)}"
                findings.add("leak", message, LEAKS)
    for one in stated.comparisons if stated else ():
        if one.measure in unseen:
            measured.append(one)
            if one.leaks and manifest.videos:
                message = (
                    f"the splits leak, as {LEAKS} says itself: {one.leaks:,} pairs by {one.measure}"
                )
                findings.add("leak", message, LEAKS)
    return found.model_copy(update={"comparisons": tuple(measured)})


_LOOKS = "perceptual_hash"
_FAULT = "contamination_differs"
_HASH = re.compile("[0-9a-f]{16}")


class ContaminationChecks:
    """Collects the values of rows that the manifest's statements are about, and compares them.

    Perceptual hashes require decoded images and are skipped without them.
    """

    def __init__(self, manifest: Manifest, findings: Findings, *, decode: bool) -> None:
        self._stated = manifest.contamination
        self._findings = findings
        self._decode = decode
        self._named = {
            pair.first
            for held in self._stated
            for measure in held.measures
            for pair in measure.nearest
        }
        self._rows: dict[str, tuple[Split, dict[str, tuple[str, ...]], int | None]] = {}
        self._counts: Counter[tuple[str, Split]] = Counter()
        self._sources: Counter[tuple[str, Split]] = Counter()
        self._splits: dict[Split, None] = {}

    @property
    def needs_looks(self) -> bool:
        """Whether images must be hashed."""
        return bool(self._stated) and self._decode

    def add(self, row: dict[str, Any], split: Split, look: int | None) -> None:
        """Add a row of Parquet; `look` is its hash by `retrieval.similarity.spectrum`."""
        if not self._stated:
            return
        self._splits[split] = None
        captions = (*row["captions"], *(row.get("coarse_captions") or ()))
        video = row["crop"] and row["crop"]["video_sha256"]
        self._sources[row["source"], split] += 1
        for measure, count in (
            ("file", 1),
            ("video", int(video is not None)),
            ("caption", len(captions)),
            (_LOOKS, int(look is not None)),
        ):
            self._counts[measure, split] += count
        if row["file_path"] in self._named:
            values: dict[str, tuple[str, ...]] = {
                "file": (row["sha256"],),
                "video": () if video is None else (video,),
                "identity": (f"{row['source']}/{row['identity']}",),
                "caption": tuple(map(plain_words, captions)),
            }
            self._rows[row["file_path"]] = split, values, look

    def run(self) -> None:
        """Check the statements on every other dataset."""
        for held in self._stated:
            for measure in held.measures:
                for what in self._faults(held, measure):
                    name = measure.measure.replace("_", " ")
                    message = f"{LEAKS}: compared with {held.name!r} by {name}: {what}"
                    self._findings.add(_FAULT, message, LEAKS)

    def _faults(self, held: Contamination, measure: SharedMeasure) -> Iterator[str]:
        splits = tuple(one.split for one in measure.splits)
        if splits != tuple(self._splits):
            details, found = (", ".join(map(str, names)) for names in (splits, self._splits))
            yield f"it says the splits are {details}; the rows are in {found}"
            return
        for split in measure.splits:
            yield from self._split_faults(held, measure, split)
        for pair in measure.nearest:
            yield from self._pair_faults(measure, pair)
        within = sum(pair.distance <= measure.threshold for pair in measure.nearest)
        if within != min(measure.leaks, len(measure.nearest)) or (
            measure.leaks and not measure.nearest
        ):
            yield f"it counts {measure.leaks:,} leaks and shows {within:,}"

    def _split_faults(
        self, held: Contamination, measure: SharedMeasure, stated: SharedSplit
    ) -> Iterator[str]:
        counts = [count for _, count in stated.within]
        is_rising = counts == sorted(counts) and all(count <= stated.compared for count in counts)
        if not is_rising or dict(stated.within).get(measure.threshold) != stated.leaks:
            yield f"its numbers for {stated.split} are inconsistent"
        if measure.measure == _LOOKS and not self._decode:
            return
        assert stated.split is not None  # noqa: S101 - the splits of a release have names
        found = self._counts[measure.measure, stated.split]
        if measure.measure == "identity":
            found = sum(self._sources[source, stated.split] for source in held.sources)
        if found != stated.compared:
            yield (
                f"it says that {stated.compared:,} of {stated.split} were compared; "
                f"the rows have {found:,}"
            )

    def _pair_faults(self, measure: SharedMeasure, pair: SharedPair) -> Iterator[str]:
        split, values, look = self._rows.get(pair.first, (None, {}, None))
        if split is None or split != pair.split:
            yield f"it names {pair.first} of {pair.split}, which is not a row of that split"
        elif measure.measure == _LOOKS:
            if self._decode and _bits(look, pair.value) != pair.distance:
                yield (
                    f"it says that {pair.first} is {pair.distance} bits from {pair.value}; "
                    f"the image is {_bits(look, pair.value)}"
                )
        else:
            wanted = plain_words(pair.value) if measure.measure == "caption" else pair.value
            if wanted not in values[measure.measure] or pair.distance:
                yield f"it says that {pair.first} has {pair.value!r}, which it does not have"


def _bits(look: int | None, value: str) -> int | None:
    if look is None or not _HASH.fullmatch(value):
        return None
    return (look ^ int(value, 16)).bit_count()
