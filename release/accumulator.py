"""What is counted of the rows of a release, by its build and by its verification."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from release.leaks import SplitImages
from release.rows import ReleaseRow, RowForm
from release.scratch import Credit, Scratch
from release.statistics import ContrastCounter, Repeats, StatisticsCounter
from release.terms import (
    DerivedTerms,
    LicensedItem,
    held_by_sources,
    licence_statistics,
    licences_by_image,
)
from retrieval.similarity.distances import ComparedImage
from schemas.quality import AuditStatistics
from schemas.records import Granularity
from schemas.release import (
    ContrastStatistics,
    LeftOutGroups,
    NearestStatistics,
    ReleasedSource,
    ReleaseStatistics,
    TrackletStatistics,
)


class CountedElsewhere(NamedTuple):
    """What the rows of a release do not tell, of the images that were left out among others."""

    without_captions: int = 0
    without_anchor: int = 0
    left_out: LeftOutGroups | None = None
    nearest: NearestStatistics | None = None
    editors: tuple[tuple[str, int], ...] = ()


class ReleaseAccumulator:
    """Counts rows, and keeps of each what the release as a whole is judged by.

    Attributes:
        form: of the rows.
        has_splits: whether the images are in several splits, which must not leak.
        splits: the images of each split, where there are several.
        statistics: what is counted of rows of every form.
        derived: images that were edited out of others, and their licences.
    """

    def __init__(
        self, scratch: Scratch, form: RowForm, *, has_splits: bool, words: bool = True
    ) -> None:
        self.form = form
        self.has_splits = has_splits
        self.splits = SplitImages()
        self.statistics = StatisticsCounter()
        self.derived = DerivedTerms()
        self._scratch = scratch
        self._words = words
        self._contrasts = ContrastCounter()
        self._repeats = Repeats(scratch)
        self._entities = hashlib.sha256()

    def add(
        self,
        row: ReleaseRow,
        perceptual_hash: int | None = None,
        embedding: NDArray[np.float16] | None = None,
        embedder: str = "",
    ) -> str | None:
        """Counts the next row; gives what is wrong with its terms, if anything."""
        self.statistics.add(row, words=self._words)
        self.add_entities(row.entity_ids())
        if self.has_splits:
            image = ComparedImage(
                name=row.file_path,
                identity=f"{row.source}/{row.identity}",
                sha256=row.sha256,
                perceptual_hash=perceptual_hash,
                video_sha256=row.crop.video_sha256 if row.crop else None,
                embedding=embedding,
                embedder=embedder,
            )
            self.splits.add(row.split, image)
        contrast = row.contrast
        if self.form.contrasts:
            captions = [one.text for one in row.captions]
            self._contrasts.add(
                contrast and (contrast.difference, contrast.way),
                captions,
                [one.text for one in row.coarse_captions],
                [one.language for one in row.translations],
            )
            self._repeats.add(row.file_path, row.sha256, captions)
        if not self.form.terms:
            return None
        licence, creator, page, own = row.terms
        credit = Credit(licence, row.number, row.file_path, creator, page, row.source, own)
        self._scratch.add_credit(credit)
        anchor = (contrast.anchor, contrast.way) if contrast else (None, None)
        return self.derived.check(row.file_path, licence, *anchor)

    def add_entities(self, entity_ids: Sequence[str]) -> None:
        """Adds entities to `entities_sha256`, in this order."""
        self._entities.update("".join(f"{one}\n" for one in entity_ids).encode())

    @property
    def entities_sha256(self) -> str:
        """The digest of all entities so far, a line each."""
        return self._entities.hexdigest()

    def result(
        self,
        sources: Sequence[ReleasedSource],
        elsewhere: CountedElsewhere,
        audits: tuple[AuditStatistics, ...] = (),
        tracklets: TrackletStatistics | None = None,
    ) -> ReleaseStatistics:
        """Everything counted so far, with what is known from elsewhere."""
        granularities: Mapping[str, Granularity | None]
        granularities = {one.name: one.granularity for one in sources}
        contrasts: ContrastStatistics | None = None
        if self.form.contrasts:  # coarse captions stand apart
            granularities = dict.fromkeys(granularities, Granularity.FINE)
            contrasts = self._contrasts.result(*elsewhere, repeats=self._repeats.result())
        counted = self.statistics.result(granularities, audits, tracklets)
        licences = licence_statistics(self._scratch.credits())
        return counted.model_copy(update={"licences": licences, "contrasts": contrasts})

    def held(
        self, sources: Sequence[ReleasedSource], statistics: ReleaseStatistics
    ) -> list[LicensedItem]:
        """Under which licences the images are."""
        if statistics.licences:
            return licences_by_image(self._scratch.credits())
        return held_by_sources(sources, statistics.sources)
