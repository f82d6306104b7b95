"""The images that a benchmark is chosen from, and a similar image of v1 for each image of v0."""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from db.entities import (
    LIVE,
    NewEntity,
    StoredEntity,
    WorkResult,
    fetch_children,
    new_entity,
    parents_of,
)
from db.store import Store
from flows.engine.contamination import fingerprint_images, fingerprints_of
from flows.engine.context import RunContext
from flows.engine.embedding import CachedEmbedder
from flows.engine.report import StageReport
from flows.engine.runner import Stage, run_each, worked_items
from flows.recos.captioning import task_of, truths_of
from flows.recos.confusion_checks import Background, calibrate, truth_differs, what_is_shown
from flows.recos.task_images import (
    copied_image,
    embed_stored,
    images_of_source,
    images_of_tier,
    originals_of,
)
from models.embedding import Vectors
from retrieval.similarity.near_duplicates import AlikeImages
from retrieval.similarity.products import nearest_rows
from schemas.base import digest_of
from schemas.provenance import Role
from schemas.records import Caption, Rejection
from schemas.recos import ConfusionCalibration, ConfusionMatch, ConfusionSettings, RenderedTruth
from schemas.similarity import ImageFingerprint, NearDuplicateSettings


@dataclass
class Pool:
    """The usable images of all sources of a build, in one order.

    Fingerprints, embeddings and duplicates are computed on first use, so a run without open work
    computes none. Stored results are reused.

    Attributes:
        origins: the sources.
        tell: receives the report of the fingerprinting.
    """

    context: RunContext
    origins: Sequence[NewEntity]
    embedder: CachedEmbedder
    settings: NearDuplicateSettings
    tell: Callable[[StageReport], None]

    @cached_property
    def digest(self) -> str:
        """A digest of the images of the sources, which does not read them."""
        return digest_of(*(image.id for _, image in self._of_sources))

    @cached_property
    def images(self) -> tuple[StoredEntity, ...]:
        """The usable images."""
        return tuple(image for _, image in self._of_sources if image.id in self.fingerprints)

    @cached_property
    def sources(self) -> NDArray[np.int64]:
        """A number for the source of each image, of shape (n,)."""
        usable = [number for number, image in self._of_sources if image.id in self.fingerprints]
        return np.array(usable, np.int64)

    @cached_property
    def fingerprints(self) -> dict[str, ImageFingerprint]:
        """The fingerprint of each image by id, in their order."""
        for source in self.origins:
            self.tell(fingerprint_images(self.context, source.dataset))
        return fingerprints_of(self.context.store, [image.id for _, image in self._of_sources])

    @cached_property
    def place(self) -> dict[str, int]:
        """The position of each image by id."""
        return {image.id: place for place, image in enumerate(self.images)}

    @cached_property
    def vectors(self) -> Vectors:
        """The embedding of each image, of shape (n, d).

        Raises:
            ModelError: the embedder cannot be loaded or cannot continue.
        """
        return embed_stored(self.context, self.embedder, self.images)

    @cached_property
    def truths(self) -> dict[str, RenderedTruth]:
        """The truths of rendered images, by id."""
        return truths_of(self.context.store, list(self.place))

    @cached_property
    def duplicates(self) -> AlikeImages:
        """Images that have, or may have, the same content.

        Raises:
            ModelError: see `vectors`.
        """
        contents = {image: what_is_shown(truth) for image, truth in self.truths.items()}
        return AlikeImages(self.fingerprints, self.settings, self.vectors, contents)

    @cached_property
    def _of_sources(self) -> list[tuple[int, StoredEntity]]:
        return [
            (number, image)
            for number, source in enumerate(self.origins)
            for image in images_of_source(self.context.store, source.id)
        ]


