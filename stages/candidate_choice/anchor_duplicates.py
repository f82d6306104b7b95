"""Which results of a search are the anchor again."""

from collections.abc import Sequence

import numpy as np

from schemas.near_duplicates import ImageFingerprint, NearDuplicateSettings
from stages.candidate_choice.choice import Vector, Vectors
from stages.near_duplicates.pairs import alike_pairs

_ANCHOR, _RESULT = "anchor", "result"


def anchor_duplicates(
    anchor: ImageFingerprint,
    results: Sequence[ImageFingerprint],
    settings: NearDuplicateSettings,
    vectors: tuple[Vector, Vectors] | None = None,
) -> list[bool]:
    """For each result whether it has, or may have, the anchor's content.

    What is in doubt counts: another result costs nothing, and the anchor among its own contrastive
    images makes right answers wrong.

    Args:
        anchor: how it looks.
        results: how they look, each.
        settings: when two images have the same content.
        vectors: the embeddings of the anchor (d,) and of the results (n, d), where there are any.
    """
    return [
        bool(
            len(
                alike_pairs(
                    {_ANCHOR: anchor, _RESULT: result},
                    settings,
                    None if vectors is None else np.stack([vectors[0], vectors[1][place]]),
                )
            )
        )
        for place, result in enumerate(results)
    ]
