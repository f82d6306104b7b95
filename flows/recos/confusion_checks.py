"""Whether confusing captions fit their own image and not the other, by embedder and by people."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from db.entities import NewEntity, StoredEntity, new_entity
from flows.answers import words_of
from flows.recos.task_images import picture_of
from schemas.provenance import Role
from schemas.quality import CaptionCheck, Confusion
from schemas.records import Caption
from schemas.recos import (
    ConfusionCalibration,
    ConfusionCheck,
    ConfusionFinding,
    ConfusionSettings,
    ConfusionVerdict,
    RenderedTruth,
)

# How far two captions are apart in words.


class WordChange(NamedTuple):
    """The least number of words put in, left out or replaced, and the words of the longer text."""

    edits: int
    words: int

    @property
    def share(self) -> float:
        """Edits as a share of the longer text's words, 0 to 1; 0 for two texts without words."""
        return self.edits / self.words if self.words else 0.0


def word_change(first: str, second: str) -> WordChange:
    """The Levenshtein distance of two texts in words; neither case nor punctuation counts.

    Words are those of `caption_words`. Where a script sets no spaces between words, a run of
    letters counts as one.
    """
    from rapidfuzz.distance import Levenshtein

    ours, theirs = words_of(first), words_of(second)
    return WordChange(Levenshtein.distance(ours, theirs), max(len(ours), len(theirs)))


# An embedder that reads no text in images cannot distinguish one sum from another. But where it is
# known what both images show, a caption that names what only one of them shows does not fit the
# other.


def truth_differs(caption: str, own: RenderedTruth | None, other: RenderedTruth | None) -> bool:
    """Whether `caption` names the question or the answer of `own`, and `other` has another one.

    False where nothing is known of one of them.
    """
    if own is None or other is None:
        return False
    return any(
        _names(caption, ours) and _folded(ours) != _folded(theirs)
        for ours, theirs in ((own.question, other.question), (own.answer, other.answer))
    )


def what_is_shown(truth: RenderedTruth) -> str:
    """What was drawn, in a word: where it differs, images show something else."""
    return _folded(truth.question)


def _names(caption: str, value: str) -> bool:
    """Whether a caption holds a value as a whole, not as part of a longer word or number."""
    pattern = rf"(?<![\w.,/]){re.escape(_folded(value))}(?![\w/]|[.,]\d)"
    return bool(_folded(value)) and re.search(pattern, _folded(caption)) is not None


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


# How much nearer a caption must be to its own image before another one surely does not fit it.
#
# Cosines of captions and images that belong together differ: some images are near to all captions
# or far from all, and so are some captions. So the image's usual similarity to captions that are
# not its own is subtracted from each cosine, and in the calibration the caption's to images that
# are not its own, too. What is left says how well the two fit, and over D it is known how that
# spreads where they do fit. If t fitted x′ as it fits x, the difference of both would be that of
# two draws from this spread. The margin is what only `missed_share` of such differences exceed.
# Captions differ in how well they fit more than images do to one caption, so the margin is rather
# too wide than too narrow: it sends more to people than it must, and overlooks less than it may.

Vectors = NDArray[Any]
"""Embeddings of unit length, of shape (n, d)."""
Owners = NDArray[np.int64]
"""For each caption the row of its image, of shape (m,)."""

_MOST_CAPTIONS = 2000
_DECIMALS = 6


class Background:
    """How near images are to captions that are not theirs."""

    def __init__(self, captions: Vectors, owners: Owners) -> None:
        self._captions = np.asarray(captions, np.float64)
        self._owners = owners
        self._sum = self._captions.sum(axis=0)

    def of(self, images: Vectors, left_out: NDArray[np.int64]) -> NDArray[np.float64]:
        """The mean cosine of each of `images` (k, d) to all captions of D but those of an image.

        Args:
            images: embeddings of any images.
            left_out: for each the row of D whose captions do not count, of shape (k,).
        """
        rows = np.asarray(images, np.float64)
        found = np.zeros(len(rows))
        for at, image in enumerate(left_out):
            own = self._captions[self._owners == image]
            others = len(self._captions) - len(own)
            if others:
                found[at] = float(rows[at] @ (self._sum - own.sum(axis=0))) / others
        return found


def calibrate(
    images: Vectors,
    captions: Vectors,
    owners: Owners,
    settings: ConfusionSettings,
    embedder: str,
    *,
    groups: NDArray[np.int64] | None = None,
) -> ConfusionCalibration:
    """The margin for an embedder, from the images of D and their captions.

    Args:
        images: of shape (n, d).
        captions: of shape (m, d).
        owners: for each caption the row of its image.
        settings: a given margin, or what to calibrate it for.
        embedder: what made the vectors, as `name@revision`.
        groups: a number for each image (its task): only captions of one group are compared, as
            those of different tasks fit their images differently well.
    """
    described = np.unique(owners)
    calibrated = settings.margin is None and len(described) >= settings.least_images
    if settings.margin is not None:
        margin = settings.margin
    elif calibrated:
        margin = _margin(images, captions, owners, settings.missed_share, groups)
    else:
        margin = settings.usual_margin
    return ConfusionCalibration(
        margin=round(margin, _DECIMALS),
        calibrated=calibrated,
        images=len(described),
        captions=len(owners),
        missed_share=settings.missed_share,
        embedder=embedder,
    )


