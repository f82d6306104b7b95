"""Builds a release: from what the store holds and people decided, to a folder that never changes.

The same decisions give the same bytes, whatever the database, the order in which things were
stored, and the time: rows are ordered by content, and nothing in the files tells when or where they
were written. Images are read, written and forgotten a few at a time.
"""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from db.blobs import BlobStore
from db.release_rows import snapshot
from db.releases import store_release
from db.second_looks import looked_draws
from db.store import Store
from release.card import CARD, render_card
from release.containment import contained, lower_releases
from release.contents import Contents, FoundRow
from release.figure import FIGURE, word_figure
from release.files import digest_of_file, write_file
from release.folder import Workspace, refuse_foreign, workspace_for
from release.json_rows import JsonRows
from release.leaks import (
    DEFAULT_LIMITS,
    LEAKS,
    SplitImages,
    certificate_text,
    leak_sentence,
)
from release.manifest import MANIFEST, named, unnamed, write_manifest
from release.model_use import is_demonstration
from release.parquet_rows import EmbeddedRow, ParquetRows
from release.row_making import compared_image
from release.scratch import Scratch
from release.statistics import StatisticsCounter, is_reviewed
from release.threads import ordered_map
from release.tiers import check_version
from schemas.errors import IntegrityError, UsageError
from schemas.leaks import LeakLimits
from schemas.nearness import perceptual_hash
from schemas.release import (
    DATASET_PATTERN,
    VERSION_PATTERN,
    ContainedRelease,
    Manifest,
    ReleasedFile,
)
from schemas.retrieval_task import Tier
from schemas.second_look import SecondLookStatistics, summarise

Progress = Callable[[int, int], None]
"""Told how many rows are written, and of how many images."""


class _Copied(NamedTuple):
    """A row whose image is written; hashed only where the dataset has several splits."""

    found: FoundRow
    image: bytes
    perceptual_hash: int | None


class BuiltRelease(NamedTuple):
    """A release that lies in `folder`; `is_new` is False where it lay there already."""

    manifest: Manifest
    folder: Path
    is_new: bool


def build_release(
    store: Store,
    blobs: BlobStore,
    dataset: str,
    version: str,
    out: Path,
    *,
    tier: Tier | None = None,
    leak_limits: LeakLimits = DEFAULT_LIMITS,
    on_progress: Progress = lambda _done, _total: None,
) -> BuiltRelease:
    """Builds `version` of `dataset` from its live images and accepted captions, at `out`.

    The folder appears as a whole or not at all. Building a version again from the same decisions
    changes nothing. What kind of release it becomes is seen from the dataset: images that were cut
    out of videos are released in UFine6926's format, others in UFine3C's; several splits are
    certified not to leak, up to `leak_limits`. Of a benchmark of tasks `tier` says which version it
    is; one of the same state that was released in a lower tier must be contained (`release.tiers`).

    Raises:
        UsageError: the version is malformed, `out` holds something else, nothing can be released,
            or the dataset has tiers and none is named.
        IntegrityError: the version was released with other content, a lower tier's release is not
            contained, or the dataset cannot be released as it is (one sentence says why).
    """
    _check(dataset, version, tier)
    out = out.absolute()
    refuse_foreign(out)
    with workspace_for(out) as workspace:
        scratch = Scratch(workspace.scratch_file)
        try:
            build = _Build(store, blobs, workspace, scratch, leak_limits, on_progress)
            manifest = build.run(dataset, version, tier)
            is_new = not (out / MANIFEST).exists()
            if not is_new:
                _refuse_change(out, workspace.content, manifest)
            store_release(
                store,
                manifest,
                out,
                scratch.items(),
                publish=lambda: workspace.publish(out) if is_new else None,
            )
        finally:
            scratch.close()
    return BuiltRelease(manifest, out, is_new)


