"""Fingerprints of images, and the overlap of a release with other datasets."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from loupe.db.entities import (
    LIVE,
    StoredEntity,
    WorkResult,
    count_entities,
    fetch_children,
    find,
    new_entity,
    pages,
)
from loupe.db.releases import StoredRelease, find_release
from loupe.db.store import Store, is_there
from loupe.db.work import Pending
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.embedding import stored_image
from loupe.flows.engine.programs import BlobProgram
from loupe.flows.engine.report import Progress, StageReport
from loupe.flows.engine.runner import Stage, run_stage
from loupe.models.profiles.settings import Settings
from loupe.release.build import Inspection
from loupe.release.contamination import (
    Against,
    Look,
    Other,
    OwnImages,
    SeenImage,
    SeenVideo,
    compare,
    contaminated_sentence,
    look_at,
)
from loupe.release.other_datasets import folder_of_images, images_below, is_release, released_images
from loupe.retrieval.similarity.near_duplicates import (
    FINGERPRINTS_STAGE,
    FINGERPRINTS_VERSION,
    NearDuplicates,
    find_near_duplicates,
    fingerprint,
)
from loupe.retrieval.similarity.spectrum import Colours, small_colours
from loupe.schemas.decoders import decode_limited
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.limited import LimitExceededError
from loupe.schemas.processes import ordered_map, usual_workers
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image, Rejection
from loupe.schemas.release import Manifest
from loupe.schemas.similarity import (
    FINGERPRINT,
    AlikePair,
    Contamination,
    ImageFingerprint,
    NearDuplicateSettings,
)
from loupe.schemas.video import Video
from loupe.schemas.wording import many

# Fingerprints of the images of a dataset, each computed once


def fingerprint_images(
    context: RunContext, dataset: str, states: tuple[str, ...] = ("proposed",)
) -> StageReport:
    """Compute the missing fingerprints of all images of a dataset in some states."""
    stage = Stage(
        name=FINGERPRINTS_STAGE,
        version=FINGERPRINTS_VERSION,
        dataset=dataset,
        configuration={"dataset": dataset, "made_by": FINGERPRINT},
        label=f"hash images of {dataset} for near-duplicates",
    )

    pending = Pending(dataset, Image.kind, states)
    return run_stage(context, stage, pending, Fingerprints(context.blobs.url))


class Fingerprints(BlobProgram):
    """A program that computes the fingerprints of images."""

    stage = FINGERPRINTS_STAGE
    seconds = 0.01

    def work(self, items: Sequence[StoredEntity]) -> list[WorkResult]:
        """Return the fingerprint of each image, or a rejection if it cannot be used."""
        return [self._result(image) for image in items]

    def _result(self, image: StoredEntity) -> WorkResult:
        picture = stored_image(self.blobs, image)
        found = fingerprint(picture.read(), picture.name)
        if isinstance(found, Rejection):
            return self.refused(image, found)
        made = new_entity(found, image.dataset, parents=[(Role.LOOKS_LIKE, image.id)])
        return WorkResult(image.seq, entities=(made,))


def fingerprints_of(store: Store, ids: Sequence[str]) -> dict[str, ImageFingerprint]:
    """Return the fingerprints of images by id, in order; images without one are left out."""
    found = fetch_children(store, ids, Role.LOOKS_LIKE)
    return {
        id_: record
        for id_ in ids
        for one in found.get(id_, ())
        if (record := one.record(ImageFingerprint)).made_by == FINGERPRINT
    }


# Near-duplicates among the images of a folder, without a store


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
    return {"method": similarity_name(pair), **({} if pair.exact else measures)}


def find_in_folder(
    folder: Path, settings: NearDuplicateSettings, progress: Progress
) -> FolderDuplicates:
    """Find near-duplicates among the images below `folder`, which are recognized by file suffix.

    Raises:
        UsageError: it is not a folder, or contains no images.
    """
    names = images_below(folder)
    images: dict[str, ImageFingerprint] = {}
    unreadable: list[Rejection] = []
    report = StageReport(FINGERPRINTS_STAGE)
    looks = ordered_map(partial(_looked_at, folder), names, usual_workers())
    with progress.shown(report, len(names)):
        for name, looked in zip(names, looks, strict=True):
            if isinstance(looked, Rejection):
                report.rejected[looked.reason] += 1
                unreadable.append(looked)
            else:
                report.done += 1
                images[name] = looked
            progress.advance(FINGERPRINTS_STAGE, 1)
    found = find_near_duplicates(images, settings, colours_of=partial(_colours_in, folder))
    return FolderDuplicates(folder, found, tuple(unreadable))


def _colours_in(folder: Path, name: str) -> Colours | None:
    try:
        colours: Colours | None = decode_limited(small_colours, (folder / name).read_bytes())
    except (OSError, LimitExceededError):
        return None
    return colours


def _looked_at(folder: Path, name: str) -> ImageFingerprint | Rejection:
    def unusable(reason: str, detail: str) -> Rejection:
        detail = f"image {name!r} cannot be {detail}"
        return Rejection.of(FINGERPRINTS_STAGE, reason, detail, file=name)

    try:
        data = (folder / name).read_bytes()
    except OSError as fault:
        return unusable("unreadable_image", f"read: {fault.strerror}")
    try:
        return decode_limited(fingerprint, data, name)
    except LimitExceededError as fault:
        return unusable(fault.reason, f"decoded: it {fault}")


def stored_images(context: RunContext, dataset: str) -> Other:
    """Return the live images of a dataset in the store, with the facts of their import.

    Existing fingerprints are used; missing ones are computed and stored.
    """
    fingerprint_images(context, dataset)
    store = context.store

    def contents() -> Iterator[SeenImage | SeenVideo]:
        for video in find(store, dataset, Video.kind, states=LIVE):
            record = video.record(Video)
            yield SeenVideo(f"{record.source}/{record.file_path}", record.sha256)
        for page in pages(find(store, dataset, Image.kind, states=LIVE)):
            ids = [image.id for image in page]
            prints, captions = fingerprints_of(store, ids), _captions_of(store, ids)
            for image in page:
                known = prints.get(image.id)
                look = _looked_at_stored(context, image) if known is None else _look_of(known)
                yield _seen(image.record(Image), look, captions.get(image.id, ()))

    return Other(dataset, "dataset", contents)


def _captions_of(store: Store, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    return {
        id_: tuple(
            one.record(Caption).text
            for one in many
            if one.kind == Caption.kind and one.state in LIVE
        )
        for id_, many in fetch_children(store, ids, Role.DESCRIBES).items()
    }


def _seen(image: Image, look: Look, captions: tuple[str, ...]) -> SeenImage:
    return SeenImage(
        name=f"{image.source}/{image.file_path}",
        sha256=image.sha256,
        look=look.perceptual_hash,
        split=image.split,
        identity=(image.source, image.identity),
        captions=captions,
        fault=look.fault,
    )


def _looked_at_stored(context: RunContext, image: StoredEntity) -> Look:
    """Compute the fingerprint of an image that has none: rejected earlier, or unusable."""
    try:
        return look_at(stored_image(context.blobs, image).read())
    except IntegrityError as error:
        return Look("", None, str(error))


def _look_of(fingerprint: ImageFingerprint) -> Look:
    found = fingerprint.perceptual_hash
    return Look(fingerprint.sha256, None if found is None else int(found, 16))


def dataset_called(
    open_run: Callable[[], RunContext], text: str, split: str | None = None
) -> Other:
    """Return the dataset that `text` names; the store is opened only if it is needed.

    That is a folder (`NAME=FOLDER` to name it), a release or an imported dataset. An existing
    folder takes precedence over a release (its newest version), and a release over an imported
    dataset. If `split` is given, only that split of a release is used.

    Raises:
        UsageError: there is no dataset of that name, or no such split.
        IntegrityError: the release was changed after it was built.
    """
    name, folder = _named_folder(text)
    if folder is not None and is_release(folder):
        return released_images(folder, split, name)
    if folder is None and "/" not in text and "=" not in text:
        return _in_store(open_run(), text, split)
    _refuse_split(text, split)
    return folder_of_images(Path(text) if folder is None else folder, name)


def missing_others(
    settings: Settings, names: Iterable[str], coming: Collection[str]
) -> Iterator[str]:
    """Yield a sentence on each name of no dataset, unless it is one of those that are coming."""
    for text in names:
        if text in coming or _named_folder(text)[1] is not None:
            continue
        if "/" in text or "=" in text or not is_there(settings.database_url):
            yield f"{text!r} is neither a folder nor a dataset with images nor a release"
            continue
        with closing(Store.open(settings.database_url)) as store:
            try:
                _release_called(store, text)
            except UsageError as error:
                yield str(error)


def _release_called(store: Store, text: str) -> StoredRelease | None:
    """Return the release of that name; None if it is the name of a dataset with images.

    Raises:
        UsageError: it is the name of neither.
    """
    try:
        return find_release(store, text)
    except UsageError as error:
        if not count_entities(store, text, Image.kind, states=LIVE):
            message = f"{text!r} is neither a folder nor a dataset with images; as a release: "
            raise UsageError(message + str(error)) from error
    return None


def _in_store(context: RunContext, text: str, split: str | None) -> Other:
    release = _release_called(context.store, text)
    if release is None:
        _refuse_split(text, split)
        return stored_images(context, text)

    def known_looks(ids: Sequence[str]) -> dict[str, Look]:
        return {id_: _look_of(one) for id_, one in fingerprints_of(context.store, ids).items()}

    return released_images(release.existing_folder(), split, known=known_looks)


def _refuse_split(text: str, split: str | None) -> None:
    if split is not None:
        raise UsageError(f"{text} is not a release; only releases have splits; got {split!r}")


def _named_folder(text: str) -> tuple[str | None, Path | None]:
    """Return the name and the path if `text` refers to a folder."""
    if (folder := Path(text)).is_dir():
        return None, folder
    name, separator, path = text.partition("=")
    if separator and name.strip() and Path(path).is_dir():
        return name.strip(), Path(path)
    return None, None


def comparison_with(others: Iterable[Other]) -> Against | None:
    """Return an inspection that compares a new release with `others`, or None if there are none."""
    named = tuple(others)

    def against(own: OwnImages) -> tuple[Contamination, ...]:
        return tuple(compare(own, other) for other in named)

    return against if named else None


def contamination_inspection(warn: Callable[[str], None], *, refuse: bool) -> Inspection:
    """Return an inspection that warns of content shared with others, or refuses the release."""

    def inspect(_content: Path, manifest: Manifest) -> None:
        for held in manifest.contamination:
            if held.unreadable:
                files = ", ".join(held.unreadable_files[:3])
                images = many(held.unreadable, "image")
                warn(f"{images} of {held.name} cannot be compared: {files}")
        sentences = [contaminated_sentence(held) for held in manifest.contamination if held.leaks]
        if sentences and refuse:
            raise IntegrityError(
                f"{manifest.name} is contaminated, so nothing is released: {'; '.join(sentences)}"
            )
        for sentence in sentences:
            warn(f"{manifest.name} is contaminated: {sentence}")

    return inspect
