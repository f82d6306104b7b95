"""Find the datasets that a release is compared with, and the content they share."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from db.entities import LIVE, StoredEntity, children_of, count_entities, fetch, find, pages
from db.releases import find_release
from flows.engine.context import RunContext
from flows.engine.fingerprints import fingerprint_images, fingerprints_of
from flows.engine.image_reading import stored_image
from release.build import Inspection
from release.checks import Against
from release.contamination import (
    Look,
    Other,
    OwnImages,
    SeenImage,
    SeenVideo,
    compare,
    contaminated_sentence,
    look_at,
)
from release.other_datasets import FolderOfImages, ReleasedImages, is_release
from schemas.contamination import Contamination, OtherKind
from schemas.errors import IntegrityError, UsageError
from schemas.near_duplicates import ImageFingerprint
from schemas.provenance import Role
from schemas.records import Caption, Image
from schemas.release import Manifest
from schemas.video import Video


class StoredImages:
    """The live images of a dataset in the store, with the facts of their import.

    Existing fingerprints are used; missing ones are computed and stored.
    """

    kind: OtherKind = "dataset"
    release_id: str | None = None

    def __init__(self, context: RunContext, dataset: str) -> None:
        self.name = dataset
        self._context = context
        fingerprint_images(context, dataset)

    def contents(self) -> Iterator[SeenImage | SeenVideo]:
        """Yield every image and every video, as described in `release.contamination.Other`."""
        store = self._context.store
        for video in find(store, self.name, Video.kind, states=LIVE):
            record = video.record(Video)
            yield SeenVideo(f"{record.source}/{record.file_path}", record.sha256)
        for page in pages(find(store, self.name, Image.kind, states=LIVE)):
            ids = [image.id for image in page]
            prints, captions = fingerprints_of(store, ids), self._captions(ids)
            for image in page:
                yield self._seen(image, prints.get(image.id), captions.get(image.id, ()))

    def _captions(self, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        said = children_of(self._context.store, ids, Role.DESCRIBES)
        found = fetch(self._context.store, {one for many in said.values() for one in many})
        texts = {
            id_: one.record(Caption).text
            for id_, one in found.items()
            if one.kind == Caption.kind and one.state in LIVE
        }
        return {
            id_: tuple(texts[one] for one in many if one in texts) for id_, many in said.items()
        }

    def _seen(
        self, image: StoredEntity, known: ImageFingerprint | None, captions: tuple[str, ...]
    ) -> SeenImage:
        record = image.record(Image)
        look = _look_of(known) if known is not None else self._looked_at(image)
        return SeenImage(
            name=f"{record.source}/{record.file_path}",
            sha256=record.sha256,
            look=look.perceptual_hash,
            split=record.split,
            identity=(record.source, record.identity),
            captions=captions,
            fault=look.fault,
        )

    def _looked_at(self, image: StoredEntity) -> Look:
        """Compute the fingerprint of an image that has none: rejected earlier, or unusable."""
        try:
            return look_at(stored_image(self._context.blobs, image).read())
        except IntegrityError as error:
            return Look("", None, str(error))


def _look_of(fingerprint: ImageFingerprint) -> Look:
    found = fingerprint.perceptual_hash
    return Look(fingerprint.sha256, None if found is None else int(found, 16))


class NamedDatasets:
    """Find datasets by name; the store is opened on first use.

    Use it as a context manager to close the store.
    """

    def __init__(self, open_store: Callable[[], RunContext]) -> None:
        self._open_store = open_store
        self._context: RunContext | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._context is not None:
            self._context.store.close()

    def called(self, text: str, split: str | None = None) -> Other:
        """Return the dataset that `text` names.

        That is a folder (`NAME=FOLDER` to name it), a release or an imported dataset. An existing
        folder takes precedence over a release (its newest version), and a release over an imported
        dataset. If `split` is given, only that split of a release is used.

        Raises:
            UsageError: there is no dataset of that name, or no such split.
            IntegrityError: the release was changed after it was built.
        """
        name, folder = _named_folder(text)
        if folder is not None and is_release(folder):
            return ReleasedImages(folder, split, name)
        if folder is None and "/" not in text and "=" not in text:
            return self._in_store(text, split)
        _refuse_split(text, split)
        return FolderOfImages(Path(text) if folder is None else folder, name)

    def _in_store(self, text: str, split: str | None) -> Other:
        if self._context is None:
            self._context = self._open_store()
        context = self._context
        try:
            release = find_release(context.store, text)
        except UsageError as error:
            if not count_entities(context.store, text, Image.kind, states=LIVE):
                message = f"{text!r} is neither a folder nor a dataset with images; as a release: "
                raise UsageError(message + str(error)) from error
            _refuse_split(text, split)
            return StoredImages(context, text)
        if not is_release(release.folder):
            known = f"{release.manifest.dataset} {release.manifest.version}"
            raise UsageError(f"{known} was built in {release.folder}, which is gone; name a copy")
        return ReleasedImages(release.folder, split, known=self._known_looks)

    def _known_looks(self, ids: Sequence[str]) -> Mapping[str, Look]:
        """Return fingerprints by entity id; images without one are left out."""
        assert self._context is not None  # noqa: S101 - the release was found in its store
        prints = fingerprints_of(self._context.store, ids)
        return {id_: _look_of(one) for id_, one in prints.items()}


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


def own_images(other: Other) -> OwnImages:
    """Return the images of the dataset that is compared with others."""
    return OwnImages(one for one in other.contents() if isinstance(one, SeenImage))


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
                what = "image" if held.unreadable == 1 else "images"
                warn(f"{held.unreadable:,} {what} of {held.name} cannot be compared: {files}")
        sentences = [contaminated_sentence(held) for held in manifest.contamination if held.leaks]
        if sentences and refuse:
            raise IntegrityError(
                f"{manifest.dataset} {manifest.version} is contaminated, so nothing is released: "
                f"{'; '.join(sentences)}"
            )
        for sentence in sentences:
            warn(f"{manifest.dataset} {manifest.version} is contaminated: {sentence}")

    return inspect
