"""Checks the statements of a release on leaks between splits and on other datasets.

The other datasets are not available, so their values and which of them are nearest cannot be
checked. Checked are the distances between the stated values and the rows, the number of compared
items, and the consistency of the numbers. `loupe release contamination` repeats the comparison with
the other dataset.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from release.contamination import plain_words
from release.findings import Findings
from release.leaks import (
    DEFAULT_LIMITS,
    LEAKS,
    SplitImages,
    leak_sentence,
)
from schemas.contamination import Contamination, SharedMeasure, SharedPair, SharedSplit
from schemas.leaks import LeakCertificate, Measure
from schemas.records import Split
from schemas.release import Manifest

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


class _NamedRow(NamedTuple):
    """A row that is named in a pair, with the values that are compared."""

    split: Split
    values: dict[str, tuple[str, ...]]
    look: int | None


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
        self._rows: dict[str, _NamedRow] = {}
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
            self._rows[row["file_path"]] = _NamedRow(split, values, look)

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
        row = self._rows.get(pair.first)
        if row is None or row.split != pair.split:
            yield f"it names {pair.first} of {pair.split}, which is not a row of that split"
        elif measure.measure == _LOOKS:
            if self._decode and _bits(row.look, pair.value) != pair.distance:
                yield (
                    f"it says that {pair.first} is {pair.distance} bits from {pair.value}; "
                    f"the image is {_bits(row.look, pair.value)}"
                )
        else:
            wanted = plain_words(pair.value) if measure.measure == "caption" else pair.value
            if wanted not in row.values[measure.measure] or pair.distance:
                yield f"it says that {pair.first} has {pair.value!r}, which it does not have"


def _bits(look: int | None, value: str) -> int | None:
    if look is None or not _HASH.fullmatch(value):
        return None
    return (look ^ int(value, 16)).bit_count()
