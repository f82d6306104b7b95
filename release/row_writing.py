"""Writes the rows of a release."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from db.blobs import BlobStore
from release.accumulator import ReleaseAccumulator
from release.checks import WrittenSample
from release.contamination import OwnImages, SeenImage, look_at
from release.contents import Contents, FoundRow
from release.files import place_file
from release.json_rows import CCD_FORM, CCD_LINES, CCD_TEXT, PUBLISHED_TEXT, RowsFile
from release.parquet_rows import EmbeddedRow, ParquetRows
from release.row_making import embedding_of
from release.rows import ReleaseRow
from release.scratch import Scratch
from release.threads import ordered_map
from retrieval.similarity.distances import perceptual_hash
from schemas.release import ReleasedFile


class _CopiedRow(NamedTuple):
    """A row whose image is written.

    `perceptual_hash` is known only where the dataset has several splits; `seen` is what it is
    compared with other datasets by, if it is.
    """

    found: FoundRow
    image: bytes
    perceptual_hash: int | None
    seen: SeenImage | None


class RowWriter:
    """Writes rows into the folder of a release and counts them; images are read from `blobs`.

    Attributes:
        own: the images, where they are compared with other datasets (`is_compared`).
        samples: the images of a contrastive benchmark, where it is measured (`is_measured`).
    """

    def __init__(
        self,
        blobs: BlobStore,
        folder: Path,
        scratch: Scratch,
        tally: ReleaseAccumulator,
        *,
        is_compared: bool,
        is_measured: bool,
    ) -> None:
        self.own = OwnImages()
        self.samples: list[WrittenSample] = []
        self._blobs = blobs
        self._folder = folder
        self._scratch = scratch
        self._tally = tally
        self._is_compared = is_compared
        self._is_measured = is_measured

    def write(
        self, contents: Contents, dataset: str, on_row: Callable[[int], None]
    ) -> list[ReleasedFile]:
        """Writes all rows; gives the files beside images. `on_row` gets the number done."""
        form = contents.form
        with ExitStack() as stack:
            name = f"{dataset}.json"
            texts = [RowsFile(self._folder, name, PUBLISHED_TEXT, form)]
            if form.contrasts:
                texts.append(RowsFile(self._folder, CCD_LINES, CCD_TEXT, CCD_FORM))
            for text in texts:
                stack.enter_context(text)
            parquet = stack.enter_context(ParquetRows(self._folder, form=form))
            for done, copied in enumerate(ordered_map(self._copy_image, contents.rows()), 1):
                row = copied.found.row
                parquet.write(EmbeddedRow(row, copied.image))
                for text in texts:
                    text.write(row)
                self._add(copied)
                on_row(done)
            return [*parquet.finish(), *(text.finish() for text in texts)]

    def _copy_image(self, found: FoundRow) -> _CopiedRow:
        row = found.row
        image = self._blobs.read(row.sha256, row.media_type)
        place_file(self._folder, row.file_path, image)
        hashed = perceptual_hash(image) if self._tally.has_splits else None
        seen = _seen_row(row, image) if self._is_compared else None
        return _CopiedRow(found, image, hashed, seen)

    def _add(self, copied: _CopiedRow) -> None:
        row, left_out, crop = copied.found
        embedding = embedding_of(crop) if self._tally.has_splits else None
        embedder = crop.embedder if crop else ""
        self._tally.add(row, copied.perceptual_hash, embedding, embedder)
        self._tally.statistics.add_left_out(
            rejected=left_out["rejected"], pending=left_out["proposed"]
        )
        self._scratch.add_items(row.entity_ids())
        size = len(copied.image)
        file = ReleasedFile(row.file_path, row.sha256, size, row.image_entity_id)
        self._scratch.add_listed(file)
        if copied.seen is not None:
            self.own.add(copied.seen)
        if self._is_measured and self._tally.form.contrasts:
            captions, coarse = (
                tuple(one.text for one in many) for many in (row.captions, row.coarse_captions)
            )
            path, is_anchor = self._folder / row.file_path, row.contrast is None
            self.samples.append(WrittenSample(row.sha256, path, captions, coarse, is_anchor))


def _seen_row(row: ReleaseRow, image: bytes) -> SeenImage:
    """The row with the perceptual hash of its image."""
    return SeenImage(
        name=row.file_path,
        sha256=row.sha256,
        look=look_at(image).perceptual_hash,
        split=row.split,
        identity=(row.source, row.identity),
        video_sha256=row.crop.video_sha256 if row.crop else None,
        captions=tuple(one.text for one in (*row.captions, *row.coarse_captions)),
    )
