"""Builds a release: an immutable folder made of the store's entities and people's decisions.

The same decisions give the same bytes, independent of the database, the order of storage and the
time. Rows are ordered by content, and the files do not state when or where they were written.
Images are processed a few at a time.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from loupe.db.blobs import BlobStore
from loupe.db.entities import StoredEntity, datasets_of, fetch
from loupe.db.release_rows import (
    CropOrigin,
    EmbedderOrigin,
    embedder_origins,
    released_rows,
    snapshot,
)
from loupe.db.releases import (
    StateMark,
    StoreVersion,
    adopt_folder,
    current_mark,
    list_releases,
    mark_after,
    store_release,
)
from loupe.db.review_audits import audited_draws
from loupe.db.store import Store
from loupe.db.withdrawals import dataset_notices
from loupe.release.card.documents import write_documents
from loupe.release.card.leaks import DEFAULT_LIMITS, find_leaks, leak_sentence
from loupe.release.card.model_use import is_demonstration
from loupe.release.card.statistics import ExternalCounts, ReleaseAccumulator, is_reviewed
from loupe.release.card.terms import refuse_unpermitted, terms_of
from loupe.release.contamination import (
    UNCHECKED,
    Checks,
    OwnImages,
    SeenImage,
    WrittenSample,
    look_at,
    seen_row,
)
from loupe.release.contents import Contents, FoundRow
from loupe.release.format.encoding import MEDIA_TYPE, encode
from loupe.release.format.files import (
    DigestingFile,
    Progress,
    digest_of_file,
    place_file,
    refuse_foreign,
    workspace_for,
)
from loupe.release.format.manifest import MANIFEST, manifest_in, named, unnamed, write_listing
from loupe.release.format.publishable import published_name, published_values
from loupe.release.format.row_checks import BuiltRows
from loupe.release.format.row_files import ParquetRows, built_rows, texts_of
from loupe.release.format.rows import ReleaseRow
from loupe.release.format.scratch import Scratch
from loupe.release.format.signing import Signature, Signer, add_signature, write_signature
from loupe.release.lineage.writing import write_lineage
from loupe.release.verify.files import files_fault
from loupe.release.withdrawn.files import prior_withdrawals, write_withdrawals
from loupe.retrieval.similarity.distances import perceptual_hash
from loupe.schemas.base import DATASET_PATTERN, VERSION_PATTERN, sha256_of
from loupe.schemas.encoding import ImageEncoding
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.processes import ordered_map
from loupe.schemas.quality import AuditStatistics, summarise
from loupe.schemas.records import Caption, Image
from loupe.schemas.release import (
    ContainedRelease,
    EmbedderPurpose,
    EmbedderUse,
    Manifest,
    ModelUse,
    ReleasedFile,
    ReleaseStatistics,
)
from loupe.schemas.retrieval_task import check_version
from loupe.schemas.similarity import LeakLimits
from loupe.schemas.taxonomy import Tier, tiers_within, version_in
from loupe.schemas.wording import many

Inspection = Callable[[Path, Manifest], None]
"""Called with the folder of a complete, unpublished release; raises to reject it."""


def no_inspection(_folder: Path, _manifest: Manifest) -> None:
    """Accept every release."""


class BuiltRelease(NamedTuple):
    """A release in `folder`; `is_new` is False if it existed already.

    `unsigned` says why it has no signature by the given key, if so. `known_in` is the folder known
    to the store, which may be another one with the same release.
    """

    manifest: Manifest
    folder: Path
    is_new: bool
    known_in: Path
    unsigned: str | None = None

    @property
    def elsewhere(self) -> str | None:
        """A sentence saying that it was released before; None if this is its first folder."""
        if self.known_in.resolve() == self.folder.resolve():
            return None
        return (
            f"the same release is already in {self.known_in}; commands by name keep using "
            f"that folder"
        )


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
    as_of: StoreVersion | None = None,
    lower: Sequence[Manifest] | None = None,
    on_progress: Progress = lambda _done, _total: None,
    inspect: Inspection = no_inspection,
    signer: Signer | None = None,
    adopt: bool = True,
) -> BuiltRelease:
    """Build `version` of `dataset` from its active images and accepted captions at `out`.

    The folder appears as a whole or not at all, and building a version again from the same
    decisions changes nothing. The format follows from the dataset: images cut from videos are
    released in UFine6926's format, others in UFine3C's. If there are several splits, the release is
    checked for leaks between them, up to `leak_limits`. For a benchmark of tasks, `tier` selects
    the version; releases of the same state in lower tiers must be contained in it
    (`loupe.schemas.retrieval_task`).

    `checks` are computed elsewhere and become part of the release. With `as_of` the release is
    built from an earlier state of the store, and with `lower` it is compared with these releases of
    lower tiers, regardless of which exist. `inspect` may reject the release. With a `signer` it is
    signed, even if it existed before, but an existing signature by another key is kept. If the
    folder known to the store no longer holds the release, `out` becomes its folder unless `adopt`
    is False.

    Raises:
        UsageError: if the dataset does not exist, the version is malformed, `out` holds something
            else, nothing can be released, or the dataset has tiers and none is named.
        IntegrityError: if the version was released with other content, or is damaged at `out`, a
            lower tier's release is not contained, or the dataset cannot be released as it is.
    """
    _refuse_unknown(store, dataset, version, tier)
    out = out.absolute()
    refuse_foreign(out)
    wanted = _ReleaseSpec(dataset, version, tier, leak_limits, checks)
    with workspace_for(out) as workspace, closing(Scratch(workspace.scratch_file)) as scratch:
        content = workspace.content
        if lower is None:
            lower = _lower_releases(store, dataset, version, tier)
        with snapshot(store, as_of) as connection:
            mark = mark_after(connection, as_of) if as_of else current_mark(connection)
            manifest = _write_release(
                connection, blobs, wanted, content, scratch, mark, lower, on_progress
            )
        inspect(content, manifest)
        signature = signer.sign(manifest.id) if signer else None
        if signature is not None:
            write_signature(content, signature)
        found = _is_there(out, content, manifest, scratch)

        def publish() -> None:
            nonlocal found
            # A concurrent build may have published meanwhile.
            found = found or _is_there(out, content, manifest, scratch)
            if not found:
                workspace.publish(out)

        store_release(store, manifest, out, scratch.items(), mark, publish)
        unsigned = _sign_existing(out, signature) if found and signature is not None else None
        known_in = out
        if adopt:
            holds = partial(_holds, release_id=manifest.id)
            known_in = adopt_folder(store, manifest.id, out, holds)
    return BuiltRelease(manifest, out, not found, known_in, unsigned)


class _ReleaseSpec(NamedTuple):
    """The release to build, its leak limits, and facts about it."""

    dataset: str
    version: str
    tier: Tier | None
    leak_limits: LeakLimits
    checks: Checks


def _is_unreviewed(
    contents: Contents, statistics: ReleaseStatistics, models: Sequence[ModelUse]
) -> bool:
    """Whether nobody reviewed what was made; a dataset of one's own may have made nothing."""
    if is_reviewed(statistics) or contents.has_reviewed_records:
        return False
    made = statistics.descriptions or statistics.rewrites.released or models
    return bool(made) or contents.dataset_form is None


