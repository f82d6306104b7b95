"""Evaluations as the pages show them: made up, on the rows of a real release."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from release.reading import ReadRelease, ReadRow
from retrieval.embeddings import FloatRows, Ids, unit_rows
from retrieval.evaluation import chance_scores, rank_curve, similarity_counts, worst_queries
from schemas.chat import ModelRef
from schemas.evaluation import (
    Direction,
    DirectionResult,
    EvaluatedModel,
    EvaluatedRelease,
    EvaluationResult,
    GroupResult,
    HardQuery,
    Hardware,
    Retrieved,
    Score,
    ShownItem,
    SimilarityHistogram,
)
from tests.retrieval.literal_retrieval import literal_scores

HARDWARE = Hardware(processor="A processor", cores=2, memory_bytes=24 << 30)


class Side(NamedTuple):
    """The queries or the gallery of one direction."""

    items: list[ShownItem]
    rows: FloatRows

    @property
    def ids(self) -> Ids:
        return np.array([item.person for item in self.items])

    def of(self, source: str) -> "Side":
        chosen = [place for place, item in enumerate(self.items) if item.source == source]
        return Side([self.items[place] for place in chosen], self.rows[chosen])


def made_up(read: ReadRelease, name: str, quality: float, seed: int = 0) -> EvaluationResult:
    """A model's evaluation on a release: the better, the nearer rows of one person lie."""
    chance = np.random.default_rng(seed)
    centres = {row.id: chance.normal(size=8) for row in read.rows}

    def side(items: list[ShownItem]) -> Side:
        rows = [quality * centres[item.person] + chance.normal(size=8) for item in items]
        return Side(items, unit_rows(np.array(rows), "rows"))

    images, texts = side([shown(row) for row in read.rows]), side(list(shown_texts(read)))
    manifest = read.manifest
    return EvaluationResult(
        release=EvaluatedRelease(
            dataset=manifest.dataset,
            version=manifest.version,
            id=manifest.id,
            demonstration=manifest.demonstration,
        ),
        split=read.split,
        protocol="made up",
        model=EvaluatedModel(ref=ModelRef(name=name, revision="1"), provider="precomputed"),
        code_revision="0" * 40,
        hardware=HARDWARE,
        identities=len(centres),
        images=len(images.items),
        captions=len(texts.items),
        directions=(
            _direction("text-to-image", texts, images),
            _direction("image-to-text", images, texts),
        ),
        groups=tuple(_groups(texts, images)),
        interval="95 %, made up",
        seconds=0.5,
        embedding_seconds=12.0,
    )


def shown(row: ReadRow) -> ShownItem:
    """An image as an evaluation stores it."""
    return ShownItem(
        entity_id=row.entity_id,
        file_path=row.file_path,
        sha256=row.sha256,
        person=row.id,
        source=row.source,
    )


def shown_texts(read: ReadRelease) -> Iterator[ShownItem]:
    """The captions as an evaluation stores them."""
    for row in read.rows:
        for place, one in enumerate(row.captions):
            changes = {"text": one.text, "position": place, "entity_id": one.entity_id}
            yield shown(row).model_copy(update=changes)


def _scores(queries: Side, gallery: Side) -> dict[str, Score]:
    values = literal_scores(queries.rows, gallery.rows, list(queries.ids), list(gallery.ids))
    return {
        name: Score(value=value, low=value * 0.93, high=min(100.0, value * 1.07))
        for name, value in values.items()
    }


def _direction(direction: Direction, queries: Side, gallery: Side) -> DirectionResult:
    asked = (queries.rows, gallery.rows, queries.ids, gallery.ids)
    matches = [int((gallery.ids == one).sum()) for one in queries.ids]
    first = np.array(
        [
            1 + int((row > row[gallery.ids == one].max()).sum())
            for row, one in zip(queries.rows @ gallery.rows.T, queries.ids, strict=True)
        ]
    )
    spread = similarity_counts(*asked)
    depth = min(50, len(gallery.items))
    chance = chance_scores(matches, len(gallery.items))
    return DirectionResult(
        direction=direction,
        queries=len(queries.items),
        gallery=len(gallery.items),
        unmatched=0,
        scores=_scores(queries, gallery),
        rank_curve=tuple(100 * float((first <= k).mean()) for k in range(1, depth + 1)),
        chance={name: Score(value=value) for name, value in chance.items()},
        chance_curve=tuple(rank_curve(matches, len(gallery.items), depth).tolist()),
        histogram=SimilarityHistogram(
            low=spread.low,
            high=spread.high,
            matches=tuple(spread.matches.tolist()),
            others=tuple(spread.others.tolist()),
            queries=spread.queries,
        ),
        hardest=tuple(
            HardQuery(
                query=queries.items[one.row],
                first_match_rank=one.first_match_rank,
                retrieved=tuple(
                    Retrieved(
                        item=gallery.items[find.row],
                        rank=find.rank,
                        similarity=find.similarity,
                        is_match=find.is_match,
                    )
                    for find in one.finds
                ),
            )
            for one in worst_queries(*asked, first, count=3, shown=4)
        ),
    )


def _groups(queries: Side, gallery: Side) -> Iterator[GroupResult]:
    for source in sorted({item.source for item in queries.items}):
        chosen = queries.of(source)
        yield GroupResult(
            dimension="source",
            group=source,
            direction="text-to-image",
            queries=len(chosen.items),
            unmatched=0,
            scores=_scores(chosen, gallery),
        )