# The paper takes "the most similar image" that is not used already, and does not state in which
# order images choose. Here the most similar pair of all is taken first, then the most similar of
# the rest, and so on. So the result does not depend on the order of the images, and no image and
# candidate that prefer each other are separated (the matching is stable). An optimal assignment
# would have a larger sum of similarities, but some images would get less similar ones than they
# could; each pair should be confusing, not their mean.

STAGE = "match_similar_images"
VERSION = "1"

Alike = Mapping[str, frozenset[str]]
"""Images of the same content, for each image that has any."""


class Candidate(NamedTuple):
    """An image of the same source, and the cosine of its embedding to the image's."""

    image: str
    similarity: float


class Match(NamedTuple):
    """The match of an image; `rank` is its position among all its candidates, from 1."""

    candidate: Candidate
    rank: int


class Matches(NamedTuple):
    """A similar image or a rejection for each image, in the order of the images."""

    found: dict[str, Match]
    rejections: dict[str, Rejection]


def match_similar_images(
    candidates: Mapping[str, Sequence[Candidate]], duplicates: Alike
) -> Matches:
    """Match an image to each, the most similar pairs first; equal pairs are ordered by ids.

    No image is matched twice. None is in D (the images to match), and none has the content of an
    image of D or of a matched one. An image without a match is rejected (`no_similar_image`).

    Args:
        candidates: for each image of D, images of its source, most similar first. If the lists are
            truncated, an image may remain without a match although there is one.
        duplicates: pairs of the same content, preferably with doubtful pairs.
    """
    closed = set(candidates)
    for image in candidates:
        closed |= duplicates.get(image, frozenset())
    queue: list[tuple[float, str, str, int]] = []  # in the order of choice

    def consider(image: str, place: int) -> None:
        """Queue the candidate of an image at a position, if there is one."""
        if place < len(candidates[image]):
            candidate = candidates[image][place]
            heapq.heappush(queue, (-candidate.similarity, image, candidate.image, place))

    for image in candidates:
        consider(image, 0)
    found: dict[str, Match] = {}
    while queue:
        _, image, other, place = heapq.heappop(queue)
        if other in closed:
            consider(image, place + 1)
            continue
        found[image] = Match(candidates[image][place], place + 1)
        closed |= {other, *duplicates.get(other, ())}
    return Matches(
        {image: found[image] for image in candidates if image in found},
        {
            image: _none_left(image, len(others))
            for image, others in candidates.items()
            if image not in found
        },
    )


def _none_left(image: str, candidates: int) -> Rejection:
    why = "its source has no other available image that none of its captions fits"
    if candidates:
        why = (
            f"all of {candidates:,} candidates of its source are taken, are images to match, or "
            "have the content of one of these"
        )
    return Rejection(
        stage=STAGE,
        reason="no_similar_image",
        detail=f"image {image!r} has no similar image of its own: {why}",
        context={"image": image, "candidates": candidates},
    )


# A candidate is skipped if the embedder is not sure that the captions of v0 do not fit it, because
# it would be a right answer that counts as wrong.

MOST_MATCHES = 5
"""The most similar images that are rejected for an image before the search for it ends."""
_CANDIDATES = 100
"""The most candidates of each image; further ones could hardly be confused with it."""

_LIKELY = 3
"""The candidates looked up at once: one of them will probably be taken."""


class BaseTier(NamedTuple):
    """The images of v0 with their accepted captions.

    Attributes:
        images: images with captions.
        originals: the image of the source that each is a copy of, by id.
        captions: captions of each image by id, in the order of positions.
    """

    images: tuple[StoredEntity, ...]
    originals: dict[str, str]
    captions: dict[str, tuple[StoredEntity, ...]]


class Judge(NamedTuple):
    """Embeddings of v0, to judge whether a caption fits another image.

    Attributes:
        rows: of the images of `BaseTier`, of shape (n, d).
        texts: of their captions, of shape (m, d).
        wordings: the captions.
        owners: number of each caption's image.
        background: mean similarity to these captions.
        calibration: the margin.
    """

    rows: Vectors
    texts: Vectors
    wordings: tuple[str, ...]
    owners: NDArray[np.int64]
    background: Background
    calibration: ConfusionCalibration