def _margin(
    images: Vectors,
    captions: Vectors,
    owners: Owners,
    missed_share: float,
    groups: NDArray[np.int64] | None,
) -> float:
    fits = _fits(images, captions, owners)
    chosen = np.unique(np.linspace(0, len(fits) - 1, _MOST_CAPTIONS).astype(np.int64))
    of_group = np.zeros(len(images), np.int64) if groups is None else groups
    differences = []
    for group in np.unique(of_group):
        here = chosen[of_group[owners[chosen]] == group]
        apart = owners[here, None] != owners[None, here]
        differences.append((fits[here, None] - fits[None, here])[apart])
    everything = np.concatenate(differences)
    if not everything.size:
        return _margin(images, captions, owners, missed_share, None)
    return max(0.0, float(np.quantile(everything, 1 - missed_share)))


def _fits(images: Vectors, captions: Vectors, owners: Owners) -> NDArray[np.float64]:
    """How much nearer each caption is to its image than usual for both, of shape (m,)."""
    rows = np.asarray(images, np.float64)
    usual = Background(captions, owners).of(rows, np.arange(len(rows)))
    above = np.asarray(captions, np.float64) @ rows.T - usual
    own = above[np.arange(len(owners)), owners]
    others: NDArray[np.float64] = (above.sum(axis=1) - own) / max(1, len(rows) - 1)
    return own - others


# Whether t fits x and not x′, and t′ fits x′ and not x, as far as an embedder can judge.
#
# A caption that fits both images makes a benchmark wrong: finding the other image would count as an
# error. What an embedder is not sure of goes to people.

STAGE = "check_confusions"
VERSION = "1"


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
    images, captions, similar, confusing = (np.asarray(one, np.float64) for one in vectors)
    caption_image, caption_similar, confusing_image, confusing_similar = (
        np.einsum("ij,ij->i", texts, shown)
        for texts in (captions, confusing)
        for shown in (images, similar)
    )
    measured = {
        "caption_image": caption_image,
        "caption_similar": caption_similar,
        "confusing_image": confusing_image,
        "confusing_similar": confusing_similar,
        "caption_advantage": caption_image - caption_similar + usual,
        "confusing_advantage": confusing_similar - confusing_image - usual,
    }
    return [
        _check(
            pair,
            {name: round(float(column[at]), _DECIMALS) for name, column in measured.items()},
            calibration,
            settings,
        )
        for at, pair in enumerate(pairs)
    ]


def _check(
    pair: ConfusedPair,
    measured: Mapping[str, float],
    calibration: ConfusionCalibration,
    settings: ConfusionSettings,
) -> ConfusionCheck:
    advantage = measured["caption_advantage"]
    change = word_change(pair.caption, pair.confusing)
    speaks = {
        ConfusionFinding.CAPTION_FITS_SIMILAR: advantage <= calibration.margin,
        ConfusionFinding.CONFUSING_FITS_IMAGE: (
            measured["confusing_advantage"] <= calibration.margin
        ),
        ConfusionFinding.MANY_WORDS_CHANGED: change.share > settings.changed_share,
        ConfusionFinding.SAME_WORDS: change.edits == 0,
    }
    findings = tuple(finding for finding, does in speaks.items() if does)
    verdict = ConfusionVerdict.DOUBTFUL if findings else ConfusionVerdict.CLEAR
    if advantage <= 0:
        verdict = ConfusionVerdict.FALSE_NEGATIVE
    return ConfusionCheck(
        **measured,
        margin=calibration.margin,
        edits=change.edits,
        words=change.words,
        findings=findings,
        verdict=verdict,
        embedder=calibration.embedder,
    )


# What people are asked of a caption and two images: does it fit its own, and not the other?


def question(
    caption: StoredEntity,
    own: StoredEntity,
    other: StoredEntity,
    similar: StoredEntity,
    doubts: Sequence[str],
) -> tuple[NewEntity, NewEntity]:
    """A question, and what speaks against the caption.

    Args:
        caption: what is asked about.
        own: its image.
        other: the image that it must not fit.
        similar: the one of both that is of v1.
        doubts: sentences for people; none where the caption is thought to be right.
    """
    record = caption.record(Caption)
    asked = new_entity(
        Confusion(
            source=record.source,
            text=record.text,
            own=picture_of(own),
            other=picture_of(other),
            caption_id=caption.id,
            author=record.author or record.source,
        ),
        similar.dataset,
        parents=[(Role.ASKS_ABOUT, caption.id), (Role.ASKS_WITH, similar.id)],
    )
    check = CaptionCheck(doubts=tuple(doubts))
    return asked, new_entity(check, similar.dataset, parents=[(Role.EXAMINES, asked.id)])
