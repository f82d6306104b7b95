"""Builds a release: from what the store holds and people decided, to a folder that never changes.

The same decisions give the same bytes, whatever the database, the order in which things were
stored, and the time: rows are ordered by content, and nothing in the files tells when or where they
were written. Images are read, written and forgotten a few at a time.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection

from db.as_of import PastState, StateMark, current_mark, mark_after
from db.blobs import BlobStore
from db.release_rows import snapshot
from db.releases import adopt_folder, store_release
from db.second_looks import looked_draws
from db.store import Store
from db.withdrawals import dataset_notices
from release.attribution import licence_statistics, refuse_forbidden
from release.checks import UNCHECKED, Checks, WrittenSample
from release.containment import contained, lower_releases
from release.contents import Contents, FoundRow
from release.contrast_counts import ContrastCounter
from release.documents import write_documents
from release.existing import holds, is_there, sign_existing
from release.files import place_file
from release.folder import Workspace, refuse_foreign, workspace_for
from release.json_rows import JsonRows
from release.leaks import (
    DEFAULT_LIMITS,
    SplitImages,
    leak_sentence,
)
from release.licence_terms import (
    DerivedTerms,
    Held,
    held_by_images,
    held_by_sources,
    refuse_unpermitted,
    terms_of,
)
from release.lineage import write_lineage
from release.manifest import named, unnamed, write_manifest
from release.model_use import is_demonstration
from release.notices_released import write_withdrawals
from release.own_images import OwnImages, SeenImage
from release.own_rows import seen_row
from release.parquet_rows import EmbeddedRow, ParquetRows
from release.published_ccd import CcdLines
from release.repeats import Repeats
from release.row_making import compared_image
from release.rows import ReleaseRow
from release.scratch import Credit, Scratch
from release.signing import Signer, write_signature
from release.statistics import StatisticsCounter, is_reviewed
from release.threads import ordered_map
from release.tiers import check_version
from release.why_nothing import why_nothing
from schemas.errors import IntegrityError, UsageError
from schemas.leaks import LeakLimits
from schemas.nearness import perceptual_hash
from schemas.records import Granularity
from schemas.release import (
    DATASET_PATTERN,
    VERSION_PATTERN,
    ContainedRelease,
    ContrastStatistics,
    Manifest,
    ReleasedFile,
    ReleasedSource,
    ReleaseStatistics,
)
from schemas.retrieval_task import Tier
from schemas.second_look import SecondLookStatistics, summarise

Progress = Callable[[int, int], None]
"""Told how many rows are written, and of how many images."""
Inspection = Callable[[Path, Manifest], None]
"""Shown the folder of a release that is complete and not published; raises to refuse it."""


class _Copied(NamedTuple):
    """A row whose image is written; hashed only where the dataset has several splits.

    `seen` is what it is held against other datasets by, where it is held against any.
    """

    found: FoundRow
    image: bytes
    perceptual_hash: int | None
    seen: SeenImage | None


class BuiltRelease(NamedTuple):
    """A release that lies in `folder`; `is_new` is False where it lay there already.

    `unsigned` says why it has no signature by the key that was given, where it has none. `known_in`
    is the folder that the store knows it by: another one, where it lies there too.
    """

    manifest: Manifest
    folder: Path
    is_new: bool
    known_in: Path
    unsigned: str | None = None

    @property
    def elsewhere(self) -> str | None:
        """Where the store knows it, in a sentence; None where that is its folder."""
        if self.known_in.resolve() == self.folder.resolve():
            return None
        return f"the store goes on knowing it in {self.known_in}; commands by name look there"


def build_release(
    store: Store,
    blobs: BlobStore,
    dataset: str,
    version: str,
    out: Path,
    *,
    tier: Tier | None = None,
    leak_limits: LeakLimits = DEFAULT_LIMITS,
    checks: Checks = UNCHECKED,
    as_of: PastState | None = None,
    lower: Sequence[Manifest] | None = None,
    on_progress: Progress = lambda _done, _total: None,
    inspect: Inspection = lambda _folder, _manifest: None,
    signer: Signer | None = None,
    adopt: bool = True,
) -> BuiltRelease:
    """Builds `version` of `dataset` from its live images and accepted captions, at `out`.

    The folder appears as a whole or not at all. Building a version again from the same decisions
    changes nothing. What kind of release it becomes is seen from the dataset: images that were cut
    out of videos are released in UFine6926's format, others in UFine3C's; several splits are
    certified not to leak, up to `leak_limits`. Of a benchmark of tasks `tier` says which version it
    is; one of the same state that was released in a lower tier must be contained (`release.tiers`).
    `checks` come from elsewhere and are part of what is released. With `as_of` it is built from an
    earlier state of the store, and with `lower` it is held against these releases of lower tiers,
    whichever there are. `inspect` may refuse it. With a `signer` it is signed, also where it was
    there already; another signature is left as it is. A release that the store knows by a folder
    which does not hold it any more is known by `out` from now on, unless told not to `adopt` it.

    Raises:
        UsageError: the version is malformed, `out` holds something else, nothing can be released,
            or the dataset has tiers and none is named.
        IntegrityError: the version was released with other content, or lies damaged at `out`, a
            lower tier's release is not contained, or the dataset cannot be released as it is (one
            sentence says why).
    """
    _check(dataset, version, tier)
    out = out.absolute()
    refuse_foreign(out)
    with workspace_for(out) as workspace:
        scratch = Scratch(workspace.scratch_file)
        try:
            build = _Build(store, blobs, workspace, scratch, leak_limits, checks, on_progress)
            if lower is None:
                lower = lower_releases(store, dataset, version, tier)
            manifest, mark = build.run(dataset, version, tier, as_of, lower)
            inspect(workspace.content, manifest)
            signature = signer.sign(manifest.id) if signer else None
            if signature is not None:
                write_signature(workspace.content, signature)
            found = is_there(out, workspace.content, manifest, scratch)

            def publish() -> None:
                nonlocal found
                # A build side by side may have published meanwhile.
                found = found or is_there(out, workspace.content, manifest, scratch)
                if not found:
                    workspace.publish(out)

            store_release(store, manifest, out, scratch.items(), publish, mark)
            unsigned = sign_existing(out, signature) if found and signature else None
            known_in = out
            if adopt:
                known_in = adopt_folder(
                    store, manifest.id, out, partial(holds, release_id=manifest.id)
                )
        finally:
            scratch.close()
    return BuiltRelease(manifest, out, not found, known_in, unsigned)


class _Build:
    """One build: what it reads from, what it writes to."""

    def __init__(
        self,
        store: Store,
        blobs: BlobStore,
        workspace: Workspace,
        scratch: Scratch,
        leak_limits: LeakLimits,
        checks: Checks,
        on_progress: Progress,
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._folder = workspace.content
        self._scratch = scratch
        self._leak_limits = leak_limits
        self._checks = checks
        self._on_progress = on_progress
        self._samples: list[WrittenSample] = []
        self._contrasts = ContrastCounter()
        self._repeats = Repeats(scratch)
        self._splits = SplitImages()
        self._own = OwnImages()
        self._derived = DerivedTerms()
        self._has_splits = False
        self._contains: tuple[ContainedRelease, ...] = ()
        self._statistics = StatisticsCounter()
        self._entities = hashlib.sha256()

    def run(
        self,
        dataset: str,
        version: str,
        tier: Tier | None,
        as_of: PastState | None,
        lower: Sequence[Manifest],
    ) -> tuple[Manifest, StateMark]:
        """Writes everything into the workspace; gives the mark of what it was made from, too."""
        with snapshot(self._store, as_of) as connection:
            mark = mark_after(connection, as_of) if as_of else current_mark(connection)
            contents = Contents(connection, dataset, self._scratch, tier)
            total = contents.arrange()
            self._has_splits = self._scratch.has_several_splits()
            self._write_rows(contents, dataset, total)
            self._contains = contained(connection, lower, self._scratch, f"{dataset} {version}")
            told = dataset_notices(connection, dataset, mark.withdrawal)
            looks = self._checks.second_looks
            if looks is None:
                looks = tuple(map(summarise, looked_draws(connection, dataset)))
            draft = self._with_lineage(
                connection, self._draft(contents, dataset, version, looks, tier, total)
            )
        self._refuse_terms(draft)
        _refuse_leaks(draft, self._splits)
        write_documents(self._folder, draft, contents.form, self._scratch)
        for file in write_withdrawals(self._folder, told):
            self._scratch.add_listed(file)
        manifest = named(draft, self._scratch.listed())
        write_manifest(self._folder, manifest, self._scratch.listed())
        return manifest, mark

    def _draft(
        self,
        contents: Contents,
        dataset: str,
        version: str,
        looks: tuple[SecondLookStatistics, ...],
        tier: Tier | None,
        total: int,
    ) -> Manifest:
        """The manifest, all rows written; refuses where nothing of `total` images is in them."""
        sources, prompts, videos = contents.sources(), contents.prompts(), contents.videos()
        models, trackers = contents.models(), contents.trackers()
        makers = (*trackers, *(editor for editor, _ in contents.editors()))
        self._add_entities([source.entity_id for source in sources])
        self._add_entities([prompt.entity_id for prompt in prompts])
        self._add_entities([video.entity_id for video in videos])
        granularities = {one.name: one.granularity for one in sources}
        if contents.form.contrasts:  # coarse captions stand apart
            granularities = dict.fromkeys(granularities, Granularity.FINE)
        statistics = self._statistics.result(granularities, looks, contents.tracklets())
        statistics = statistics.model_copy(
            update={
                "licences": licence_statistics(self._scratch.credits()),
                "contrasts": self._contrast_statistics(contents),
                "choices": self._checks.choices,
                "agreement": self._checks.agreement,
            }
        )
        if not statistics.captions:
            raise UsageError(why_nothing(dataset, total, statistics))
        held = self._held(sources, statistics)
        return unnamed(
            dataset=dataset,
            version=version,
            tier=tier,
            contains=self._contains,
            demonstration=is_demonstration(models, sources, makers),
            unreviewed=not is_reviewed(statistics),
            entities_sha256=self._entities.hexdigest(),
            sources=sources,
            prompts=prompts,
            models=models,
            videos=videos,
            trackers=trackers,
            statistics=statistics,
            leaks=self._splits.certificate(self._leak_limits),
            contamination=self._checks.held_against(self._own),
            about=self._checks.about,
            terms=terms_of(held, self._checks.permitted_terms),
        )

    def _held(self, sources: Sequence[ReleasedSource], statistics: ReleaseStatistics) -> list[Held]:
        """Under which licences the images are."""
        if statistics.licences:
            return held_by_images(self._scratch.credits())
        return held_by_sources(sources, statistics.sources)

    def _refuse_terms(self, draft: Manifest) -> None:
        """Every image must be under a licence that permits its release."""
        refuse_forbidden(draft.dataset, self._scratch.credits())
        held = self._held(draft.sources, draft.statistics)
        refuse_unpermitted(draft.dataset, held, self._checks.permitted_terms)
        self._derived.refuse(draft.dataset)

    def _with_lineage(self, connection: Connection, draft: Manifest) -> Manifest:
        """Writes what all that stands in the release was derived from; the manifest counts it."""
        scratch_file = self._folder.parent / "lineage.db"
        written = write_lineage(connection, self._scratch.items(), self._folder, scratch_file)
        for file in written.files:
            self._scratch.add_listed(file)
        return draft.model_copy(update={"lineage": written.statistics})

    def _contrast_statistics(self, contents: Contents) -> ContrastStatistics | None:
        if not contents.form.contrasts:
            return None
        measure = self._checks.nearest
        nearest = measure(self._samples) if measure and self._samples else None
        left_out = contents.without_captions, contents.without_anchor, contents.left_out()
        editors, repeats = contents.editors(), self._repeats.result()
        return self._contrasts.result(*left_out, nearest, editors, repeats)

    def _write_rows(self, contents: Contents, dataset: str, total: int) -> None:
        form = contents.form
        with ExitStack() as stack:
            published = stack.enter_context(JsonRows(self._folder, f"{dataset}.json", form))
            parquet = stack.enter_context(ParquetRows(self._folder, form=form))
            lines = stack.enter_context(CcdLines(self._folder)) if form.contrasts else None
            for done, copied in enumerate(ordered_map(self._copy_image, contents.rows()), 1):
                row = copied.found.row
                published.write(row)
                parquet.write(EmbeddedRow(row, copied.image))
                if lines is not None:
                    lines.write(row)
                    self._count_contrast(row)
                if form.terms:
                    self._scratch.add_credit(_credit(row))
                    anchor = (
                        (row.contrast.anchor, row.contrast.way) if row.contrast else (None,) * 2
                    )
                    self._derived.check(row.file_path, row.terms.licence, *anchor)
                self._count(copied)
                self._on_progress(done, total)
            files = [published.finish(), *parquet.finish()]
            for file in (*files, lines.finish()) if lines else files:
                self._scratch.add_listed(file)

    def _count_contrast(self, row: ReleaseRow) -> None:
        captions = [caption.text for caption in row.captions]
        coarse = [caption.text for caption in row.coarse_captions]
        self._contrasts.add(
            row.contrast and (row.contrast.difference, row.contrast.way),
            captions,
            coarse,
            [one.language for one in row.translations],
        )
        self._repeats.add(row.file_path, row.sha256, captions)
        if self._checks.nearest is not None:
            file, is_anchor = self._folder / row.file_path, row.contrast is None
            written = WrittenSample(row.sha256, file, tuple(captions), tuple(coarse), is_anchor)
            self._samples.append(written)

    def _count(self, copied: _Copied) -> None:
        row, left_out, crop = copied.found
        self._statistics.add(row)
        self._statistics.add_left_out(rejected=left_out["rejected"], pending=left_out["proposed"])
        self._add_entities(row.entity_ids())
        self._scratch.add_listed(
            ReleasedFile(
                path=row.file_path,
                sha256=row.sha256,
                size_bytes=len(copied.image),
                entity_id=row.image_entity_id,
            )
        )
        if self._has_splits:
            self._splits.add(row.split, compared_image(row, crop, copied.perceptual_hash))
        if copied.seen is not None:
            self._own.add(copied.seen)

    def _copy_image(self, found: FoundRow) -> _Copied:
        row = found.row
        image = self._blobs.read(row.sha256, row.media_type)
        place_file(self._folder, row.file_path, image)
        hashed = perceptual_hash(image) if self._has_splits else None
        return _Copied(found, image, hashed, seen_row(row, image) if self._checks.against else None)

    def _add_entities(self, entity_ids: list[str]) -> None:
        self._scratch.add_items(entity_ids)
        for entity_id in entity_ids:
            self._entities.update(f"{entity_id}\n".encode())


def _credit(row: ReleaseRow) -> Credit:
    terms = row.terms
    return Credit(
        licence=terms.licence,
        number=row.number,
        file_path=row.file_path,
        creator=terms.creator,
        source_url=terms.source_url,
        source=row.source,
        own=terms.own,
    )


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
