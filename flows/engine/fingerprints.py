"""Fingerprints of the images of a dataset, and near-duplicates in a folder."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from db.blobs import BlobStore
from db.entities import StoredEntity, children_of, fetch, new_entity
from db.pending import Pending
from db.store import Store
from db.work import WorkResult
from flows.engine.context import RunContext
from flows.engine.image_reading import stored_image
from flows.engine.programs import Program
from flows.engine.progress import Progress
from flows.engine.report import StageReport
from flows.engine.runner import Stage, run_stage
from release.threads import ordered_map
from retrieval.similarity.near_duplicates import (
    FINGERPRINTS_STAGE,
    FINGERPRINTS_VERSION,
    NearDuplicates,
    find_near_duplicates,
    fingerprint,
)
from schemas.decoders import decode_limited
from schemas.errors import UsageError
from schemas.limited import LimitExceededError
from schemas.near_duplicates import FINGERPRINT, AlikePair, ImageFingerprint, NearDuplicateSettings
from schemas.processes import usual_workers
from schemas.provenance import Role
from schemas.records import Image, Rejection

# Fingerprints of the images of a dataset, each computed once


def fingerprint_images(context: RunContext, dataset: str) -> StageReport:
    """Compute the missing fingerprints of all images of a dataset."""
    stage = Stage(
        name=FINGERPRINTS_STAGE,
        version=FINGERPRINTS_VERSION,
        dataset=dataset,
        configuration={"dataset": dataset, "made_by": FINGERPRINT},
        label=f"fingerprint {dataset}",
    )

    pending = Pending(dataset, Image.kind, ("proposed",))
    return run_stage(context, stage, pending, Fingerprints(context.blobs.url))


@dataclass(frozen=True)
class Fingerprints(Program[StoredEntity, StoredEntity]):
    """A program that computes the fingerprints of images in a blob store."""

    stage = FINGERPRINTS_STAGE
    seconds = 0.01

    blobs_url: str

    @property
    def reads(self) -> str:
        """The blob store."""
        return self.blobs_url

    @cached_property
    def _blobs(self) -> BlobStore:
        return BlobStore(self.blobs_url)

    def work(self, items: Sequence[StoredEntity]) -> list[WorkResult]:
        """Return the fingerprint of each image, or a rejection if it cannot be used."""
        return [self._result(image) for image in items]

    def refused(self, item: StoredEntity, rejection: Rejection) -> WorkResult:
        """Return a rejection: the image has no fingerprint."""
        return WorkResult(item.seq, rejection=rejection)

    def _result(self, image: StoredEntity) -> WorkResult:
        picture = stored_image(self._blobs, image)
        found = fingerprint(picture.read(), picture.name)
        if isinstance(found, Rejection):
            return self.refused(image, found)
        made = new_entity(found, image.dataset, parents=[(Role.LOOKS_LIKE, image.id)])
        return WorkResult(image.seq, entities=(made,))


def fingerprints_of(store: Store, ids: Sequence[str]) -> dict[str, ImageFingerprint]:
    """Return the fingerprints of images by id, in order; images without one are left out."""
    found = children_of(store, ids, Role.LOOKS_LIKE)
    stored = fetch(store, {one for made in found.values() for one in made})
    records = {id_: one.record(ImageFingerprint) for id_, one in stored.items()}
    return {
        id_: records[made]
        for id_ in ids
        for made in found.get(id_, ())
        if made in records and records[made].made_by == FINGERPRINT
    }


# Near-duplicates among the images of a folder, without a store

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".jpe", ".png", ".tif", ".tiff", ".webp"})


class FolderDuplicates(NamedTuple):
    """Near-duplicates in a folder; images are identified by relative path with forward slashes."""

    folder: Path
    found: NearDuplicates
    unreadable: tuple[Rejection, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the result for `--json`."""
        report = self.found.report.model_dump(mode="json", exclude={"embedder"}, exclude_none=True)
        return {
            "folder": str(self.folder),
            **report,
            "clusters": [
                {
                    "kept": cluster.kept,
                    "dropped": [
                        {"file": name, **_evidence(pair)}
                        for name, pair in zip(cluster.members[1:], cluster.dropped, strict=True)
                    ],
                }
                for cluster in self.found.clusters
            ],
            "doubtful": [
                {"first": pair.first, "second": pair.second, **_evidence(pair)}
                for pair in self.found.doubtful
            ],
            "unreadable": [
                {"file": one.context["file"], "reason": one.reason, "detail": one.detail}
                for one in self.unreadable
            ],
        }


def similarity_name(pair: AlikePair) -> str:
    """Return how two images are similar: `exact`, `mirrored` or `near`."""
    if pair.exact:
        return "exact"
    return "mirrored" if pair.mirrored else "near"


def _evidence(pair: AlikePair) -> dict[str, Any]:
    measures = {"hash_bits": pair.hash_bits, "spectrum_distance": pair.spectrum_distance}
    return {"way": similarity_name(pair), **({} if pair.exact else measures)}


def find_in_folder(
    folder: Path, settings: NearDuplicateSettings, progress: Progress
) -> FolderDuplicates:
    """Find near-duplicates among the images below `folder`, which are recognized by file suffix.

    Raises:
        UsageError: it is not a folder, or contains no images.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    names = sorted(_image_names(folder))
    if not names:
        suffixes = ", ".join(sorted(SUFFIXES))
        raise UsageError(f"{folder} contains no images: no file ends in {suffixes}")
    images: dict[str, ImageFingerprint] = {}
    unreadable: list[Rejection] = []
    report, started = StageReport(FINGERPRINTS_STAGE), time.monotonic()
    progress.start(FINGERPRINTS_STAGE, len(names))
    looks = ordered_map(partial(_looked_at, folder), names, usual_workers())
    for name, looked in zip(names, looks, strict=True):
        if isinstance(looked, Rejection):
            report.rejected[looked.reason] += 1
            unreadable.append(looked)
        else:
            report.done += 1
            images[name] = looked
        progress.advance(FINGERPRINTS_STAGE, 1)
    report.seconds = time.monotonic() - started
    progress.end(report)
    return FolderDuplicates(folder, find_near_duplicates(images, settings), tuple(unreadable))


def _image_names(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.suffix.casefold() in SUFFIXES and path.is_file():
            yield path.relative_to(folder).as_posix()


def _looked_at(folder: Path, name: str) -> ImageFingerprint | Rejection:
    def unusable(reason: str, detail: str) -> Rejection:
        detail = f"image {name!r} cannot be {detail}"
        where = {"file": name}
        return Rejection(stage=FINGERPRINTS_STAGE, reason=reason, detail=detail, context=where)

    try:
        data = (folder / name).read_bytes()
    except OSError as fault:
        return unusable("unreadable_image", f"read: {fault.strerror}")
    try:
        return decode_limited(fingerprint, data, name)
    except LimitExceededError as fault:
        return unusable(fault.reason, f"decoded: it {fault}")