def _write_release(
    connection: Connection,
    blobs: BlobStore,
    wanted: _ReleaseSpec,
    folder: Path,
    scratch: Scratch,
    mark: StateMark,
    lower: Sequence[Manifest],
    on_progress: Progress,
) -> Manifest:
    """Write everything into the folder: rows, lineage, documents, and the manifest."""
    dataset, checks = wanted.dataset, wanted.checks
    contents = Contents(connection, dataset, scratch, wanted.tier, checks.images)
    total = contents.arrange()
    tally = ReleaseAccumulator(scratch, contents.form, has_splits=scratch.has_several_splits())
    compared, samples = write_rows(
        contents,
        dataset,
        blobs,
        folder,
        scratch,
        tally,
        checks,
        lambda done: on_progress(done, total),
    )
    contains = _contained(connection, lower, scratch, f"{dataset} {wanted.version}")
    notices = dataset_notices(connection, dataset, mark.withdrawal)
    sources, prompts = contents.sources(), contents.prompts()
    videos = tally.counted(contents.videos())
    models, trackers, editors = contents.models(), contents.trackers(), contents.editors()
    corrections = [one.correction for one in sources if one.correction]
    others: list[str] = []
    for many_stated in (sources, prompts, videos, corrections):
        others += [one.entity_id for one in many_stated]
    tally.add_entities(others)
    scratch.add_items(others)
    audits = checks.audits
    if audits is None:
        audits = tuple(map(summarise, audited_draws(connection, dataset)))
    statistics = _statistics(wanted, contents, tally, samples, audits)
    if not statistics.captions:
        raise UsageError(_empty_release_reason(dataset, scratch.count_images(), statistics))
    files, lineage = write_lineage(
        connection,
        scratch.items(),
        folder,
        folder.parent / "lineage.db",
        scratch.calls(),
        [column.name for column in contents.form.own],
    )
    scratch.add_all_listed(files)
    held = tally.held(sources, statistics)
    shared = () if checks.against is None or compared is None else checks.against(compared)
    draft = unnamed(
        dataset=dataset,
        version=wanted.version,
        tier=wanted.tier,
        encoding=contents.encoding,
        contains=contains,
        demonstration=is_demonstration(
            models, sources, (*trackers, *(editor for editor, _ in editors))
        ),
        unreviewed=_is_unreviewed(contents, statistics, models),
        entities_sha256=tally.entities_sha256,
        sources=sources,
        prompts=prompts,
        models=models,
        videos=videos,
        trackers=trackers,
        embedders=(
            _embedder_uses(connection, scratch.items())
            if statistics.tasks or statistics.contrasts or contents.dataset_form
            else ()
        ),
        statistics=statistics,
        leaks=find_leaks(tally.splits, wanted.leak_limits) if len(tally.splits) > 1 else None,
        shortcuts=checks.certify(folder),
        contamination=checks.contamination + shared,
        lineage=lineage,
        withdrawn=prior_withdrawals(notices),
        form=contents.dataset_form,
        about=checks.about,
        of_persons=checks.of_persons,
        terms=terms_of(held, checks.permitted_terms),
    )
    counted = {"strata": checks.strata(draft, built_rows(folder))}
    draft = draft.model_copy(update={"statistics": statistics.model_copy(update=counted)})
    refuse_unpermitted(dataset, held, checks.permitted_terms)
    tally.derived.refuse(dataset)
    _refuse_leaks(draft)
    write_documents(folder, draft, scratch)
    scratch.add_all_listed(write_withdrawals(folder, notices))
    manifest = named(draft, scratch.listed())
    write_listing(folder / MANIFEST, manifest, scratch.listed())
    return manifest