def load_v0(store: Store, dataset: str) -> BaseTier:
    """Return the current v0: its active images and their accepted captions."""
    images = [one for one in images_of_tier(store, dataset, "v0") if one.state in LIVE]
    captions = captions_of(store, [image.id for image in images])
    described = tuple(image for image in images if captions.get(image.id))
    return BaseTier(described, originals_of(store, described), captions)


def captions_of(store: Store, image_ids: Sequence[str]) -> dict[str, tuple[StoredEntity, ...]]:
    """Return the accepted captions of each image, by position."""
    return {
        image: tuple(
            sorted(
                (one for one in many if one.state == "accepted"),
                key=lambda one: (one.record(Caption).position, one.id),
            )
        )
        for image, many in fetch_children(store, image_ids, Role.DESCRIBES).items()
    }


def load_judge(
    context: RunContext, base: BaseTier, embedder: CachedEmbedder, settings: ConfusionSettings
) -> Judge:
    """Embed the captions of v0, and calibrate the margin."""
    numbers = {image.id: number for number, image in enumerate(base.images)}
    captions = [
        (numbers[image.id], one) for image in base.images for one in base.captions[image.id]
    ]
    wordings = tuple(one.record(Caption).text for _, one in captions)
    texts = embedder.embed_texts(wordings)
    rows = embed_stored(context, embedder, base.images)
    owners = np.array([number for number, _ in captions], np.int64)
    tasks = {task: number for number, task in enumerate(sorted({task_of(i) for i in base.images}))}
    groups = np.array([tasks[task_of(image)] for image in base.images], np.int64)
    calibration = calibrate(rows, texts, owners, settings, str(embedder.ref), groups=groups)
    return Judge(rows, texts, wordings, owners, Background(texts, owners), calibration)


def match_images(
    context: RunContext,
    dataset: str,
    base: BaseTier,
    pool: Pool,
    judge: Judge,
) -> StageReport:
    """Add a similar image of its source to v1 for every image of v0 that has none.

    An image that was rejected before, for any image, is not taken again. An image without a match,
    or with too many rejected ones, is quarantined with the reason.
    """
    earlier = images_of_tier(context.store, dataset, "v1")
    partner = parents_of(context.store, [one.id for one in earlier], Role.SIMILAR_TO)
    standing = {one.id for one in earlier if one.state in LIVE}
    found_for = {partner[one][0] for one in standing}
    fallen = Counter(partner[one.id][0] for one in earlier if one.id not in standing)
    open_ = [image for image in base.images if image.id not in found_for]
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={
            "rejected": digest_of(*sorted(set(partner) - standing)),
            "calibration": judge.calibration.model_dump(mode="json"),
        },
        label="match similar images",
    )
    done = worked_items(context, stage, [image.seq for image in open_])
    looking = [
        image for image in open_ if fallen[image.id] < MOST_MATCHES and image.seq not in done
    ]
    matches = _matches(context, dataset, looking, earlier, base, pool, judge)

    def result(number: int, image: StoredEntity) -> WorkResult:
        if fallen[image.id] >= MOST_MATCHES:
            detail = (
                f"image {image.id} has no similar image: {fallen[image.id]} were rejected "
                f"because its captions fit them"
            )
            refused = Rejection(
                stage=STAGE,
                reason="similar_images_fell_away",
                detail=detail,
                context={"image": image.id},
            )
            return WorkResult(number, rejection=refused)
        original = base.originals[image.id]
        match = matches.found.get(original)
        if match is None:
            return WorkResult(number, rejection=matches.rejections.get(original))
        return WorkResult(number, entities=_matched(image, match, dataset, pool, judge))

    return run_each(context, stage, [(image.seq, image) for image in open_], result)


