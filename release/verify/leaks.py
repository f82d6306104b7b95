"""Whether the splits of a release are as far apart as its certificate says, from its images."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from release.findings import Findings
from release.leaks import (
    DEFAULT_LIMITS,
    LEAKS,
    SplitImages,
    certificate_text,
    leak_sentence,
)
from release.manifest import MANIFEST
from schemas.leaks import Comparison, LeakCertificate, Measure
from schemas.nearness import ComparedImage
from schemas.records import Split
from schemas.release import Manifest

_FROM_PIXELS: tuple[Measure, ...] = ("perceptual_hash",)
_FROM_MODELS: tuple[Measure, ...] = ("embedding",)


class LeakChecks:
    """Collects the rows of a release and compares the result with its certificate.

    Embeddings need the model that made them; of these the certificate's word is taken. Perceptual
    hashes need decoded images: without, they are left out too.
    """

    def __init__(
        self, folder: Path, manifest: Manifest, findings: Findings, *, decode: bool
    ) -> None:
        self._folder = folder
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
        self._check_file()

    def _check_splits(self, found: LeakCertificate) -> None:
        """Splits of crops were given with the certificate in mind; others are as their source's."""
        for comparison in found.leaks if self._manifest.videos else ():
            message = f"the splits leak: {leak_sentence(comparison, self._splits)}"
            self._findings.add("leak", message, LEAKS)

    def _check_certificate(self, stated: LeakCertificate, found: LeakCertificate) -> None:
        unseen = (*_FROM_MODELS, *(() if self._decode else _FROM_PIXELS))
        for ours, theirs in _side_by_side(stated.comparisons, found.comparisons, unseen):
            if ours != theirs and ours != _without_further(theirs):
                message = f"{LEAKS} says {_said(ours)}; the released images say {_said(theirs)}"
                self._findings.add("leaks_differ", message, LEAKS)
        for comparison in stated.comparisons:
            if comparison.measure in unseen and comparison.leaks and self._manifest.videos:
                message = f"the splits leak, as {LEAKS} says itself: {_said(comparison)}"
                self._findings.add("leak", message, LEAKS)

    def _check_file(self) -> None:
        """Whether the certificate beside the manifest says what the manifest says."""
        stated, contamination = self._manifest.leaks, self._manifest.contamination
        if stated is None and not contamination:
            return
        try:
            written = (self._folder / LEAKS).read_bytes()
        except OSError:
            return  # named already as a missing file
        if written != certificate_text(stated, contamination):
            message = f"{LEAKS} is not the certificate that {MANIFEST} holds"
            self._findings.add("leaks_differ", message, LEAKS)


def _side_by_side(
    stated: Iterable[Comparison], found: Iterable[Comparison], unseen: Iterable[Measure]
) -> list[tuple[Comparison | None, Comparison | None]]:
    """Comparisons of the same splits by the same measure, those of `unseen` measures left out."""
    ours = {(one.splits, one.measure): one for one in stated if one.measure not in set(unseen)}
    theirs = {(one.splits, one.measure): one for one in found if one.measure not in set(unseen)}
    return [(ours.get(key), theirs.get(key)) for key in dict.fromkeys((*ours, *theirs))]


def _without_further(comparison: Comparison | None) -> Comparison | None:
    """As releases state it that are from before more than the nearest pair was stated."""
    return comparison and comparison.model_copy(update={"further": ()})


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