def _refuse_unknown(store: Store, dataset: str, version: str, tier: Tier | None) -> None:
    for value, pattern, what in (
        (dataset, DATASET_PATTERN, "a dataset's name must be letters, digits, '.', '_' and '-'"),
        (version, VERSION_PATTERN, "a version must be three numbers such as '1.0.0'"),
    ):
        if not re.fullmatch(pattern, value):
            raise UsageError(f"{what}; got {value!r}")
    if tier is not None:
        check_version(tier, version)
    known = datasets_of(store)
    if dataset not in known:
        details = f"there are: {', '.join(known)}" if known else "nothing was imported or built yet"
        raise UsageError(f"there is no dataset {dataset!r}; {details}")


def _refuse_leaks(draft: Manifest) -> None:
    """Raise if splits assigned here leak; leaks between splits of sources are only stated."""
    if draft.videos and draft.leaks is not None and draft.leaks.leaks:
        leaks = "; ".join(map(leak_sentence, draft.leaks.leaks))
        raise IntegrityError(
            f"the splits of {draft.dataset!r} leak, so nothing is released: {leaks}; run the build "
            f"again (loupe run build-ufine6926), which leaves out those images in train"
        )


def _embedder_uses(connection: Connection, entity_ids: Iterable[str]) -> tuple[EmbedderUse, ...]:
    """The decisions of embedders on these images and captions, by purpose, name and settings."""

    def order(origin: EmbedderOrigin) -> tuple[int, str, str]:
        return get_args(EmbedderPurpose).index(origin.purpose), origin.embedder, origin.settings

    counted = embedder_origins(connection, entity_ids)
    return tuple(
        EmbedderUse(
            embedder=published_name(one.embedder),
            purpose=one.purpose,
            count=counted[one],
            settings=published_values(json.loads(one.settings)),
        )
        for one in sorted(counted, key=order)
    )


def _lower_releases(
    store: Store, dataset: str, version: str, tier: Tier | None
) -> tuple[Manifest, ...]:
    """The releases of lower tiers of the state of `version`, lowest first."""
    if tier is None:
        return ()
    wanted = {(lower, version_in(lower, version)) for lower in tiers_within(tier)[:-1]}
    found = (one.manifest for one in list_releases(store, dataset))
    return tuple(one for one in found if (one.tier, one.version) in wanted)