def _matched(
    image: StoredEntity, match: Match, dataset: str, pool: Pool, judge: Judge
) -> tuple[NewEntity, NewEntity]:
    """Return the similar image as one of v1, and how it was found."""
    original = pool.images[pool.place[match.candidate.image]]
    similar = copied_image(original, dataset, task_of(image), "v1", [(Role.SIMILAR_TO, image.id)])
    record = ConfusionMatch(
        image=image.id,
        similar=similar.id,
        similarity=match.candidate.similarity,
        rank=match.rank,
        embedder=judge.calibration.embedder,
    )
    return similar, new_entity(record, dataset, parents=[(Role.MATCHES, similar.id)])


def _matches(
    context: RunContext,
    dataset: str,
    looking: Sequence[StoredEntity],
    earlier: Sequence[StoredEntity],
    base: BaseTier,
    pool: Pool,
    judge: Judge,
) -> Matches:
    """Return a match for each open image; `earlier` are all that v1 ever had."""
    if not looking:
        return Matches({}, {})
    taken = [*images_of_tier(context.store, dataset, "v0"), *earlier]
    closed = set(originals_of(context.store, taken).values())
    pool.duplicates.look_up(closed)
    closed |= {other for one in closed for other in pool.duplicates.get(one, ())}
    candidates = _candidates(looking, base, pool, judge, closed)
    pool.duplicates.look_up(one.image for near in candidates.values() for one in near[:_LIKELY])
    return match_similar_images(candidates, pool.duplicates)


def _candidates(
    looking: Sequence[StoredEntity], base: BaseTier, pool: Pool, judge: Judge, closed: set[str]
) -> Mapping[str, list[Candidate]]:
    """Return the candidates of each image, by its original, nearest first.

    `closed` are images that are not available, including the images to match.
    """
    places = np.array([pool.place[base.originals[image.id]] for image in looking], np.int64)
    found = nearest_rows(
        pool.vectors[places],
        pool.vectors,
        _CANDIDATES,
        groups=(pool.sources[places], pool.sources),
        closed=[place for place, image in enumerate(pool.images) if image.id in closed],
    )
    numbers = {image.id: number for number, image in enumerate(base.images)}
    candidates: dict[str, list[Candidate]] = {}
    for row, image in enumerate(looking):
        original, is_found = base.originals[image.id], found.places[row] >= 0
        near, similarities = found.places[row][is_found], found.similarities[row][is_found]
        sure = _surely_others(
            numbers[image.id], pool.truths.get(original), near.tolist(), pool, judge
        )
        candidates[original] = [
            Candidate(pool.images[place].id, similarity)
            for place, similarity in zip(
                near[sure].tolist(), similarities[sure].tolist(), strict=True
            )
        ]
    return candidates


def _surely_others(
    number: int, truth: RenderedTruth | None, places: Sequence[int], pool: Pool, judge: Judge
) -> NDArray[np.bool_]:
    """Return the images that no caption of image `number` fits, as far as is known.

    `truth` is what was drawn into that image, if known.
    """
    if not places:
        return np.zeros(0, bool)
    captions = judge.texts[judge.owners == number].astype(np.float64)
    others = pool.vectors[list(places)].astype(np.float64)
    own = judge.rows[number : number + 1].astype(np.float64)
    left_out = np.full(len(places), number, np.int64)
    usual = judge.background.of(others, left_out) - judge.background.of(own, left_out[:1])
    advantages = (captions @ own.T) - captions @ others.T + usual
    theirs = [pool.truths.get(pool.images[place].id) for place in places]
    known = [
        [truth_differs(judge.wordings[caption], truth, other) for other in theirs]
        for caption in np.flatnonzero(judge.owners == number)
    ]
    sure: NDArray[np.bool_] = (np.array(known) | (advantages > judge.calibration.margin)).all(
        axis=0
    )
    return sure