class _Build:
    """One build: what it reads from, what it writes to."""

    def __init__(
        self,
        store: Store,
        blobs: BlobStore,
        workspace: Workspace,
        scratch: Scratch,
        leak_limits: LeakLimits,
        on_progress: Progress,
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._folder = workspace.content
        self._scratch = scratch
        self._leak_limits = leak_limits
        self._on_progress = on_progress
        self._splits = SplitImages()
        self._has_splits = False
        self._contains: tuple[ContainedRelease, ...] = ()
        self._statistics = StatisticsCounter()
        self._entities = hashlib.sha256()

    def run(self, dataset: str, version: str, tier: Tier | None) -> Manifest:
        """Writes everything into the workspace."""
        lower = lower_releases(self._store, dataset, version, tier)
        with snapshot(self._store) as connection:
            contents = Contents(connection, dataset, self._scratch, tier)
            total = contents.arrange()
            self._has_splits = self._scratch.has_several_splits()
            self._write_rows(contents, dataset, total)
            self._contains = contained(connection, lower, self._scratch, f"{dataset} {version}")
            looks = tuple(map(summarise, looked_draws(connection, dataset)))
            draft = self._draft(contents, dataset, version, looks, tier)
        if not draft.statistics.captions:
            raise UsageError(
                f"nothing of {dataset!r} can be released: it has {total} images, "
                f"none of them with a caption"
            )
        _refuse_leaks(draft, self._splits)
        self._write_extras(draft)
        manifest = named(draft, self._scratch.listed())
        write_manifest(self._folder, manifest, self._scratch.listed())
        return manifest

    def _draft(
        self,
        contents: Contents,
        dataset: str,
        version: str,
        looks: tuple[SecondLookStatistics, ...],
        tier: Tier | None,
    ) -> Manifest:
        """The manifest, all rows written."""
        sources, prompts, videos = contents.sources(), contents.prompts(), contents.videos()
        models, trackers = contents.models(), contents.trackers()
        self._add_entities([source.entity_id for source in sources])
        self._add_entities([prompt.entity_id for prompt in prompts])
        self._add_entities([video.entity_id for video in videos])
        granularities = {one.name: one.granularity for one in sources}
        statistics = self._statistics.result(granularities, looks, contents.tracklets())
        return unnamed(
            dataset=dataset,
            version=version,
            tier=tier,
            contains=self._contains,
            demonstration=is_demonstration(models, sources, trackers),
            unreviewed=not is_reviewed(statistics),
            entities_sha256=self._entities.hexdigest(),
            sources=sources,
            prompts=prompts,
            models=models,
            videos=videos,
            trackers=trackers,
            statistics=statistics,
            leaks=self._splits.certificate(self._leak_limits),
        )

    def _write_extras(self, draft: Manifest) -> None:
        """What is made of the manifest."""
        extras = {
            CARD: render_card(draft).encode(),
            FIGURE: word_figure(draft).encode(),
        }
        if draft.leaks is not None:
            extras[LEAKS] = certificate_text(draft.leaks)
        for path, data in extras.items():
            self._scratch.add_listed(write_file(self._folder, path, data))

    def _write_rows(self, contents: Contents, dataset: str, total: int) -> None:
        with (
            JsonRows(self._folder, f"{dataset}.json", with_tasks=contents.has_tasks) as published,
            ParquetRows(self._folder, with_tasks=contents.has_tasks) as parquet,
        ):
            for done, copied in enumerate(ordered_map(self._copy_image, contents.rows()), 1):
                row = copied.found.row
                published.write(row)
                parquet.write(EmbeddedRow(row, copied.image))
                self._count(copied)
                self._on_progress(done, total)
            for file in (published.finish(), *parquet.finish()):
                self._scratch.add_listed(file)

    def _count(self, copied: _Copied) -> None:
        row, left_out, crop = copied.found
        self._statistics.add(row)
        self._statistics.add_left_out(rejected=left_out["rejected"], pending=left_out["proposed"])
        self._add_entities(row.entity_ids())
        self._scratch.add_listed(
            ReleasedFile(path=row.file_path, sha256=row.sha256, size_bytes=len(copied.image))
        )
        if self._has_splits:
            self._splits.add(row.split, compared_image(row, crop, copied.perceptual_hash))

    def _copy_image(self, found: FoundRow) -> _Copied:
        row = found.row
        image = self._blobs.read(row.sha256, row.media_type)
        write_file(self._folder, row.file_path, image)
        return _Copied(found, image, perceptual_hash(image) if self._has_splits else None)

    def _add_entities(self, entity_ids: list[str]) -> None:
        self._scratch.add_items(entity_ids)
        for entity_id in entity_ids:
            self._entities.update(f"{entity_id}\n".encode())


def _check(name: str, version: str, tier: Tier | None) -> None:
    for value, pattern, what in (
        (name, DATASET_PATTERN, "a dataset's name must be letters, digits, '.', '_' and '-'"),
        (version, VERSION_PATTERN, "a version must be three numbers such as '1.0.0'"),
    ):
        if not re.fullmatch(pattern, value):
            raise UsageError(f"{what}; got {value!r}")
    if tier is not None:
        check_version(tier, version)


def _refuse_leaks(draft: Manifest, splits: SplitImages) -> None:
    """Splits that were given here must not leak; those that sources gave are stated as they are."""
    if draft.videos and draft.leaks is not None and draft.leaks.leaks:
        leaks = "; ".join(leak_sentence(one, splits) for one in draft.leaks.leaks)
        raise IntegrityError(
            f"the splits of {draft.dataset!r} leak, so nothing is released: {leaks}; run the build "
            f"again (loupe run build-ufine6926), which leaves out those images in train"
        )


def _refuse_change(out: Path, content: Path, manifest: Manifest) -> None:
    if digest_of_file(out / MANIFEST) != digest_of_file(content / MANIFEST):
        raise IntegrityError(
            f"{out} holds another release than what {manifest.dataset} {manifest.version} would be "
            f"now ({manifest.id[:12]}); releases never change: choose a new version and folder"
        )
