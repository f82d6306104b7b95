"""Add images similar to those of v1, without captions: v2 (ReCoS, section 3.4)."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from loupe.db.decisions import decide, last_agents, last_reasons
from loupe.db.entities import (
    LIVE,
    NewDecision,
    NewEntity,
    StoredEntity,
    WorkResult,
    fetch,
    parents_of,
)
from loupe.db.store import Store
from loupe.flows.engine.embedding import picture_of
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, get_or_create_entity, run_each, store_settings
from loupe.flows.recos.captioning import task_of
from loupe.flows.recos.run import Pool, RecosRun, captions_of, copied_image, originals_of
from loupe.retrieval.score_matrix import nearest_items
from loupe.retrieval.similarity.near_duplicates import NearDuplicates, find_near_duplicates
from loupe.schemas.base import digest_of
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image
from loupe.schemas.recos import DuplicateQuestion, ExpansionReport
from loupe.schemas.similarity import AlikePair
from loupe.schemas.taxonomy import RetrievalTask

# Images similar to those of v1, each once, and none that v1 has (ReCoS, section 3.4).

_EXPANSION_STAGE = "expand_images"
_EXPANSION_VERSION = "1"

Deduplicate = Callable[[Sequence[str], frozenset[str]], NearDuplicates]
"""Keeps one image of each content, given ids in order and the protected ones among them."""


class Expansion(NamedTuple):
    """The images that v2 adds to v1.

    Attributes:
        images: ids of the new images, the most often found first, then by id.
        doubtful: pairs of images, new or of v1, that people have to decide.
        report: number of images at each step.
    """

    images: tuple[str, ...]
    doubtful: Iterable[AlikePair]
    report: ExpansionReport


def expand_images(
    neighbours: Mapping[str, Sequence[str]],
    wanted: int,
    deduplicate: Deduplicate,
    embedder: str,
) -> Expansion:
    """Merge the neighbours of all images of v1, without duplicates of each other or of v1.

    The result does not depend on the order of the images.

    Args:
        neighbours: for each image of v1, the other images of its source, most similar first; at
            most `wanted` of them are used.
        wanted: number of neighbours of each image.
        deduplicate: usually `loupe.retrieval.similarity.near_duplicates.find_near_duplicates` over
            stored fingerprints.
        embedder: the embedder of the neighbours, as `name@revision`.
    """
    v1 = frozenset(neighbours)
    taken = [others[:wanted] for others in neighbours.values()]
    counts = Counter(image for others in taken for image in others)
    outside = sorted(counts.keys() - v1, key=lambda image: (-counts[image], image))
    left = deduplicate([*sorted(v1), *outside], v1)
    new = tuple(sorted(set(left.kept) - v1, key=lambda image: (-counts[image], image)))
    dropped = [pair for cluster in left.clusters for pair in cluster.dropped]
    exact = sum(pair.exact for pair in dropped)
    report = ExpansionReport(
        images=len(v1),
        wanted=wanted,
        found=sum(map(len, taken)),
        distinct=len(counts),
        outside=len(outside),
        exact=exact,
        near=len(dropped) - exact,
        new=len(new),
        doubtful=len(left.doubtful),
        short=sum(len(others) < wanted for others in taken),
        embedder=embedder,
        embedding_recall=left.report.embedding_recall,
    )
    return Expansion(new, left.doubtful, report)


def leaving_images(
    order: Sequence[str], same: Iterable[tuple[str, str]], protected: Collection[str] = ()
) -> dict[str, str]:
    """Map each image to remove to the one that is kept instead.

    In the order of `order`, each image is kept unless it is the same as one that is kept already.
    So no image is removed through a chain of others, and one of each set of equal images is kept.

    Args:
        order: ids of the images, by decreasing preference.
        same: pairs of equal images, in any order.
        protected: ids of images that are always kept.
    """
    partners: dict[str, set[str]] = defaultdict(set)
    for one, other in same:
        partners[one].add(other)
        partners[other].add(one)
    places = {image: place for place, image in enumerate(order)}
    stays: set[str] = set()
    leaves: dict[str, str] = {}
    for image in order:
        standing = sorted(partners[image] & stays, key=places.__getitem__)
        if standing and image not in protected:
            leaves[image] = standing[0]
        else:
            stays.add(image)
    return leaves


# Fingerprint and embedding leave some pairs doubtful. Of two images that people find the same, one
# is removed: never one of v1, because it has captions, otherwise the one with fewer pixels.

_DUPLICATE_QUESTIONS_STAGE = "ask_of_duplicates"
_DUPLICATE_QUESTIONS_VERSION = "1"

_DECIMALS = 6
_SAME = "people found it the same as"
_NOT_SAME = "it is not found the same as another any more"


def _ask_of_duplicates(
    run: RecosRun, pairs: Iterable[AlikePair], members: Mapping[str, StoredEntity]
) -> StageReport:
    """Propose a question for each pair; open questions are active while their pair is doubtful.

    There are no questions about two images of v1: both have captions and are kept.

    Args:
        run: the run.
        pairs: pairs of images of the sources.
        members: images of the benchmark, by the image of a source that each is a copy of.
    """
    embedder = str(run.captioning.embedder.ref)
    # the number of a question consists of those of both images
    items: list[tuple[int, NewEntity]] = []
    for pair in pairs:
        stays, leaves = sorted((members[pair.first], members[pair.second]), key=_rank)
        if leaves.group != "v2":
            continue
        distance, apart = pair.spectrum_distance, pair.embedding_distance
        record = DuplicateQuestion(
            first=picture_of(stays),
            second=picture_of(leaves),
            mirrored=pair.mirrored,
            distance=None if distance is None else round(distance, _DECIMALS),
            similarity=None if apart is None else round(1 - apart, _DECIMALS),
            embedder=embedder,
        )
        question = run.create(record, [(Role.COMPARES, stays.id), (Role.COMPARES, leaves.id)])
        items.append((stays.seq << 32 | leaves.seq, question))
    stage = Stage(
        _DUPLICATE_QUESTIONS_STAGE,
        _DUPLICATE_QUESTIONS_VERSION,
        run.dataset,
        {"embedder": embedder},
        label="ask of images that may be the same",
    )
    report = run_each(run.context, stage, items, _stored)
    wanted = {question.id for _, question in items}
    run.sync_active(DuplicateQuestion, lambda one: one.id in wanted)
    return report


def _stored(number: int, entity: NewEntity) -> WorkResult:
    return WorkResult(number, entities=(entity,))


def follow_duplicates(run: RecosRun) -> None:
    """Reject images that were found to be duplicates, in the name of who answered.

    A removed image is restored if people change the answer.
    """
    store, queue = run.store, run.queues["duplicates"]
    ids = [one.id for one in run.find(DuplicateQuestion, "rejected")]
    agents = last_agents(store, ids)
    compared = parents_of(store, ids, Role.COMPARES)
    images = _active_images(store, run.find(Image))
    same: dict[frozenset[str], str] = {}  # question by pair
    for one in ids:
        pair = frozenset(compared[one])
        if pair <= images.keys():
            same[pair] = one
    order = sorted(frozenset().union(*same), key=lambda one: _rank(images[one]))
    captioned = {one for one in order if images[one].group != "v2"}
    leaves = leaving_images(order, [(min(pair), max(pair)) for pair in same], captioned)
    decisions: list[NewDecision] = []
    for image_id, stays in leaves.items():
        question = same[frozenset((image_id, stays))]
        reason = f"{_SAME} {stays} (question {question})"
        decisions.append(NewDecision(image_id, "reject", agents[question], reason))
    for image_id, image in images.items():
        if image.state not in LIVE and image_id not in leaves:
            decisions.append(NewDecision(image_id, "reopen", queue.agent, _NOT_SAME))
    decide(store, decisions)
    if leaves:
        run.say(
            f"{len(leaves):,} images of v2 left out: people found them to be the same as others"
        )


def _active_images(store: Store, images: Iterable[StoredEntity]) -> dict[str, StoredEntity]:
    """Return images that are in the benchmark, or would be if not removed as duplicates."""
    found = {one.id: one for one in images}
    reasons = last_reasons(store, [one.id for one in found.values() if one.state == "rejected"])

    def is_active(image: StoredEntity) -> bool:
        return image.state in LIVE or reasons.get(image.id, "").startswith(_SAME)

    return {id_: one for id_, one in found.items() if is_active(one)}


def _rank(image: StoredEntity) -> tuple[bool, int, str]:
    """Return the sort key of images, by decreasing preference."""
    record = image.record(Image)
    return image.group == "v2", -record.width_px * record.height_px, image.id


# Add similar images of their sources to the images of v1, without captions: v2.

_LABEL = "expand the gallery"


def expand_gallery(run: RecosRun) -> None:
    """Add the neighbours of all images of v1 as images of v2, and report the counts.

    Proposes a question for each doubtful pair. An image has the task of an image of v1 that it is a
    neighbour of. Images that are no longer neighbours, because v1 or the sources have changed, are
    deactivated.
    """
    context, dataset, pool = run.context, run.dataset, run.pool
    neighbours, embedder = run.build.neighbours, str(run.captioning.embedder.ref)
    chosen_with = {
        "neighbours": neighbours,
        "near_duplicates": run.settings.near_duplicates.model_dump(mode="json"),
        "embedder": embedder,
    }
    v1, excluded = _load_v1(run)
    near = neighbours_in(pool, sorted(v1), neighbours, excluded)
    found = expand_images(near, neighbours, partial(deduplicated, pool), embedder)
    counts = get_or_create_entity(context, found.report, dataset).id
    chosen_by = store_settings(
        context, dataset, _EXPANSION_STAGE, _EXPANSION_VERSION, chosen_with
    ).id
    tasks: dict[str, RetrievalTask] = {}  # that of the first image of v1 by id
    for one in sorted(near, reverse=True):
        tasks |= dict.fromkeys(near[one], task_of(v1[one]))
    parents = [(Role.EXPANDED_WITH, chosen_by)]
    added = {one: pool.images[pool.place[one]] for one in found.images}
    copies: dict[str, NewEntity] = {}
    for one, image in added.items():
        copies[one] = copied_image(image, dataset, tasks[one], "v2", parents)
    configuration = {"settings": chosen_by, "images": digest_of(*found.images), "counts": counts}
    stage = Stage(_EXPANSION_STAGE, _EXPANSION_VERSION, dataset, configuration, label=_LABEL)
    items = sorted((image.seq, copies[one]) for one, image in added.items())
    copied = run_each(context, stage, items, _stored)
    wanted = {copy.id for copy in copies.values()}

    def is_active(image: StoredEntity) -> bool | None:
        return image.id in wanted if image.group == "v2" else None

    run.sync_active(Image, is_active, (*LIVE, "rejected"))
    stored = fetch(run.store, wanted)
    members = v1 | {one: stored[copy.id] for one, copy in copies.items()}
    run.add(copied, _ask_of_duplicates(run, found.doubtful, members))
    is_reviewed = run.queues["duplicates"].policy.policy != "auto"
    of = found.report
    kept = "" if is_reviewed or not of.doubtful else "; all stay (duplicates_gate)"
    run.say(
        f"expanded {of.images:,} images of v1: {of.found:,} neighbours, "
        f"{of.outside:,} different ones outside v1, less {of.exact:,} equal and "
        f"{of.near:,} near-duplicates: {of.new:,} new ({of.doubtful:,} pairs in doubt{kept})"
    )


def _load_v1(run: RecosRun) -> tuple[dict[str, StoredEntity], set[str]]:
    """Return the images of v1 that are released, and the images that must not be added to them.

    Both are named by the image of a source. Images that people or the policy rejected, and their
    duplicates, must not be added as distractors; an image without captions has no neighbours.
    """
    store, pool = run.store, run.pool
    images = [*run.images_of("v0"), *run.images_of("v1")]
    originals = originals_of(store, images)
    captions = captions_of(store, [image.id for image in images])
    live: dict[str, StoredEntity] = {}
    rejected: set[str] = set()
    for image in images:
        if image.state not in LIVE:
            rejected.add(originals[image.id])
        elif captions.get(image.id):
            live[originals[image.id]] = image
    pool.duplicates.look_up(sorted(rejected))
    excluded = {originals[image.id] for image in images}
    for one in rejected:
        excluded.update(pool.duplicates.get(one, ()))
    excluded -= live.keys()
    return {one: image for one, image in live.items() if one in pool.place}, excluded


def neighbours_in(
    pool: Pool, v1: Sequence[str], wanted: int, excluded: Collection[str]
) -> Mapping[str, list[str]]:
    """Return the most similar images of its source for each image of v1, nearest first."""
    places = np.array([pool.place[one] for one in v1], np.int64)
    found = nearest_items(
        pool.vectors[places],
        pool.vectors,
        min(wanted, len(pool.images)),
        dimension=pool.dimension,
        groups=(pool.sources[places], pool.sources),
        excluded=places,
        closed=[place for place, image in enumerate(pool.images) if image.id in excluded],
    )
    neighbours: dict[str, list[str]] = {}
    for one, row in zip(v1, found.places.tolist(), strict=True):
        neighbours[one] = [pool.images[place].id for place in row if place >= 0]
    return neighbours


def deduplicated(pool: Pool, images: Sequence[str], protected: frozenset[str]) -> NearDuplicates:
    """Keep one image of each content; rendered images are distinct even if they look alike."""
    compared = [image for image in images if image not in pool.truths]
    found = find_near_duplicates(
        {image: pool.fingerprints[image] for image in compared},
        pool.models.settings.near_duplicates,
        embeddings=pool.mean_vectors[[pool.place[image] for image in compared]],
        embedder=str(pool.models.embedder.ref),
        protected=protected & set(compared),
    )
    kept = set(found.kept) | pool.truths.keys()
    return found._replace(kept=tuple(image for image in images if image in kept))
