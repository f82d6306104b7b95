"""From a profile's words to an image search that is recorded; a folder's is put together here."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from db.store import Store
from flows.embedding import CachedEmbedder
from flows.ledger import Budget
from flows.progress import Progress
from flows.search_ledger import Clock, RecordedSearch, utc_now
from models.image_search import ImageSearch
from models.search.folder import FolderImage, FolderImageSearch
from models.search.registry import build_image_search
from retrieval.embedders import build_embedder, pinned
from schemas.embedding import directed
from schemas.errors import BlobMismatchError, ConfigurationError, IntegrityError
from schemas.image_search import FolderSearch, ImageSearchSpec
from schemas.records import Attribution, Rejection
from sources.images import InspectedImage, inspect_image
from sources.licensed_images import LICENSED_IMAGES
from sources.records import BadRow, SourceRow

Refuse = Callable[[Sequence[Rejection]], None]
"""Keeps rejections."""


class FolderListing(NamedTuple):
    """The images of a folder that can be found, and why the others cannot."""

    images: tuple[FolderImage, ...]
    rejections: tuple[Rejection, ...]


class _FileInFolder(NamedTuple):
    """A `ReadableImage`: upright, and without metadata that tells a place."""

    root: Path
    file_path: str
    sha256: str

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.file_path

    def read(self) -> bytes:
        """Its bytes, as `ReadableImage` says."""
        found = inspect_image(self.root, self.file_path)
        if not isinstance(found, InspectedImage):
            raise IntegrityError(found.detail)
        if found.sha256 != self.sha256:
            raise BlobMismatchError(f"the image {self.file_path!r} changed while it was read")
        return found.data


def open_recorded_search(
    store: Store,
    spec: ImageSearchSpec,
    dataset: str,
    budget: Budget | None = None,
    progress: Progress | None = None,
    clock: Clock = utc_now,
    refuse: Refuse = lambda _: None,
) -> RecordedSearch:
    """The search that `spec` describes, recorded in `store` and held to its daily budget.

    Which day it is `clock` says; `refuse` takes what is wrong with images of a folder.

    Raises:
        ConfigurationError: something from the environment is missing, or the folder is.
        FormatError: the folder's licence file is not one.
        ModelError: the embedder of a folder's search cannot be loaded.
    """
    return RecordedSearch(
        open_image_search(store, spec, progress, refuse),
        store,
        dataset,
        spec.daily_budget,
        prices=spec.prices,
        zone=spec.zone,
        budget=budget,
        clock=clock,
    )


def open_image_search(
    store: Store,
    spec: ImageSearchSpec,
    progress: Progress | None = None,
    refuse: Refuse = lambda _: None,
) -> ImageSearch:
    """The search that `spec` describes; the images of a folder are embedded once, and kept.

    `refuse` takes what is wrong with the others.
    """
    if not isinstance(spec, FolderSearch):
        return build_image_search(spec)
    fixed = spec.model_copy(update={"embedder": pinned(directed(spec.embedder, "texts"))})
    listing = list_folder(fixed)
    refuse(listing.rejections)
    if not listing.images:
        raise ConfigurationError(
            f"the folder {spec.folder!r} holds no image that could be found: "
            f"{len(listing.rejections)} of {spec.licence_file!r} were turned down"
        )
    model = cache(lambda: build_embedder(fixed.embedder))
    images = CachedEmbedder(store, fixed.embedder, progress, lambda _: model())
    queries = CachedEmbedder(store, fixed.embedder, build=lambda _: model())  # no progress of each
    root = Path(fixed.folder)
    files = [_FileInFolder(root, image.file_path, image.sha256) for image in listing.images]
    return FolderImageSearch(fixed, listing.images, images.embed_images(files), queries)


def list_folder(spec: FolderSearch) -> FolderListing:
    """Reads the licence file and every image that it names.

    Raises:
        ConfigurationError: there is no such folder.
        FormatError: the licence file cannot be read, or is of another format.
    """
    root = Path(spec.folder)
    if not root.is_dir():
        raise ConfigurationError(f"the folder to be searched must exist; got {spec.folder!r}")
    images: list[FolderImage] = []
    rejections: list[Rejection] = []
    for found in _inspected(root, root / spec.licence_file):
        if isinstance(found, FolderImage):
            images.append(found)
        else:
            rejections.append(found)
    return FolderListing(tuple(images), tuple(rejections))


def _inspected(root: Path, licence_file: Path) -> Iterator[FolderImage | Rejection]:
    for row in LICENSED_IMAGES.rows(licence_file):
        if isinstance(row, BadRow):
            yield row.as_rejection()
            continue
        found = inspect_image(root, row.file_path)
        if isinstance(found, InspectedImage):
            yield FolderImage(
                file_path=row.file_path,
                sha256=found.sha256,
                media_type=found.media_type,
                width_px=found.width_px,
                height_px=found.height_px,
                attribution=_attribution(row),
            )
        else:
            yield found.as_bad_row(row, licence_file.name).as_rejection()


def _attribution(row: SourceRow) -> Attribution:
    if row.attribution is None:  # the importer gives none without
        raise IntegrityError(f"image {row.file_path!r} has no licence")
    return row.attribution
