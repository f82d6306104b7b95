"""Writes the rows of a release, and counts what is written."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from db.blobs import BlobStore
from release.checks import Checks, WrittenSample
from release.contamination import OwnImages, SeenImage, look_at
from release.contents import Contents, FoundRow
from release.files import place_file
from release.json_rows import CcdLines, JsonRows
from release.leaks import SplitImages
from release.parquet_rows import EmbeddedRow, ParquetRows
from release.row_making import compared_image
from release.rows import ReleaseRow, RowForm
from release.scratch import Credit, Scratch
from release.statistics import ContrastCounter, Repeats, StatisticsCounter
from release.terms import (
    DerivedTerms,
    LicensedItem,
    held_by_sources,
    licences_by_image,
    refuse_forbidden,
    refuse_unpermitted,
)
from release.threads import ordered_map
from retrieval.similarity.distances import perceptual_hash
from schemas.release import (
    ContrastStatistics,
    Manifest,
    ReleasedFile,
    ReleasedSource,
    ReleaseStatistics,
)


class CopiedRow(NamedTuple):
    """A row whose image is written.

    `perceptual_hash` is known only where the dataset has several splits; `seen` is what it is
    compared with other datasets by, if it is.
    """

    found: FoundRow
    image: bytes
    perceptual_hash: int | None
    seen: SeenImage | None


class ReleaseAccumulator:
    """Counts rows, and keeps of each what the release as a whole is judged by.

    Attributes:
        has_splits: whether the images are in several splits, which must not leak.
        splits: the images of each split, where there are several.
        own: the images, where they are compared with other datasets.
        statistics: what is counted of rows of every form.
    """

    def __init__(self, scratch: Scratch, folder: Path, form: RowForm, checks: Checks) -> None:
        self._scratch = scratch
        self._folder = folder
        self._form = form
        self._checks = checks
        self.has_splits = scratch.has_several_splits()
        self.splits = SplitImages()
        self.own = OwnImages()
        self.statistics = StatisticsCounter()
        self._contrasts = ContrastCounter()
        self._repeats = Repeats(scratch)
        self._samples: list[WrittenSample] = []
        self._derived = DerivedTerms()
        self._entities = hashlib.sha256()

    def add(self, copied: CopiedRow) -> None:
        """Counts the next row."""
        row, left_out, crop = copied.found
        self.statistics.add(row)
        self.statistics.add_left_out(rejected=left_out["rejected"], pending=left_out["proposed"])
        self.add_entities(row.entity_ids())
        self._scratch.add_listed(
            ReleasedFile(
                path=row.file_path,
                sha256=row.sha256,
                size_bytes=len(copied.image),
                entity_id=row.image_entity_id,
            )
        )
        if self._form.contrasts:
            self._add_contrast(row)
        if self._form.terms:
            self._add_terms(row)
        if self.has_splits:
            self.splits.add(row.split, compared_image(row, crop, copied.perceptual_hash))
        if copied.seen is not None:
            self.own.add(copied.seen)

    def _add_contrast(self, row: ReleaseRow) -> None:
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

    def _add_terms(self, row: ReleaseRow) -> None:
        terms = row.terms
        credit = Credit(
            licence=terms.licence,
            number=row.number,
            file_path=row.file_path,
            creator=terms.creator,
            source_url=terms.source_url,
            source=row.source,
            own=terms.own,
        )
        self._scratch.add_credit(credit)
        anchor = (row.contrast.anchor, row.contrast.way) if row.contrast else (None, None)
        self._derived.check(row.file_path, terms.licence, *anchor)

    def add_entities(self, entity_ids: Sequence[str]) -> None:
        """Remembers entities of the release, in this order."""
        self._scratch.add_items(entity_ids)
        for entity_id in entity_ids:
            self._entities.update(f"{entity_id}\n".encode())

    @property
    def entities_sha256(self) -> str:
        """The digest of all entities so far, a line each."""
        return self._entities.hexdigest()

    def contrast_statistics(self, contents: Contents) -> ContrastStatistics | None:
        """What is counted of a contrastive benchmark; None where the release is none."""
        if not self._form.contrasts:
            return None
        measure = self._checks.nearest
        nearest = measure(self._samples) if measure and self._samples else None
        left_out = contents.without_captions, contents.without_anchor, contents.left_out()
        editors, repeats = contents.editors(), self._repeats.result()
        return self._contrasts.result(*left_out, nearest, editors, repeats=repeats)

    def held(
        self, sources: Sequence[ReleasedSource], statistics: ReleaseStatistics
    ) -> list[LicensedItem]:
        """Under which licences the images are."""
        if statistics.licences:
            return licences_by_image(self._scratch.credits())
        return held_by_sources(sources, statistics.sources)

    def refuse_terms(self, draft: Manifest) -> None:
        """Does nothing where every image is under a licence that permits its release.

        Raises:
            IntegrityError: one is not.
        """
        refuse_forbidden(draft.dataset, self._scratch.credits())
        held = self.held(draft.sources, draft.statistics)
        refuse_unpermitted(draft.dataset, held, self._checks.permitted_terms)
        self._derived.refuse(draft.dataset)


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
        return CopiedRow(found, image, hashed, _seen_row(row, image) if self._is_compared else None)


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
