"""Evaluations of synthetic vectors on the rows of a real release."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loupe.flows.evaluation.run import shown_image, shown_texts
from loupe.release.format.row_files import ReadRelease
from loupe.retrieval.evaluation import Side, score_direction
from loupe.schemas.chat import ModelRef
from loupe.schemas.embedding import PrecomputedEmbedder
from loupe.schemas.evaluation import EvaluatedModel, EvaluatedRelease, EvaluationResult, ShownItem
from loupe.schemas.provenance import Hardware

HARDWARE = Hardware(processor="A processor", cores=2, memory_bytes=24 << 30)


def synthetic_evaluation(
    read: ReadRelease, name: str, quality: float, seed: int = 0
) -> EvaluationResult:
    """Return an evaluation; `quality` is how strongly the vectors of a person agree."""
    chance = np.random.default_rng(seed)
    centres = {row.id: chance.normal(size=8) for row in read.rows}

    def side(items: list[ShownItem], groups: dict[str, list[str]]) -> Side:
        rows = [quality * centres[item.person] + chance.normal(size=8) for item in items]
        return Side.of(items, np.array(rows), groups, "rows")

    shown = list(shown_texts(read))
    images = side([shown_image(row) for row in read.rows], {})
    texts = side(shown, {"source": [item.source for item in shown]})
    found = [
        score_direction("text-to-image", texts, images),
        score_direction("image-to-text", images, texts),
    ]
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
        directions=tuple(one.direction for one in found),
        groups=found[0].groups,
        interval="95 %, made up",
        seconds=0.5,
        embedding_seconds=12.0,
    )


def saved_vectors(
    folder: Path, name: str, images: NDArray[np.floating], texts: NDArray[np.floating]
) -> PrecomputedEmbedder:
    """Return an embedder of these vectors, which are saved in `folder`."""
    paths = folder / f"{name}-images.npy", folder / f"{name}-texts.npy"
    for path, rows in zip(paths, (images, texts), strict=True):
        np.save(path, rows)
    return PrecomputedEmbedder(provider="precomputed", name=name, images=paths[0], texts=paths[1])