def _contained(
    connection: Connection, lower: Sequence[Manifest], scratch: Scratch, name: str
) -> tuple[ContainedRelease, ...]:
    """The releases `lower`, after checking that all their rows are among the items of `scratch`.

    Raises:
        IntegrityError: if a part of them is missing in the release called `name`.
    """
    stated, held = [], set(scratch.items() if lower else ())
    for one in lower:
        if missing := sorted(set(released_rows(connection, one.id)) - held):
            found = fetch(connection, missing).values()
            images = sum(entity.kind == Image.kind for entity in found)
            raise IntegrityError(
                f"{name} must contain {one.dataset} {one.version}, but {images:,} images and "
                f"{len(missing) - images:,} captions are missing: first {min(map(_named, found))}; "
                f"accept the items rejected since, or release tier {one.tier} again"
            )
        assert one.tier is not None  # noqa: S101 - `_lower_releases` has seen to it
        counted = one.statistics
        stated.append(
            ContainedRelease(
                tier=one.tier,
                version=one.version,
                id=one.id,
                images=counted.images,
                captions=counted.captions,
            )
        )
    return tuple(stated)


def _named(entity: StoredEntity) -> str:
    if entity.kind == Image.kind:
        image = entity.record(Image)
        return f"image {image.file_path!r} of {image.source} (entity {entity.id})"
    if entity.kind == Caption.kind:
        return f"the caption {entity.record(Caption).text!r} (entity {entity.id})"
    return f"{entity.kind} {entity.id}"


def _is_there(out: Path, content: Path, manifest: Manifest, scratch: Scratch) -> bool:
    """Whether the release in `content` is at `out` already, with every file equal.

    `scratch` has the files of the manifest; every file at `out` is read. May be called once for a
    scratch.

    Raises:
        IntegrityError: if `out` is another release, or a file of this one is damaged, missing or
            extra.
    """
    if not (out / MANIFEST).exists():
        return False
    if digest_of_file(out / MANIFEST) != digest_of_file(content / MANIFEST):
        raise IntegrityError(
            f"{out} holds another release than the one that {manifest.name} would be now "
            f"({manifest.id[:12]}); releases never change: give the build another version"
        )
    if fault := files_fault(out, scratch):
        raise IntegrityError(
            f"{out} is {manifest.name}, but {fault}; nothing was written: "
            f"move that folder away and build again"
        )
    return True


def _sign_existing(folder: Path, signature: Signature) -> str | None:
    """Sign a release that exists already; returns the reason if it cannot be signed, or None."""
    try:
        add_signature(folder, signature)
    except UsageError as error:
        return f"the release was not signed with the key of this installation: {error}"
    return None


def _holds(folder: Path, release_id: str) -> bool:
    """Whether `folder` holds the manifest of this release."""
    found = manifest_in(folder)
    return found is not None and found.id == release_id


_FIRST_TIER = {
    "confusions": "v1",
    "judge_confusions": "v1",
    "confuse_caption": "v1",
    "duplicates": "v2",
}
"""The first tier in which a gate or stage is part of a release; v0 for all others."""


def _statistics(
    wanted: _ReleaseSpec,
    contents: Contents,
    tally: ReleaseAccumulator,
    samples: Sequence[WrittenSample],
    audits: tuple[AuditStatistics, ...],
) -> ReleaseStatistics:
    checks = wanted.checks

    def has_part(name: str) -> bool:
        return wanted.tier is None or wanted.tier >= _FIRST_TIER.get(name, "v0")

    nearest = checks.nearest(samples) if checks.nearest and samples else None
    if nearest is not None:
        nearest = nearest.model_copy(update={"embedder": published_name(nearest.embedder)})
    elsewhere = ExternalCounts(
        contents.without_captions,
        contents.without_anchor,
        contents.left_out(),
        nearest,
        contents.editors(),
    )
    return tally.result(
        contents.sources(),
        elsewhere,
        audits=audits,
        tracklets=contents.tracklets(),
        choices=checks.choices,
        errors=tuple(one for one in checks.errors() if has_part(one.queue.rpartition("-")[2])),
        agreement=checks.agreement,
        judges=checks.judges(wanted.tier),
        unused=tuple(one for one in checks.unused if has_part(one.stage)),
        gates=tuple(one for one in checks.gates() if has_part(one.gate)),
        originals=checks.originals(),
        quotas=checks.quotas(wanted.tier),
        text_checks=checks.text_checks,
        test_share=checks.test_share,
    )


