"""Whether splits are as far apart, and other datasets as near, as the release says.

The others are not there: that a value is among theirs is the certificate's word, and what of theirs
is nearest. That the value named is as near to ours as it says, how many of ours were compared, and
that numbers go together, is checked. `loupe release contamination` with the other compares again.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from release.contamination import plain_words
from release.findings import Findings
from release.leaks import (
    DEFAULT_LIMITS,
    LEAKS,
    SplitImages,
    leak_sentence,
)
from release.manifest import MANIFEST
from retrieval.similarity.distances import ComparedImage
from schemas.contamination import Contamination, SharedMeasure, SharedPair, SharedSplit
from schemas.leaks import Comparison, LeakCertificate, Measure
from schemas.records import Split
from schemas.release import Manifest

_FROM_PIXELS: tuple[Measure, ...] = ("perceptual_hash",)
_FROM_MODELS: tuple[Measure, ...] = ("embedding",)


class LeakChecks:
    """Collects the rows of a release and compares the result with its certificate.

    Embeddings need the model that made them; of these the certificate's word is taken. Perceptual
    hashes need decoded images: without, they are left out too.
    """

    def __init__(self, manifest: Manifest, findings: Findings, *, decode: bool) -> None:
        self._manifest = manifest
        self._findings = findings
        self._decode = decode
        self._splits = SplitImages()
        self.is_needed = len(manifest.statistics.splits) > 1 or manifest.leaks is not None

    @property
    def needs_hashes(self) -> bool:
        """Whether images are to be hashed."""
        return self.is_needed and self._decode

    def add(self, row: dict[str, Any], split: Split, perceptual_hash: int | None) -> None:
        """Remembers a row of Parquet."""
        if not self.is_needed:
            return
        image = ComparedImage(
            name=row["file_path"],
            identity=f"{row['source']}/{row['identity']}",
            sha256=row["sha256"],
            perceptual_hash=perceptual_hash,
            video_sha256=row["crop"] and row["crop"]["video_sha256"],
        )
        self._splits.add(split, image)

    def run(self) -> None:
        """Checks the certificate and the splits."""
        stated = self._manifest.leaks
        found = self._splits.certificate(stated.limits if stated else DEFAULT_LIMITS)
        if found is not None:
            self._check_splits(found)
        if (stated is None) != (found is None):
            has, wanted = ("no", "one") if stated is None else ("a", "none")
            message = (
                f"{MANIFEST} has {has} leak certificate; a release of these splits has {wanted}"
            )
            self._findings.add("leaks_differ", message, MANIFEST)
        elif stated is not None and found is not None:
            self._check_certificate(stated, found)

    def _check_splits(self, found: LeakCertificate) -> None:
        """Splits of crops were given with the certificate in mind; others are as their source's."""
        for comparison in found.leaks if self._manifest.videos else ():
            message = f"the splits leak: {leak_sentence(comparison, self._splits)}"
            self._findings.add("leak", message, LEAKS)

    def _check_certificate(self, stated: LeakCertificate, found: LeakCertificate) -> None:
        unseen = (*_FROM_MODELS, *(() if self._decode else _FROM_PIXELS))
        for ours, theirs in _side_by_side(stated.comparisons, found.comparisons, unseen):
            if ours != theirs:
                message = f"{LEAKS} says {_said(ours)}; the released images say {_said(theirs)}"
                self._findings.add("leaks_differ", message, LEAKS)
        for comparison in stated.comparisons:
            if comparison.measure in unseen and comparison.leaks and self._manifest.videos:
                message = f"the splits leak, as {LEAKS} says itself: {_said(comparison)}"
                self._findings.add("leak", message, LEAKS)


def _side_by_side(
    stated: Iterable[Comparison], found: Iterable[Comparison], unseen: Iterable[Measure]
) -> list[tuple[Comparison | None, Comparison | None]]:
    """Comparisons of the same splits by the same measure, those of `unseen` measures left out."""
    ours = {(one.splits, one.measure): one for one in stated if one.measure not in set(unseen)}
    theirs = {(one.splits, one.measure): one for one in found if one.measure not in set(unseen)}
    return [(ours.get(key), theirs.get(key)) for key in dict.fromkeys((*ours, *theirs))]


def _said(comparison: Comparison | None) -> str:
    if comparison is None:
        return "nothing"
    one = comparison
    pair = one.nearest
    near = f"nearest {pair.first} and {pair.second} at {pair.distance:g}" if pair else "none equal"
    return (
        f"{one.measure} of {'/'.join(one.splits)}: {one.leaks:,} leaks in {one.pairs:,} pairs "
        f"(up to {one.threshold:g}), {near}"
    )


_LOOKS = "perceptual_hash"
_FAULT = "contamination_differs"
_HASH = re.compile("[0-9a-f]{16}")


class _Shown(NamedTuple):
    """A row that is named as near to something: what it is compared by."""

    split: Split
    values: dict[str, tuple[str, ...]]
    look: int | None


class ContaminationChecks:
    """Gathers what the manifest's statements need of the rows, and holds them against it.

    Perceptual hashes need decoded images: without, they are left out.
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
        self._rows: dict[str, _Shown] = {}
        self._counts: Counter[tuple[str, Split]] = Counter()
        self._sources: Counter[tuple[str, Split]] = Counter()
        self._splits: dict[Split, None] = {}

    @property
    def needs_looks(self) -> bool:
        """Whether images are to be looked at."""
        return bool(self._stated) and self._decode

    def add(self, row: dict[str, Any], split: Split, look: int | None) -> None:
        """Remembers a row of Parquet; `look` is its hash by `retrieval.similarity.spectrum`."""
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
            self._rows[row["file_path"]] = _Shown(split, values, look)

    def run(self) -> None:
        """Checks what is stated of every other dataset."""
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
            yield f"its numbers for {stated.split} do not go together"
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
            yield f"it names {pair.first} of {pair.split}, which is no row of that split"
        elif measure.measure == _LOOKS:
            if self._decode and _bits(row.look, pair.value) != pair.distance:
                yield (
                    f"it says that {pair.first} is {pair.distance} bits from {pair.value}; "
                    f"the image says {_bits(row.look, pair.value)}"
                )
        else:
            wanted = plain_words(pair.value) if measure.measure == "caption" else pair.value
            if wanted not in row.values[measure.measure] or pair.distance:
                yield f"it says that {pair.first} has {pair.value!r}, which it has not"


def _bits(look: int | None, value: str) -> int | None:
    if look is None or not _HASH.fullmatch(value):
        return None
    return (look ^ int(value, 16)).bit_count()
