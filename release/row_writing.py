"""Writes the rows of a release: its images, its published JSON and its Parquet files."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from db.blobs import BlobStore
from release.contents import Contents, FoundRow
from release.files import place_file
from release.image_looks import look_at
from release.json_rows import JsonRows
from release.own_images import SeenImage
from release.parquet_rows import EmbeddedRow, ParquetRows
from release.published_ccd import CcdLines
from release.row_tally import CopiedRow, ReleaseAccumulator
from release.rows import ReleaseRow
from release.threads import ordered_map
from schemas.nearness import perceptual_hash
from schemas.release import ReleasedFile


class RowWriter:
    """Writes rows into the folder of a release; images are read from `blobs`.

    `is_compared` says whether the images are compared with other datasets.
    """

    def __init__(
        self, blobs: BlobStore, folder: Path, tally: ReleaseAccumulator, *, is_compared: bool
    ) -> None:
        self._blobs = blobs
        self._folder = folder
        self._tally = tally
        self._is_compared = is_compared

    def write(
        self, contents: Contents, dataset: str, on_row: Callable[[int], None]
    ) -> list[ReleasedFile]:
        """Writes all rows; gives the files beside images. `on_row` gets the number done."""
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
                self._tally.add(copied)
                on_row(done)
            files = [published.finish(), *parquet.finish()]
            return [*files, lines.finish()] if lines else files

    def _copy_image(self, found: FoundRow) -> CopiedRow:
        row = found.row
        image = self._blobs.read(row.sha256, row.media_type)
        place_file(self._folder, row.file_path, image)
        hashed = perceptual_hash(image) if self._tally.has_splits else None
        return CopiedRow(found, image, hashed, seen_row(row, image) if self._is_compared else None)


def seen_row(row: ReleaseRow, image: bytes) -> SeenImage:
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