def _empty_release_reason(dataset: str, images: int, statistics: ReleaseStatistics) -> str:
    """Explain why none of the images of a dataset may be released.

    `statistics` are those of the empty release.
    """
    reasons = [f"it has {many(images, 'image')}, none of them with a caption"]
    rewrites, contrasts = statistics.rewrites, statistics.contrasts
    if rewrites.pending:
        reasons.append(f"{many(rewrites.pending, 'text')} not decided on yet")
    if rewrites.rejected:
        reasons.append(f"{many(rewrites.rejected, 'text')} rejected")
    if contrasts is not None and (left_out := contrasts.left_out) is not None:
        details = (
            (left_out.alone, "anchor", "without an image that differs from it"),
            (left_out.rejected, "group", "with rejected captions"),
            (left_out.undecided, "group", "whose captions are not written or not decided on"),
        )
        reasons += [f"{many(count, what)} {why}" for count, what, why in details if count]
    return f"nothing of {dataset!r} can be released: {'; '.join(reasons)}"


class _WrittenRow(NamedTuple):
    """A row as it is stored and as it is released, with its image."""

    found: FoundRow
    released: ReleaseRow
    image: bytes
    perceptual_hash: int | None
    seen: SeenImage | None


def _encoded(
    found: FoundRow, image: bytes, encoding: ImageEncoding | None
) -> tuple[ReleaseRow, bytes]:
    """The row and the image as they are released: as stored, or encoded."""
    row = found.row
    if encoding is None:
        return row, image
    made = encode(image, encoding, found.size, was_edited=found.was_edited)
    released = row._replace(
        sha256=sha256_of(made.data),
        stored_sha256=row.sha256,
        media_type=MEDIA_TYPE,
        width_px=made.width_px,
        height_px=made.height_px,
    )
    return released, made.data


def write_rows(
    contents: Contents,
    dataset: str,
    blobs: BlobStore,
    folder: Path,
    scratch: Scratch,
    tally: ReleaseAccumulator,
    checks: Checks,
    on_row: Callable[[int], None],
) -> tuple[OwnImages | None, list[WrittenSample]]:
    """Write all rows into the folder of a release, count them and list the files in `scratch`.

    Images are read from `blobs`; `on_row` is called with the number of finished rows.

    Returns:
        The images to compare with other datasets, and the samples to measure, if any.
    """
    form, samples = contents.form, list[WrittenSample]()
    rows = BuiltRows(has_groups=form.contrasts, tier=contents.tier, neutral=form.encoded)
    own = None if checks.against is None else OwnImages()

    def copied(found: FoundRow) -> _WrittenRow:
        """Write the image of a row, and hash the stored one as far as it is compared."""
        row = found.row
        image = blobs.read(row.sha256, row.media_type)
        hashed = perceptual_hash(image) if tally.has_splits else None
        seen = None if own is None else seen_row(row, look_at(image).perceptual_hash)
        released, image = _encoded(found, image, contents.encoding)
        place_file(folder, released.file_path, image)
        return _WrittenRow(found, released, image, hashed, seen)

    with ExitStack() as stack:
        texts = texts_of(dataset, form)
        files = {name: DigestingFile(folder / name) for name in texts}
        for file in files.values():
            stack.callback(file.close)
        parquet = stack.enter_context(ParquetRows(folder, form))
        for done, one in enumerate(ordered_map(copied, contents.rows()), 1):
            found, released, image, hashed, seen = one
            row, crop = found.row, found.crop
            columns = released.columns(form)
            rows.check(released, columns)
            parquet.write(columns, image)
            for name, text in texts.items():
                files[name].write(text.row(columns, is_first=done == 1))
            embedding = _embedding_of(crop) if tally.has_splits else None
            tally.add(row, hashed, embedding, crop.embedder if crop else "")
            tally.statistics.rewrites.update(found.rewrites)
            scratch.add_items(row.entity_ids())
            scratch.add_listed(
                ReleasedFile(row.file_path, released.sha256, len(image), row.image_entity_id)
            )
            if own is not None and seen is not None:
                own.add(seen)
            if checks.nearest is not None and form.contrasts:
                samples.append(_sample(released, folder))
            on_row(done)
        scratch.add_all_listed(parquet.finish())
        for name, text in texts.items():
            files[name].write(text.ending)
            files[name].close()
            scratch.add_listed(files[name].as_released(name))
    return own, samples


def _sample(row: ReleaseRow, folder: Path) -> WrittenSample:
    return WrittenSample(
        row.sha256,
        folder / row.file_path,
        captions=tuple(one.text for one in row.captions),
        coarse=tuple(one.text for one in row.coarse_captions),
        contrast=row.contrast,
    )


def _embedding_of(crop: CropOrigin | None) -> NDArray[np.float16] | None:
    """The embedding of a crop, if it has one."""
    if crop is None or crop.embedding is None:
        return None
    return np.frombuffer(base64.b64decode(crop.embedding), "<f2")
