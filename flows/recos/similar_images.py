"""Match a similar image of v1 to each image of v0 (ReCoS, section 3.3)."""

import heapq
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.db.entities import LIVE, NewEntity, StoredEntity, WorkResult, parents_of
from loupe.flows.engine.runner import Stage, run_each, worked_items
from loupe.flows.recos.captioning import Captioning, task_of
from loupe.flows.recos.confusion_checks import Background, calibrate, truth_differs
from loupe.flows.recos.run import Judge, Pool, RecosRun, copied_image, originals_of
from loupe.retrieval.score_matrix import nearest_items, text_cosines
from loupe.schemas.base import digest_of
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Rejection
from loupe.schemas.recos import ConfusionMatch, RenderedTruth

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
    matches = Matches({}, {})
    for image, others in candidates.items():
        if image in found:
            matches.found[image] = found[image]
        else:
            matches.rejections[image] = _none_left(image, len(others))
    return matches


def _none_left(image: str, candidates: int) -> Rejection:
    why = "its source has no other available image that none of its captions fits"
    if candidates:
        why = (
            f"all of {candidates:,} candidates of its source are taken, are images to match, or "
            "have the content of one of these"
        )
    detail = f"image {image!r} has no similar image of its own: {why}"
    return Rejection.of(STAGE, "no_similar_image", detail, image=image, candidates=candidates)


# A candidate is skipped if the embedder is not sure that the captions of v0 do not fit it, because
# it would be a right answer that counts as wrong.

MOST_MATCHES = 5
"""The most similar images that are rejected for an image before the search for it ends."""
_CANDIDATES = 100
"""The most candidates of each image; further ones could hardly be confused with it."""

_LIKELY = 3
"""The candidates looked up at once: one of them will probably be taken."""


def load_judge(run: RecosRun) -> Judge:
    """Embed the captions of v0, and calibrate the margin."""
    base = run.base
    groups = np.unique([task_of(image) for image in base.images], return_inverse=True)[1]
    return judge_of(run.captioning, base.images, base.captions, groups)


def judge_of(
    models: Captioning,
    images: Sequence[StoredEntity],
    captions: Mapping[str, Sequence[StoredEntity]],
    groups: NDArray[np.int64] | None = None,
) -> Judge:
    """Embed images and their captions, and calibrate the margin.

    Args:
        models: the embedder, and how to calibrate.
        images: the images.
        captions: the captions of each image, by its id.
        groups: a number for each image; only captions of one group are compared.
    """
    wordings: list[str] = []
    numbers: list[int] = []  # of the image of each caption
    for number, image in enumerate(images):
        for one in captions[image.id]:
            wordings.append(one.record(Caption).text)
            numbers.append(number)
    texts, rows = models.embed_texts(wordings), models.embed(images)
    owners = np.array(numbers, np.int64)
    calibration = calibrate(
        rows, texts, owners, models.settings.confusion, str(models.embedder.ref), groups=groups
    )
    places = {image.id: number for number, image in enumerate(images)}
    background = Background(texts, owners)
    return Judge(places, rows, texts, tuple(wordings), owners, background, calibration)


def match_images(run: RecosRun) -> None:
    """Add a similar image of its source to v1 for every image of v0 that has none.

    An image that was rejected before, for any image, is not taken again. An image without a match,
    or with too many rejected ones, is quarantined with the reason.
    """
    earlier = run.images_of("v1")
    partner = parents_of(run.store, [one.id for one in earlier], Role.SIMILAR_TO)
    standing = {one.id for one in earlier if one.state in LIVE}
    found_for = {partner[one][0] for one in standing}
    fallen = Counter(partner[one.id][0] for one in earlier if one.id not in standing)
    open_ = [image for image in run.base.images if image.id not in found_for]
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=run.dataset,
        configuration={
            "rejected": digest_of(*sorted(set(partner) - standing)),
            "calibration": run.judge.calibration.model_dump(mode="json"),
        },
        label="match similar images",
    )
    done = worked_items(run.context, stage, [image.seq for image in open_])
    undone = [image for image in open_ if image.seq not in done]
    looking = [image for image in undone if fallen[image.id] < MOST_MATCHES]
    matches = _matches(run, looking, earlier)

    def result(number: int, image: StoredEntity) -> WorkResult:
        if fallen[image.id] >= MOST_MATCHES:
            detail = f"image {image.id} has no similar image: {fallen[image.id]} were rejected"
            return WorkResult.rejected(
                number, STAGE, "similar_images_fell_away", detail, image=image.id
            )
        original = run.base.originals[image.id]
        match = matches.found.get(original)
        if match is None:
            return WorkResult(number, rejection=matches.rejections.get(original))
        return WorkResult(number, entities=_matched(run, image, match))

    run.add(run_each(run.context, stage, [(image.seq, image) for image in open_], result))


