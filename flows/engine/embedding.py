"""Read images from the store, build embedders, and embed images and texts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import loupe.models.registry
from loupe.db.blobs import BlobStore
from loupe.db.embeddings import Kind, find_vectors, space_of, store_vectors
from loupe.db.entities import StoredEntity, pages
from loupe.db.store import Store
from loupe.flows.engine.cluster_models import Lost, ModelWork, in_actors
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.report import Progress, StageReport
from loupe.models.embedding import ImageTextEmbedder, Vectors
from loupe.models.profiles.settings import Settings
from loupe.models.weights import checkpoint_digest
from loupe.retrieval.embeddings import check_same_space, read_array, unit_rows
from loupe.schemas.base import sha256_of
from loupe.schemas.chat import ModelRef
from loupe.schemas.decoders import as_rgb
from loupe.schemas.embedding import (
    CfamEmbedder,
    EmbedderSpec,
    EmbeddingModelSpec,
    PrecomputedEmbedder,
    TransformersEmbedder,
)
from loupe.schemas.errors import (
    BadRowError,
    BlobMismatchError,
    FormatError,
    IntegrityError,
    ServiceError,
)
from loupe.schemas.extras import needs_extra
from loupe.schemas.faces import Faces
from loupe.schemas.grouping import grouped
from loupe.schemas.processes import ordered_map
from loupe.schemas.records import Image as ImageRecord
from loupe.schemas.records import Picture
from loupe.sources.decoding import ImageRefusedError, decoded
from loupe.sources.faces import treat_faces
from loupe.sources.images import ImageLimits

_IMAGES_AT_ONCE = 256
_PIXELS_AT_ONCE = 50_000_000  # 150 MB decoded: many crops of people, or four photographs
_THREADS = 4
_IMAGES_SENT, _BYTES_SENT, _TEXTS_SENT = 64, 1 << 24, 256  # to an actor at once


class ReadableImage(NamedTuple):
    """An image at some location.

    Attributes:
        sha256: the expected SHA-256 of the file, in hexadecimal.
        name: the name shown in messages.
        read: returns the bytes after verifying their digest; raises BlobMismatchError if the digest
            does not match, IntegrityError if the file is missing.
    """

    sha256: str
    name: str
    read: Callable[[], bytes]


def image_file(sha256: str, path: Path) -> ReadableImage:
    """Return an image on disk."""

    def read() -> bytes:
        try:
            data = path.read_bytes()
        except OSError as error:
            reason = error.strerror or error
            raise IntegrityError(f"the image {str(path)!r} cannot be read: {reason}") from error
        if (found := sha256_of(data)) != sha256:
            raise BlobMismatchError(
                f"the image {str(path)!r} must have the SHA-256 {sha256}; got {found}"
            )
        return data

    return ReadableImage(sha256, str(path), read)


def stored_image(blobs: BlobStore, image: StoredEntity) -> ReadableImage:
    """Return the pixels of an image entity, in the blob store."""
    record = image.record(ImageRecord)
    read = partial(blobs.read, record.sha256, record.media_type)
    return ReadableImage(record.sha256, f"{record.source}/{record.file_path}", read)


def stored_picture(context: RunContext, picture: Picture) -> ReadableImage:
    """Return the image that a record refers to, in the blob store."""
    read = partial(context.blobs.read, picture.sha256, picture.media_type)
    return ReadableImage(picture.sha256, f"picture {picture.sha256[:12]}", read)


def picture_of(image: StoredEntity) -> Picture:
    """Return an image for a record that contains all that people are shown."""
    values = image.record(ImageRecord).model_dump(include=set(Picture.model_fields))
    return Picture(image_id=image.id, **values)


def put_picture(
    blobs: BlobStore,
    data: bytes,
    media_type: str,
    size: tuple[int, int],
    faces: Faces = "keep",
) -> Picture:
    """Store an encoded image of `size` (width, height), after what is to be done to its faces."""
    treated = treat_faces(faces, data)
    sha256 = blobs.put(treated.data, media_type)
    width_px, height_px = size
    return Picture(
        sha256=sha256,
        media_type=media_type,
        width_px=width_px,
        height_px=height_px,
        faces=treated.faces,
    )


def read_ahead(
    files: Sequence[ReadableImage],
) -> Iterator[tuple[list[ReadableImage], list[Image.Image]]]:
    """Yield `files` with their decoded RGB images, in order, in batches of bounded memory.

    Raises:
        BlobMismatchError: the content of a file does not match its digest.
        IntegrityError: a file is missing, or cannot be decoded as an image.
    """
    batch: list[ReadableImage] = []
    pictures: list[Image.Image] = []
    pixels = 0
    for file, picture in zip(files, ordered_map(read_image, files, _THREADS), strict=True):
        batch.append(file)
        pictures.append(picture)
        pixels += picture.width * picture.height
        if len(batch) == _IMAGES_AT_ONCE or pixels >= _PIXELS_AT_ONCE:
            yield batch, pictures
            batch, pictures, pixels = [], [], 0
    if batch:
        yield batch, pictures


def read_image(file: ReadableImage) -> Image.Image:
    """Return the image in a file, in RGB; the format is detected from the content.

    Raises:
        BlobMismatchError: the content of the file does not match its digest.
        IntegrityError: the file is missing, or cannot be decoded as an image.
    """
    try:
        picture = decoded(file.read(), ImageLimits().max_pixels)
        return as_rgb(picture)
    except ImageRefusedError as refusal:
        raise IntegrityError(f"the image {file.name!r} {refusal.what}") from refusal


# Embedders of a profile, CFAM included.

SpecT = TypeVar("SpecT", bound=EmbedderSpec)
_WEIGHTS = "model.safetensors"
CHECKPOINT_FILES = (_WEIGHTS, "settings.json")
"""What the folder of a CFAM checkpoint holds."""


def build_embedder(spec: EmbeddingModelSpec) -> ImageTextEmbedder:
    """The embedder that `spec` describes, loaded; only its own libraries are imported.

    Raises:
        MissingExtraError: the extra that the provider needs is not installed.
        ModelError: the model could not be loaded.
    """
    if not isinstance(spec, CfamEmbedder):
        return loupe.models.registry.build_embedder(spec)
    with needs_extra(f"the embedder {spec.name!r}"):
        from loupe.retrieval.cfam.network.checkpoints import CfamImageTextEmbedder
    return CfamImageTextEmbedder(spec)


def pinned(spec: SpecT) -> SpecT:
    """Return `spec` with digests of its weights or vectors: see `loupe.models.registry.pinned`.

    Raises:
        MissingExtraError: only a library that is not installed can tell.
        ModelError: files cannot be read, or there is no such model.
        FormatError: a file of vectors is missing, or has another digest than is asked for.
    """
    found: Any
    match spec:
        case CfamEmbedder():
            digest = spec.checkpoint_sha256 or checkpoint_digest(spec.checkpoint / _WEIGHTS)
            found = spec.model_copy(update={"checkpoint_sha256": digest})
        case PrecomputedEmbedder():
            digests = {
                "images_sha256": _held(spec.images, spec.images_sha256),
                "texts_sha256": _held(spec.texts, spec.texts_sha256),
            }
            found = spec.model_copy(update=digests)
        case _:
            found = loupe.models.registry.pinned(spec)
    return cast("SpecT", found)


def of_texts(spec: SpecT) -> SpecT:
    """The specification for texts: they have one vector, also where an image has several."""
    if isinstance(spec, TransformersEmbedder) and spec.scoring == "maximum":
        return spec.model_copy(update={"scoring": "mean"})
    return spec


def _held(path: Path, wanted: str | None) -> str:
    """The digest of a file of vectors, compared with the expected one."""
    if not path.is_file():
        raise FormatError(f"{path} is not a file; expected a .npy file")
    found = checkpoint_digest(path)
    if wanted not in (None, found):
        raise FormatError(f"{path} has the SHA-256 {found}; wanted {wanted}")
    return found


def read_vectors(
    spec: PrecomputedEmbedder, images: Sequence[str], texts: Sequence[str]
) -> tuple[Vectors, Vectors]:
    """The vectors of a release with these images and texts, as rows of unit length.

    Args:
        spec: the files.
        images: a name for each image, in the order of the release, for messages.
        texts: the same for each text.

    Returns:
        One row for each image, and one for each text, in the order of the release.

    Raises:
        FormatError: a file is missing or no `.npy` of floats, has another number of rows, holds
            NaN or a zero row, or images and texts have vectors of different lengths.
    """
    of_images = _read_rows(spec.images, images, "images")
    of_texts = _read_rows(spec.texts, texts, "texts")
    check_same_space(of_texts, of_images, (str(spec.texts), str(spec.images)))
    return of_images, of_texts


def _read_rows(path: Path, wanted: Sequence[str], what: str) -> Vectors:
    array = read_array(path)
    if array.ndim != 2 or len(array) != len(wanted):
        raise FormatError(
            f"{path} must have a row for each of the {len(wanted):,} {what} of the release; "
            f"its shape is {array.shape}"
        )
    try:
        return unit_rows(array, str(path))
    except BadRowError as error:
        raise FormatError(f"{error}; the first such row is that of {wanted[error.row]}") from error


_LOOKED_UP_AT_ONCE = 1000
_TEXTS_AT_ONCE = 1024

_Input = TypeVar("_Input")
_Batches = Iterator[tuple[Sequence[str], Vectors]]
"""Batches of digests and their vectors."""


class ImageContent(NamedTuple):
    """An image as it is sent to an actor, which needs no access to where it is stored."""

    sha256: str
    name: str
    data: bytes


def _vectors(
    model: ImageTextEmbedder, items: Sequence[ImageContent | str]
) -> list[NDArray[np.float32]]:
    """Return the vector of each item, of shape (d,); all are images, or all are texts."""
    pictures: list[Image.Image] = []
    texts: list[str] = []
    for one in items:
        if isinstance(one, str):
            texts.append(one)
        else:
            file = ReadableImage(one.sha256, one.name, partial(bytes, one.data))
            pictures.append(read_image(file))
    if texts:
        return list(model.embed_texts(texts))
    return list(model.embed_images(pictures)) if pictures else []


_Sent = tuple[Sequence[str], Sequence[ImageContent | str]]
"""The digests of a batch for an actor, and its items."""


def _sent_images(files: Mapping[str, ReadableImage]) -> Iterator[_Sent]:
    """Read files into batches of bounded size."""
    batch: list[ImageContent] = []
    size = 0
    for file in files.values():
        batch.append(ImageContent(file.sha256, file.name, file.read()))
        size += len(batch[-1].data)
        if len(batch) == _IMAGES_SENT or size >= _BYTES_SENT:
            yield [one.sha256 for one in batch], batch
            batch, size = [], 0
    if batch:
        yield [one.sha256 for one in batch], batch


def _sent_texts(texts: Mapping[str, str]) -> Iterator[_Sent]:
    for digests in pages(list(texts), _TEXTS_SENT):
        yield digests, [texts[digest] for digest in digests]


@dataclass(eq=False)
class CachedEmbedder:
    """A model with a cache of its vectors in the store.

    The model is loaded when the first vector is missing. Vectors are stored after each batch, so an
    interrupted run continues there. Pass a specification that is `pinned`, so that
    vectors of other weights with the same name are not reused.

    With the engine "ray" in `settings`, actors compute the vectors, and the model is not loaded
    in this process.
    """

    store: Store
    spec: EmbeddingModelSpec
    progress: Progress = field(default_factory=Progress)
    build: Callable[[EmbeddingModelSpec], ImageTextEmbedder] = build_embedder
    settings: Settings | None = None
    _dimension: int | None = field(default=None, init=False)

    @property
    def ref(self) -> ModelRef:
        """The model."""
        return self.spec.ref

    def space(self, kind: Kind) -> str:
        """Return the name under which the store has the model's vectors of images, or of texts."""
        parameters = {"provider": self.spec.provider, **self.spec.parameters}
        return space_of(self.spec.ref, parameters, kind)

    def embed_images(self, files: Sequence[ReadableImage]) -> Vectors:
        """Return one row for each of `files`, in order, of shape (n, d).

        Files with equal digests are read once.

        Raises:
            BlobMismatchError: the content of a file does not match its digest.
            IntegrityError: a file is missing, or cannot be decoded as an image.
            ModelError: the model cannot be loaded, or fails.
        """
        inputs = [(file.sha256, file) for file in files]
        return self._embed("image", inputs, self._embed_files)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """Return one row for each of `texts`, in order, of shape (n, d).

        Equal texts are embedded once.

        Raises:
            ModelError: the model cannot be loaded, or fails.
        """
        inputs = [(sha256_of(text.encode("utf-8", "surrogatepass")), text) for text in texts]
        return self._embed("text", inputs, self._embed_strings)

    def _embed(
        self,
        kind: Kind,
        inputs: Sequence[tuple[str, _Input]],
        embed: Callable[[Mapping[str, _Input]], _Batches],
    ) -> Vectors:
        """Return one row for each (digest, input); `embed` computes those that are not cached."""
        space = self.space(kind)
        places = grouped((digest, place) for place, (digest, _) in enumerate(inputs))
        rows: Vectors | None = None
        missing = dict(inputs)
        report = StageReport(f"embed {kind}s ({self.spec.name.rsplit('/', 1)[-1]})")
        for page in pages(list(missing), _LOOKED_UP_AT_ONCE):
            for digest, vector in find_vectors(self.store, space, page).items():
                dimension = self._checked_dimension(len(vector))
                if rows is None:
                    rows = np.empty((len(inputs), dimension), np.float32)
                rows[places[digest]] = vector
                del missing[digest]
                report.already_done += 1
        # steps ask for the same vectors again and again, which is not worth a line
        with self.progress.shown(report, len(missing)) if missing else nullcontext():
            for digests, vectors in embed(missing):
                dimension = self._checked_dimension(vectors.shape[1])
                if rows is None:
                    rows = np.empty((len(inputs), dimension), np.float32)
                store_vectors(self.store, space, digests, vectors)
                for digest, vector in zip(digests, vectors, strict=True):
                    rows[places[digest]] = vector
                report.done += len(digests)
                self.progress.advance(report.stage, len(digests))
        if rows is None:
            return np.empty((0, self._dimension or self._model.dimension), np.float32)
        return rows

    def _embed_files(self, missing: Mapping[str, ReadableImage]) -> _Batches:
        if self._is_on_ray:
            yield from self._embed_on_ray(_sent_images(missing))
            return
        for files, pictures in read_ahead(list(missing.values())):
            yield [file.sha256 for file in files], self._model.embed_images(pictures)

    def _embed_strings(self, missing: Mapping[str, str]) -> _Batches:
        if self._is_on_ray:
            yield from self._embed_on_ray(_sent_texts(missing))
            return
        for digests in pages(missing, _TEXTS_AT_ONCE):
            yield digests, self._model.embed_texts([missing[digest] for digest in digests])

    @property
    def _is_on_ray(self) -> bool:
        return self.settings is not None and self.settings.engine == "ray"

    def _embed_on_ray(self, batches: Iterator[_Sent]) -> _Batches:
        assert self.settings is not None  # noqa: S101 - it is on Ray
        work = ModelWork("embed", self.spec, build_embedder, _vectors)
        for digests, found in in_actors(self.settings, work, batches):
            if isinstance(found, Lost):
                raise ServiceError(f"{self.ref} cannot embed: a batch of {len(digests)} {found}")
            yield digests, np.stack(found)

    @cached_property
    def _model(self) -> ImageTextEmbedder:
        return self.build(self.spec)

    def _checked_dimension(self, dimension: int) -> int:
        """Return the dimension of vectors, after checking that it is that of all others.

        Raises:
            IntegrityError: another model has taken the name.
        """
        if self._dimension not in (None, dimension):
            raise IntegrityError(
                f"cached vectors of {self.ref} have {self._dimension} numbers, those it gives now "
                f"have {dimension}; another model has taken its name: give it another revision"
            )
        self._dimension = dimension
        return dimension
