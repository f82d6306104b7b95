"""Synthetic evaluation results on the rows of a real release."""

from collections.abc import Iterator

import numpy as np

from flows.evaluation.run import shown_image, shown_texts
from release.row_files import ReadRelease
from retrieval.evaluation import (
    Side,
    chance_scores,
    hardest_queries,
    rank_curve,
    similarity_histogram,
)
from schemas.chat import ModelRef
from schemas.evaluation import (
    Direction,
    DirectionResult,
    EvaluatedModel,
    EvaluatedRelease,
    EvaluationResult,
    GroupResult,
    Hardware,
    Score,
    ShownItem,
)
from tests.retrieval.literal_retrieval import literal_scores

HARDWARE = Hardware(processor="A processor", cores=2, memory_bytes=24 << 30)


def synthetic_evaluation(
    read: ReadRelease, name: str, quality: float, seed: int = 0
) -> EvaluationResult:
    """Return a synthetic evaluation; `quality` is how strongly the vectors of a person agree."""
    chance = np.random.default_rng(seed)
    centres = {row.id: chance.normal(size=8) for row in read.rows}

    def side(items: list[ShownItem]) -> Side:
        rows = [quality * centres[item.person] + chance.normal(size=8) for item in items]
        return Side.of(items, np.array(rows), {}, "rows")

    images, texts = side([shown_image(row) for row in read.rows]), side(list(shown_texts(read)))
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


def _scores(queries: Side, gallery: Side) -> dict[str, Score]:
    values = literal_scores(queries.rows, gallery.rows, list(queries.ids), list(gallery.ids))
    return {
        name: Score(value=value, low=value * 0.93, high=min(100.0, value * 1.07))
        for name, value in values.items()
    }


def _direction(direction: Direction, queries: Side, gallery: Side) -> DirectionResult:
    matches = [int((gallery.ids == one).sum()) for one in queries.ids]
    first = np.array(
        [
            1 + int((row > row[gallery.ids == one].max()).sum())
            for row, one in zip(queries.rows @ gallery.rows.T, queries.ids, strict=True)
        ]
    )
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
        histogram=similarity_histogram(queries.rows, gallery.rows, queries.ids, gallery.ids),
        hardest=hardest_queries(queries, gallery, first, count=3, shown=4),
    )


def _groups(queries: Side, gallery: Side) -> Iterator[GroupResult]:
    for source in sorted({item.source for item in queries.items}):
        chosen = queries.chosen(np.array([item.source == source for item in queries.items]))
        yield GroupResult(
            dimension="source",
            group=source,
            direction="text-to-image",
            queries=len(chosen.items),
            unmatched=0,
            scores=_scores(chosen, gallery),
        )