def _matched(run: RecosRun, image: StoredEntity, match: Match) -> tuple[NewEntity, NewEntity]:
    """Return the similar image as one of v1, and how it was found."""
    original = run.pool.images[run.pool.place[match.candidate.image]]
    parents = [(Role.SIMILAR_TO, image.id)]
    similar = copied_image(original, run.dataset, task_of(image), "v1", parents)
    record = ConfusionMatch(
        image=image.id,
        similar=similar.id,
        similarity=match.candidate.similarity,
        rank=match.rank,
        embedder=run.judge.calibration.embedder,
    )
    return similar, run.create(record, [(Role.MATCHES, similar.id)])


def _matches(
    run: RecosRun, looking: Sequence[StoredEntity], earlier: Sequence[StoredEntity]
) -> Matches:
    """Return a match for each open image; `earlier` are all that v1 ever had."""
    if not looking:
        return Matches({}, {})
    duplicates = run.pool.duplicates
    closed = set(originals_of(run.store, [*run.images_of("v0"), *earlier]).values())
    duplicates.look_up(closed)
    for one in list(closed):
        closed.update(duplicates.get(one, ()))
    wanted = {run.base.originals[image.id]: image.id for image in looking}
    candidates = candidates_in(run.pool, wanted, closed, run.judge)
    return match_candidates(run.pool, candidates)


def match_candidates(pool: Pool, candidates: Mapping[str, Sequence[Candidate]]) -> Matches:
    """Match a candidate to each image, none of the content of another."""
    likely = [one.image for near in candidates.values() for one in near[:_LIKELY]]
    pool.duplicates.look_up(likely)
    return match_similar_images(candidates, pool.duplicates)


def candidates_in(
    pool: Pool, wanted: Mapping[str, str], closed: Collection[str], judge: Judge | None
) -> dict[str, list[Candidate]]:
    """Return the candidates of each image of a source, nearest first.

    Args:
        pool: the images of the sources.
        wanted: for each image to match, its copy in the dataset, which `judge` knows.
        closed: images that are not available, including the images to match.
        judge: leaves out images that a caption may fit; None if there are no captions.
    """
    candidates: dict[str, list[Candidate]] = {original: [] for original in wanted}
    looking = [original for original in wanted if original in pool.place]  # source removed
    if not looking:
        return candidates
    places = np.array([pool.place[original] for original in looking], np.int64)
    found = nearest_items(
        pool.vectors[places],
        pool.vectors,
        _CANDIDATES,
        dimension=pool.dimension,
        groups=(pool.sources[places], pool.sources),
        closed=[place for place, image in enumerate(pool.images) if image.id in closed],
    )
    for row, original in enumerate(looking):
        is_found = found.places[row] >= 0
        near, similarities = found.places[row][is_found], found.similarities[row][is_found]
        if judge is not None:
            number, truth = judge.places[wanted[original]], pool.truths.get(original)
            sure = _surely_others(number, truth, near.tolist(), pool, judge)
            near, similarities = near[sure], similarities[sure]
        pairs = zip(near.tolist(), similarities.tolist(), strict=True)
        candidates[original] = [Candidate(pool.images[place].id, cosine) for place, cosine in pairs]
    return candidates


def _surely_others(
    number: int, truth: RenderedTruth | None, places: Sequence[int], pool: Pool, judge: Judge
) -> NDArray[np.bool_]:
    """Return the images that no caption of image `number` fits, as far as is known.

    `truth` is what was drawn into that image, if known.
    """
    if not places:
        return np.zeros(0, bool)
    captions = judge.texts[judge.owners == number]
    others, own = pool.vectors[list(places)], judge.rows[number : number + 1]
    left_out = np.full(len(places), number, np.int64)
    usual = judge.background.of(others, left_out) - judge.background.of(own, left_out[:1])
    advantages = text_cosines(captions, own) - text_cosines(captions, others) + usual
    theirs = [pool.truths.get(pool.images[place].id) for place in places]
    known: list[list[bool]] = []
    for caption in np.flatnonzero(judge.owners == number):
        wording = judge.wordings[caption]
        known.append([truth_differs(wording, truth, other) for other in theirs])
    apart: NDArray[np.bool_] = advantages > judge.calibration.margin
    sure: NDArray[np.bool_] = (apart | np.array(known, bool).reshape(apart.shape)).all(axis=0)
    return sure
