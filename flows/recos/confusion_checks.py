"""Check whether confusing captions fit only their own image, by embedder and by people."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.db.entities import NewEntity, StoredEntity, new_entity
from loupe.flows.answers import words_of
from loupe.flows.engine.embedding import picture_of
from loupe.retrieval.score_matrix import text_cosines
from loupe.schemas.proposals import Confusion
from loupe.schemas.provenance import Role
from loupe.schemas.quality import CaptionCheck
from loupe.schemas.records import Caption
from loupe.schemas.recos import (
    ConfusionCalibration,
    ConfusionCheck,
    ConfusionFinding,
    ConfusionSettings,
    ConfusionVerdict,
    RenderedTruth,
)

# The distance of two captions in words.


class WordChange(NamedTuple):
    """Word edits (insert, delete, replace) between two texts, and the words of the longer."""

    edits: int
    words: int

    @property
    def share(self) -> float:
        """Edits as a share of the longer text's words, 0 to 1; 0 for two texts without words."""
        return self.edits / self.words if self.words else 0.0


def word_change(first: str, second: str) -> WordChange:
    """Return the Levenshtein distance of two texts in words, ignoring case and punctuation.

    Words are those of `words_of`. In scripts without spaces between words, a run of letters counts
    as one word.
    """
    from rapidfuzz.distance import Levenshtein

    ours, theirs = words_of(first), words_of(second)
    return WordChange(Levenshtein.distance(ours, theirs), max(len(ours), len(theirs)))


# An embedder that reads no text in images cannot distinguish one sum from another. But if the
# content of both images is known, a caption that names what only one image shows does not fit the
# other.


def truth_differs(caption: str, own: RenderedTruth | None, other: RenderedTruth | None) -> bool:
    """Return whether `caption` names the question or answer of `own`, and that of `other` differs.

    False if either truth is unknown.
    """
    if own is None or other is None:
        return False
    return any(
        _names(caption, ours) and _folded(ours) != _folded(theirs)
        for ours, theirs in ((own.question, other.question), (own.answer, other.answer))
    )


def what_is_shown(truth: RenderedTruth) -> str:
    """Return what was drawn as one string; images with different strings differ."""
    return _folded(truth.question)


def _names(caption: str, value: str) -> bool:
    """Return whether a caption has a value as a whole, not as part of a longer word or number."""
    pattern = rf"(?<![\w.,/]){re.escape(_folded(value))}(?![\w/]|[.,]\d)"
    return bool(_folded(value)) and re.search(pattern, _folded(caption)) is not None


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


# The margin: how much nearer a caption must be to its own image than to another that it does not
# fit.
#
# Cosines of matching captions and images vary: some images are near to all captions or far from
# all, and so are some captions. So the image's mean similarity to captions of other images is
# subtracted from each cosine. In the calibration, the caption's mean similarity to other images is
# subtracted, too. The rest says how well the two fit, and its spread over matching pairs of D is
# known. If t fitted x′ as it fits x, the difference of both would be that of two draws from this
# distribution. The margin is exceeded by only `missed_share` of such differences.
#
# Captions vary more in how well they fit than images do for one caption, so the margin is rather
# too wide: it sends more pairs to people than necessary, and overlooks fewer than permitted.

Vectors = NDArray[Any]
"""Unit embeddings, of shape (n, d); an image may have several vectors of length d, end to end."""
Owners = NDArray[np.int64]
"""The row of each caption's image, of shape (m,)."""

_MOST_CAPTIONS = 2000
_DECIMALS = 6


class Background:
    """The mean similarity of images to captions of other images."""

    def __init__(self, captions: Vectors, owners: Owners) -> None:
        self._captions = captions
        self._owners = owners

    def of(self, images: Vectors, left_out: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the mean cosine of each of `images` (k, d) to all captions of D but one image's.

        Args:
            images: embeddings of any images.
            left_out: for each image, the row of D whose captions are left out, of shape (k,).
        """
        found = np.zeros(len(images))
        cosines = text_cosines(self._captions, images)
        for at, image in enumerate(left_out):
            others = cosines[self._owners != image, at]
            found[at] = others.mean() if len(others) else 0.0
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
    """Return the margin of an embedder from the images of D and their captions.

    Args:
        images: embeddings, of shape (n, d).
        captions: embeddings, of shape (m, d).
        owners: the row of each caption's image.
        settings: a given margin, or how to calibrate it.
        embedder: the embedder, as `name@revision`.
        groups: a number for each image (its task). Only captions of one group are compared, because
            captions of different tasks fit their images differently well.
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
    """Return how much nearer each caption is to its image than usual for both, of shape (m,)."""
    usual = Background(captions, owners).of(images, np.arange(len(images)))
    above = text_cosines(captions, images) - usual
    own = above[np.arange(len(owners)), owners]
    others: NDArray[np.float64] = (above.sum(axis=1) - own) / max(1, len(images) - 1)
    return own - others


# Whether t fits x and not x′, and t′ fits x′ and not x, according to an embedder.
#
# A caption that fits both images makes a benchmark wrong, because finding the other image would
# count as an error. If the embedder is not sure, people decide.


class ConfusedPair(NamedTuple):
    """The pair to check.

    Attributes:
        caption: t.
        confusing: t′.
        image: row of x in D.
    """

    caption: str
    confusing: str
    image: int


class PairVectors(NamedTuple):
    """Unit embeddings of n pairs, each of shape (n, d): of x, t, x′ and t′."""

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
    """Return a check for each pair, in order.

    `false_negative`: t is no nearer to x than to x′. `doubtful`: t or t′ is nearer to its own image
    by no more than the margin, the words are the same, or many words differ.

    Args:
        pairs: texts, and the images of D.
        vectors: embeddings of the pairs.
        background: mean similarity to the captions of D, without the captions of an image itself,
            and without those of the image that it is similar to.
        calibration: the margin.
        settings: how many words may differ.
    """
    rows = np.array([pair.image for pair in pairs], np.int64)
    usual = background.of(vectors.similar, rows) - background.of(vectors.images, rows)
    caption_image, caption_similar, confusing_image, confusing_similar = (
        _pair_cosines(texts, shown)
        for texts in (vectors.captions, vectors.confusing)
        for shown in (vectors.images, vectors.similar)
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


def _pair_cosines(texts: Vectors, images: Vectors) -> NDArray[np.float64]:
    pairs = zip(texts, images, strict=True)
    return np.array([text_cosines(text[None], image[None])[0, 0] for text, image in pairs])


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


# The question to people about a caption and two images: does it fit only its own image?


def question(
    caption: StoredEntity,
    own: StoredEntity,
    other: StoredEntity,
    similar: StoredEntity,
    warnings: Sequence[str],
) -> tuple[NewEntity, NewEntity]:
    """Return a question with the warnings about the caption.

    Args:
        caption: the caption in question.
        own: its image.
        other: the image that the caption must not fit.
        similar: which of the two is of v1.
        warnings: sentences for people; empty if the caption is probably right.
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
    check = CaptionCheck(warnings=tuple(warnings))
    return asked, new_entity(check, similar.dataset, parents=[(Role.EXAMINES, asked.id)])
