"""Whether t fits x and not x′, and t′ fits x′ and not x, as far as an embedder can tell.

A caption that fits both images makes a benchmark wrong: whoever finds the other image is said to be
mistaken. What an embedder is not sure of goes to people.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.confusion import (
    ConfusionCalibration,
    ConfusionCheck,
    ConfusionFinding,
    ConfusionSettings,
    ConfusionVerdict,
)
from stages.confusing_captions.calibration import Background, Vectors
from stages.confusing_captions.wording import word_change

STAGE = "check_confusions"
VERSION = "1"

_DECIMALS = 6


class ConfusedPair(NamedTuple):
    """What is checked.

    Attributes:
        caption: t.
        confusing: t′.
        image: the row of x in D.
    """

    caption: str
    confusing: str
    image: int


class PairVectors(NamedTuple):
    """Embeddings of n pairs, of unit length, each of shape (n, d): of x, t, x′ and t′."""

    images: Vectors
    captions: Vectors
    similar: Vectors
    confusing: Vectors


def check_confusions(
    pairs: Sequence[ConfusedPair],
    vectors: PairVectors,
    background: Background,
    calibration: ConfusionCalibration,
    settings: ConfusionSettings,
) -> list[ConfusionCheck]:
    """One check for each pair, in order.

    `false_negative`: t is no nearer to x than to x′. `doubtful`: something else speaks against the
    pair: t or t′ is nearer to its own image by no more than the margin, the words are the same, or
    many of them changed.

    Args:
        pairs: texts, and the images of D.
        vectors: theirs.
        background: over the captions of D; an image's own captions do not count for it, nor for
            the one that is similar to it.
        calibration: the margin.
        settings: how many words may change.
    """
    rows = np.array([pair.image for pair in pairs], np.int64)
    usual = background.of(vectors.similar, rows) - background.of(vectors.images, rows)
    caption_image, caption_similar = _cosines(vectors.captions, vectors)
    confusing_image, confusing_similar = _cosines(vectors.confusing, vectors)
    advantages = caption_image - caption_similar + usual
    confusing_advantages = confusing_similar - confusing_image - usual
    columns = np.column_stack(
        (
            caption_image,
            caption_similar,
            confusing_image,
            confusing_similar,
            advantages,
            confusing_advantages,
        )
    )
    return [
        _check(pair, [round(value, _DECIMALS) for value in row], calibration, settings)
        for pair, row in zip(pairs, columns.tolist(), strict=True)
    ]


def _cosines(
    texts: Vectors, vectors: PairVectors
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each text to x and to x′."""
    rows, images, similar = (
        np.asarray(one, np.float64) for one in (texts, vectors.images, vectors.similar)
    )
    return np.einsum("ij,ij->i", rows, images), np.einsum("ij,ij->i", rows, similar)


def _check(
    pair: ConfusedPair,
    measured: Sequence[float],
    calibration: ConfusionCalibration,
    settings: ConfusionSettings,
) -> ConfusionCheck:
    *cosines, advantage, confusing_advantage = measured
    change = word_change(pair.caption, pair.confusing)
    speaks = {
        ConfusionFinding.CAPTION_FITS_SIMILAR: advantage <= calibration.margin,
        ConfusionFinding.CONFUSING_FITS_IMAGE: confusing_advantage <= calibration.margin,
        ConfusionFinding.MANY_WORDS_CHANGED: change.share > settings.changed_share,
        ConfusionFinding.SAME_WORDS: change.edits == 0,
    }
    findings = tuple(finding for finding, does in speaks.items() if does)
    return ConfusionCheck(
        caption_image=cosines[0],
        caption_similar=cosines[1],
        confusing_image=cosines[2],
        confusing_similar=cosines[3],
        caption_advantage=advantage,
        confusing_advantage=confusing_advantage,
        margin=calibration.margin,
        edits=change.edits,
        words=change.words,
        findings=findings,
        verdict=_verdict(findings, advantage),
        embedder=calibration.embedder,
    )


def _verdict(findings: Sequence[ConfusionFinding], advantage: float) -> ConfusionVerdict:
    if advantage <= 0:
        return ConfusionVerdict.FALSE_NEGATIVE
    return ConfusionVerdict.DOUBTFUL if findings else ConfusionVerdict.CLEAR
