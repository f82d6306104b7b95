"""Chooses the candidate among the first results of each search (CCD, step 2)."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from db.decisions import last_agents
from db.entities import (
    LIVE,
    AgentRef,
    NewEntity,
    StoredEntity,
    children_of,
    fetch,
    find,
    new_entity,
    pages,
    parents_of,
)
from db.store import Store
from db.work import WorkResult, drop_rejections, register_plan, rejections_of
from flows.ccd.anchors import is_anchor
from flows.ccd.choice_test import write_choice_report
from flows.ccd.downloading import Found, ResultsOfSearch
from flows.ccd.image_requests import Looks, UsedImages, strategies_of_orders
from flows.engine.context import RunContext
from flows.engine.embedding import CachedEmbedder
from flows.engine.image_reading import stored_picture
from flows.engine.report import Deferred, StageReport, StageResult
from flows.engine.runner import Stage, get_or_create_entity, run_stream, sole_run, worked_items
from flows.recos.task_images import picture_of
from models.embedding import Vectors
from retrieval.similarity.near_duplicates import near_duplicate_pairs
from schemas.contrast import (
    ChoiceCalibration,
    ChoiceSettings,
    ConsideredResult,
    FoundPicture,
    ImageRequest,
    ObservedResult,
    ResultsConsidered,
    ResultVerdict,
    SuggestedBound,
)
from schemas.near_duplicates import ImageFingerprint, NearDuplicateSettings
from schemas.profile import ContrastSettings
from schemas.proposals import Candidate, FoundImage, Picture, Strategy
from schemas.provenance import Role
from schemas.records import Image, Rejection

# CCD takes the most similar of five. That one is often the anchor itself, cropped or saved again: a
# caption of the anchor is true of it. So near-duplicates are left out first, then results above a
# ceiling (among them near-duplicates that no fingerprint finds). A result below a floor has nothing
# in common with the anchor but words.

STAGE = "choose_candidates"
VERSION = "1"

Vector = NDArray[Any]
"""An embedding, of shape (d,)."""
CandidateVectors = NDArray[Any]
"""Embeddings, of shape (n, d)."""

_DECIMALS = 6


class Choice(NamedTuple):
    """The result that was chosen.

    Attributes:
        place: which of the results it is, from 0.
        similarity: its cosine to the anchor.
        considered: the verdict on each result that was looked at, in their order.
    """

    place: int
    similarity: float
    considered: tuple[ConsideredResult, ...]


def choose_candidate(
    anchor: Vector,
    results: CandidateVectors,
    near_duplicates: Sequence[bool],
    settings: ChoiceSettings,
    already_used: Sequence[bool] = (),
) -> Choice | Rejection:
    """The candidate among the first results; of equally similar ones the first.

    Reasons of a rejection: `no_results`; `too_similar`, where all of them are near-duplicates of
    the anchor or above the ceiling; `already_used`, where there are others, and each is an image of
    the dataset already; `too_different` otherwise. Its context holds the bounds and the verdict on
    each result.

    Args:
        anchor: the embedding of the anchor; of any length but 0.
        results: those of the results, in the order of the search, of shape (n, d).
        near_duplicates: for each of them whether it has the anchor's content.
        settings: how many are looked at, and the bounds.
        already_used: for each of them whether it is an image of the dataset already; none are,
            where nothing is said.
    """
    used = already_used or [False] * len(near_duplicates)
    similarities = similarities_to(anchor, results)[: settings.first]
    outcomes = [
        _outcome(similarity, near_duplicate, is_used, settings)
        for similarity, near_duplicate, is_used in zip(
            similarities, near_duplicates, used, strict=False
        )
    ]
    fitting = [place for place, outcome in enumerate(outcomes) if outcome == "less_similar"]
    if not fitting:
        return _rejection(_considered(similarities, outcomes), settings)
    best = max(fitting, key=lambda place: (similarities[place], -place))
    outcomes[best] = "chosen"
    return Choice(best, similarities[best], _considered(similarities, outcomes))


def fit_doubts(fit: float, settings: ChoiceSettings) -> tuple[str, ...]:
    """What speaks against a chosen result, a sentence each.

    Args:
        fit: its cosine to the contrastive caption less that of the anchor to its own caption.
        settings: how much less a result may fit.
    """
    if fit >= -settings.doubtful_misfit:
        return ()
    doubt = (
        f"It fits the wanted caption less than the anchor fits its own (by {-fit:.3f}), so that "
        "more may differ than the one detail."
    )
    return (doubt,)


def similarities_to(anchor: Vector, results: CandidateVectors) -> list[float]:
    """The cosine of each result to the anchor, six decimals; no results give none.

    Raises:
        ValueError: the shapes do not fit each other.
    """
    if len(results) == 0:
        return []
    one, rows = np.asarray(anchor, np.float64), np.asarray(results, np.float64)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(one)
    cosines = np.clip(rows @ one / np.where(lengths > 0, lengths, 1.0), -1, 1)
    found: list[float] = np.round(cosines, _DECIMALS).tolist()
    return found


def _outcome(
    similarity: float, near_duplicate: bool, is_used: bool, settings: ChoiceSettings
) -> ResultVerdict:
    if near_duplicate:
        return "near_duplicate"
    if is_used:
        return "already_used"
    if similarity > settings.ceiling:
        return "too_similar"
    return "too_different" if similarity < settings.floor else "less_similar"


def _considered(
    similarities: Sequence[float], outcomes: Sequence[ResultVerdict]
) -> tuple[ConsideredResult, ...]:
    return tuple(
        ConsideredResult(rank=rank, similarity=similarity, verdict=outcome)
        for rank, (similarity, outcome) in enumerate(
            zip(similarities, outcomes, strict=True), start=1
        )
    )


def _rejection(considered: Sequence[ConsideredResult], settings: ChoiceSettings) -> Rejection:
    figures = {
        "first": settings.first,
        "floor": settings.floor,
        "ceiling": settings.ceiling,
        "results": [one.model_dump() for one in considered],
    }
    if not considered:
        return Rejection(
            stage=STAGE,
            reason="no_results",
            detail="the search gave no image to choose from",
            context=figures,
        )
    different = [one.similarity for one in considered if one.verdict == "too_different"]
    duplicates = sum(one.verdict == "near_duplicate" for one in considered)
    used = sum(one.verdict == "already_used" for one in considered)
    similar = len(considered) - duplicates - used - len(different)
    counts = [
        (duplicates, "the anchor again (a near-duplicate)"),
        (used, "an image of the dataset already"),
        (similar, f"more similar to it than {settings.ceiling:g}"),
        (len(different), f"less similar than {settings.floor:g}"),
    ]
    found = ", ".join(f"{count} {what}" for count, what in counts if count)
    nearest = f"; the most similar of these has {max(different):.3f}" if different else ""
    reason = "too_different" if different else "already_used" if used else "too_similar"
    return Rejection(
        stage=STAGE,
        reason=reason,
        detail=f"none of {len(considered)} results can be the candidate: {found}{nearest}",
        context=figures,
    )


# Which results of a search are the anchor again.

_ANCHOR, _RESULT = "anchor", "result"


def anchor_duplicates(
    anchor: ImageFingerprint,
    results: Sequence[ImageFingerprint],
    settings: NearDuplicateSettings,
    vectors: tuple[Vector, CandidateVectors] | None = None,
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
                near_duplicate_pairs(
                    {_ANCHOR: anchor, _RESULT: result},
                    settings,
                    None if vectors is None else np.stack([vectors[0], vectors[1][place]]),
                )
            )
        )
        for place, result in enumerate(results)
    ]


# Where the bounds of the choice should lie, from results whose similarity to the anchor is known.
#
# The *floor*. Where people judged candidates, it is what all but `LOST_SHARE` of those that they
# accepted are above. Where they have not yet, a result should be nearer to its anchor than
# unrelated pictures are: the floor is what only `LOST_SHARE` of pairs of an anchor and a result of
# *another* anchor's search are above.
#
# The *ceiling* separates near-duplicates, which fingerprints and people find, from other results:
# of all values the one that puts the fewest on the wrong side, and no lower than all but
# `LOST_SHARE` of the candidates that people accepted.
#
# A bound is suggested only where there are `LEAST_KNOWN` of what it is found on.

LOST_SHARE = 0.05
LEAST_KNOWN = 20
SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""The quantiles that are reported."""
_CALIBRATION_DECIMALS = 3


def calibrate_choice(
    observed: Sequence[ObservedResult],
    anchors: int,
    unrelated: NDArray[np.float64],
    settings: ChoiceSettings,
    embedder: str,
) -> ChoiceCalibration:
    """What results are like, and the bounds that follow.

    Args:
        observed: results of searches, candidates that people judged among them.
        anchors: how many anchors they are of.
        unrelated: similarities of anchors to results of other anchors, of shape (m,); see
            `unrelated_similarities`.
        settings: the bounds in force.
        embedder: what the similarities are of, as `name@revision`.
    """
    others = np.array([one.similarity for one in observed if not one.near_duplicate])
    duplicates = np.array([one.similarity for one in observed if one.near_duplicate])
    accepted = np.array([one.similarity for one in observed if one.accepted])
    floor, ceiling = _floor(accepted, unrelated), _ceiling(duplicates, others, accepted)
    low = settings.floor if floor.value is None else floor.value
    high = settings.ceiling if ceiling.value is None else ceiling.value
    return ChoiceCalibration(
        embedder=embedder,
        settings=settings,
        anchors=anchors,
        results=len(observed),
        near_duplicates=len(duplicates),
        judged=sum(one.accepted is not None for one in observed),
        accepted=len(accepted),
        quantiles=_quantiles(others),
        unrelated=_quantiles(unrelated),
        floor=floor,
        ceiling=ceiling,
        within=_within(others, settings.floor, settings.ceiling),
        within_suggested=_within(others, low, high),
    )


def unrelated_similarities(
    anchors: NDArray[np.floating], results: NDArray[np.floating], owners: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The cosine of each anchor to each result of another one's search, of shape (m,).

    Args:
        anchors: embeddings of unit length, of shape (a, d).
        results: embeddings of unit length, of shape (n, d).
        owners: for each result the row of its anchor, of shape (n,).
    """
    cosines = np.asarray(anchors, np.float64) @ np.asarray(results, np.float64).T
    apart = np.arange(len(anchors))[:, None] != owners[None, :]
    found: NDArray[np.float64] = cosines[apart]
    return found


def _floor(accepted: NDArray[np.float64], unrelated: NDArray[np.float64]) -> SuggestedBound:
    if len(accepted) >= LEAST_KNOWN:
        return SuggestedBound(
            value=_rounded(np.quantile(accepted, LOST_SHARE)),
            known=len(accepted),
            reason=f"{1 - LOST_SHARE:.0%} of the candidates that people accepted are above it",
        )
    if len(unrelated) >= LEAST_KNOWN:
        return SuggestedBound(
            value=_rounded(np.quantile(unrelated, 1 - LOST_SHARE)),
            known=len(unrelated),
            reason=f"{1 - LOST_SHARE:.0%} of unrelated pairs of pictures are below it",
        )
    return SuggestedBound(value=None, known=len(accepted), reason="too little is known")


def _ceiling(
    duplicates: NDArray[np.float64], others: NDArray[np.float64], accepted: NDArray[np.float64]
) -> SuggestedBound:
    known = len(duplicates)
    if known < LEAST_KNOWN or len(others) < LEAST_KNOWN:
        reason = f"fewer than {LEAST_KNOWN} near-duplicates or other results are known"
        return SuggestedBound(value=None, known=known, reason=reason)
    split, wrong = _best_split(others, duplicates)
    least = np.quantile(accepted, 1 - LOST_SHARE) if len(accepted) >= LEAST_KNOWN else -1.0
    if least > split:
        reason = f"{1 - LOST_SHARE:.0%} of the candidates that people accepted are below it"
        return SuggestedBound(value=_rounded(least), known=len(accepted), reason=reason)
    reason = (
        f"tells near-duplicates from other results but for {wrong:,} of {known + len(others):,}"
    )
    return SuggestedBound(value=_rounded(split), known=known, reason=reason)


def _best_split(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> tuple[float, int]:
    """The value with the fewest of `lower` above it and of `upper` at or below it, and how many.

    Of equally good values the middle of the lowest room between two of them.
    """
    values = np.unique(np.concatenate((lower, upper)))
    middles = np.append((values[:-1] + values[1:]) / 2, values[-1])
    wrong = len(lower) - np.searchsorted(np.sort(lower), middles, side="right")
    wrong = wrong + np.searchsorted(np.sort(upper), middles, side="right")
    best = int(np.argmin(wrong))
    return float(middles[best]), int(wrong[best])


def _quantiles(values: NDArray[np.float64]) -> tuple[tuple[float, float], ...]:
    if not len(values):
        return ()
    return tuple((share, _rounded(np.quantile(values, share))) for share in SHARES)


def _within(values: NDArray[np.float64], floor: float, ceiling: float) -> int:
    return int(((values >= floor) & (values <= ceiling)).sum())


def _rounded(value: float | np.floating) -> float:
    return round(float(value), _CALIBRATION_DECIMALS)


# Chooses the candidate among the first results of each search (CCD, step 2).


_NOT_SEARCHED = "not_searched"
_NOT_DOWNLOADED = "not_downloaded"
_PICTURES = "pictures"


def choose_candidates(
    context: RunContext,
    dataset: str,
    settings: ContrastSettings,
    searched: Found,
    embedder: CachedEmbedder,
) -> StageReport:
    """Chooses a candidate for every order that was searched for and whose hits were looked at.

    Args:
        context: the run.
        dataset: that is built.
        settings: the bounds, and when two pictures have the same content.
        searched: the outcome of the search; hits of others do not count.
        embedder: says how similar pictures are.
    """
    store = context.store
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={
            "choice": settings.choice.model_dump(mode="json"),
            "embedder": str(embedder.ref),
            "near_duplicates": settings.near_duplicates.model_dump(mode="json"),
            "search": searched.search,
        },
        agents=(AgentRef.of_model(embedder.ref),),
        chunk_size=50,
        independent=True,  # what a limit left for later keeps nothing else
        workers=1,  # what was chosen for one strategy is not chosen for the next
        label="choose candidates",
    )
    choosing = _Choosing(context, dataset, settings, embedder)

    def work(items: Sequence[tuple[int, StoredEntity]]) -> list[StageResult]:
        orders = [order for _, order in items]
        strategies = strategies_of_orders(store, orders)
        results_of = ResultsOfSearch(store, searched, orders)
        results: dict[str, StageResult] = {}
        open_: list[_Search] = []
        for order in orders:
            if not results_of.is_answered(order):
                results[order.id] = Deferred(order.seq, _NOT_SEARCHED)
            elif not results_of.hits(order):  # the search has rejected it
                results[order.id] = WorkResult(order.seq)
            elif not results_of.is_looked_at(order):
                results[order.id] = Deferred(order.seq, _NOT_DOWNLOADED)
            elif found := results_of.pictures(order):
                open_.append(_Search(order, strategies[order.id], tuple(found)))
            else:
                results[order.id] = _no_download(order, strategies[order.id], results_of)
        chosen = choosing.results(open_)
        return [results.get(order.id) or chosen[order.id] for order in orders]

    with sole_run(context, dataset, stage.label, VERSION):  # or two runs choose one picture twice
        open_ = find(store, dataset, ImageRequest.kind, states=("proposed",))
        orders = [one for one in open_ if one.group == "search"]
        _take_back_outdated(store, orders, stage, searched)
        done = worked_items(context, stage, [one.seq for one in orders])
        pending = [one for one in orders if one.seq not in done]
        fits = choosing.fits(searched, pending)
        # A picture is chosen once: for the strategy whose wanted caption it fits best. Numbers of
        # orders depend on which chunk was committed first.
        pending.sort(key=lambda one: (-fits[one.id], one.id))
        return run_stream(
            context, stage, [(one.seq, one) for one in pending], work, total=len(pending)
        )


def _take_back_outdated(
    store: Store, orders: Sequence[StoredEntity], stage: Stage, searched: Found
) -> None:
    """Has those orders chosen for again whose pictures are others than when none was chosen."""
    plan = register_plan(store, stage.name, stage.version, stage.configuration)
    for page in pages(orders):
        rejected = rejections_of(store, plan, [one.seq for one in page])
        without = [one for one in page if one.seq in rejected]
        results_of = ResultsOfSearch(store, searched, without)
        outdated = [
            one.seq
            for one in without
            if rejected[one.seq].context.get(_PICTURES)
            != [picture.id for picture in results_of.pictures(one)]
        ]
        drop_rejections(store, plan, outdated)


def _no_download(
    order: StoredEntity, strategy: StoredEntity, results_of: ResultsOfSearch
) -> WorkResult:
    """That a search gave results, and why none of them is there to be chosen."""
    reasons = results_of.refusals(order)
    count = len(results_of.hits(order))
    listed = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items()))
    rejection = Rejection(
        stage=STAGE,
        reason="no_download",
        detail=f"none of {count} results could be downloaded ({listed})",
        context={
            "query": strategy.record(Strategy).contrastive_caption,
            "reasons": reasons,
            _PICTURES: [],
        },
    )
    return WorkResult(order.seq, rejection=rejection)


class _Search(NamedTuple):
    """An order, the strategy that it is for, and the pictures that were found, by rank."""

    order: StoredEntity
    strategy: StoredEntity
    found: tuple[StoredEntity, ...]

    @property
    def anchor_id(self) -> str:
        """The image that the pictures are compared with."""
        return self.strategy.record(Strategy).anchor.image_id or ""

    @property
    def pictures(self) -> list[Picture]:
        """The pictures that were found."""
        return [_picture_of(one) for one in self.found]


class _Rows(NamedTuple):
    """What a search looks like to the embedder; `pictures` begin with the anchor."""

    pictures: Vectors
    caption: Vectors
    wanted: Vectors


class _Choosing:
    """The choices of a run."""

    def __init__(
        self,
        context: RunContext,
        dataset: str,
        settings: ContrastSettings,
        embedder: CachedEmbedder,
    ) -> None:
        self._context = context
        self._dataset = dataset
        self._bounds: ChoiceSettings = settings.choice
        self._near: NearDuplicateSettings = settings.near_duplicates
        self._embedder = embedder
        self._looks = Looks(context)

    def results(self, searches: Sequence[_Search]) -> dict[str, WorkResult]:
        """The result of each search, by the id of its request."""
        rows = self._rows(searches)
        return {
            search.order.id: self._result(search, own)
            for search, own in zip(searches, rows, strict=True)
        }

    def fits(self, searched: Found, orders: Sequence[StoredEntity]) -> dict[str, float]:
        """How well the best picture of each order fits the wanted caption, by the order's id."""
        fits = {order.id: -inf for order in orders}
        for page in pages(orders):
            strategies = strategies_of_orders(self._context.store, page)
            results_of = ResultsOfSearch(self._context.store, searched, page)
            searches = [
                _Search(order, strategies[order.id], tuple(found))
                for order in page
                if (found := results_of.pictures(order))
            ]
            for search, rows in zip(searches, self._rows(searches), strict=True):
                fits[search.order.id] = float(np.max(rows.pictures[1:] @ rows.wanted))
        return fits

    @cached_property
    def _used(self) -> UsedImages:
        """The active anchors and candidates, those of this run included: one is enough of each."""
        store, dataset = self._context.store, self._dataset
        used = UsedImages(self._looks, self._near)
        for image in find(store, dataset, Image.kind, states=LIVE):
            if is_anchor(image):
                used.add(image.id, picture_of(image))
        for one in find(store, dataset, Candidate.kind, states=LIVE):
            record = one.record(Candidate)
            used.add(record.strategy_id or "", record.image)
        return used

    def _rows(self, searches: Sequence[_Search]) -> list[_Rows]:
        strategies = [one.strategy.record(Strategy) for one in searches]
        shown = [
            [strategy.anchor, *search.pictures]
            for strategy, search in zip(strategies, searches, strict=True)
        ]
        pictures = self._embedder.embed_images(
            [stored_picture(self._context, one) for many in shown for one in many]
        )
        captions = self._embedder.embed_texts([one.caption for one in strategies])
        wanted = self._embedder.embed_texts([one.contrastive_caption for one in strategies])
        rows, start = [], 0
        for number, many in enumerate(shown):
            part = slice(start, start + len(many))
            rows.append(_Rows(pictures[part], captions[number], wanted[number]))
            start = part.stop
        return rows

    def _result(self, search: _Search, rows: _Rows) -> WorkResult:
        """The candidate, or why there is none, and the verdict on each result."""
        anchor, results = rows.pictures[0], rows.pictures[1:]
        anchor_picture = search.strategy.record(Strategy).anchor
        looks = [self._looks.of(one) for one in (anchor_picture, *search.pictures)]
        again = are_again(looks, rows.pictures, self._near)
        own = {search.anchor_id, search.strategy.id}
        known = self._used.are_used(search.pictures, but_for=own)
        outcome = choose_candidate(anchor, results, again, self._bounds, known)
        considered = (
            outcome.context["results"] if isinstance(outcome, Rejection) else outcome.considered
        )
        order = search.order
        looked_at = new_entity(
            ResultsConsidered(
                anchor_id=search.anchor_id,
                picture_ids=tuple(one.id for one in search.found[: len(considered)]),
                results=considered,
            ),
            self._dataset,
            parents=[(Role.CONSIDERED_FOR, order.id)],
            group=search.anchor_id,
        )
        if isinstance(outcome, Rejection):
            query = search.strategy.record(Strategy).contrastive_caption
            considered_ids = [one.id for one in search.found]
            context = {**outcome.context, "query": query, _PICTURES: considered_ids}
            rejection = outcome.model_copy(update={"context": context})
            return WorkResult(order.seq, (looked_at,), rejection=rejection)
        found = search.found[outcome.place]
        self._used.add(search.strategy.id, _picture_of(found))
        fit = float(results[outcome.place] @ rows.wanted - anchor @ rows.caption)
        candidate = _candidate(search, found, outcome, fit_doubts(fit, self._bounds))
        return WorkResult(order.seq, (candidate, looked_at))


def are_again(
    looks: Sequence[ImageFingerprint | Rejection],
    vectors: Vectors,
    settings: NearDuplicateSettings,
) -> list[bool]:
    """For each picture after the first, the anchor, whether it has the anchor's content.

    Args:
        looks: the fingerprint of each picture, or why it has none: then similarity alone decides.
        vectors: their embeddings, of shape (n, d).
        settings: when two pictures have the same content.
    """
    anchor, *results = looks
    again = [False] * len(results)
    if not isinstance(anchor, ImageFingerprint):
        return again
    known = [(at, one) for at, one in enumerate(results) if isinstance(one, ImageFingerprint)]
    places = [at for at, _ in known]
    rows = vectors[0], vectors[1:][places]
    judged = anchor_duplicates(anchor, [one for _, one in known], settings, rows)
    for place, is_again in zip(places, judged, strict=True):
        again[place] = is_again
    return again


def _candidate(
    search: _Search, found: StoredEntity, choice: Choice, doubts: tuple[str, ...]
) -> NewEntity:
    strategy, picture = search.strategy.record(Strategy), found.record(FoundPicture)
    hit = picture.found.hit
    candidate = Candidate(
        source=strategy.source,
        anchor=strategy.anchor,
        caption=strategy.caption,
        strategy_id=search.strategy.id,
        detail=strategy.detail,
        difference=strategy.difference,
        plan=strategy.plan,
        contrastive_caption=strategy.contrastive_caption,
        image=picture.picture,
        origin=FoundImage(
            engine=picture.found.engine,
            query=picture.found.query,
            rank=hit.rank,
            page=hit.page_url or hit.image_url,
            licence=hit.licence or "",
            creator=hit.creator,
        ),
        similarity=choice.similarity,
        doubts=doubts,
    )
    parents = [
        (Role.MADE_FOR, search.strategy.id),
        (Role.ORDERED_BY, search.order.id),
        (Role.FOUND_AS, found.id),
    ]
    return new_entity(candidate, search.order.dataset, parents=parents, group=search.anchor_id)


def _picture_of(found: StoredEntity) -> Picture:
    return found.record(FoundPicture).picture


# The report on similarities and suggested bounds.

_MOST_SEARCHES = 200
"""Searches whose results are compared with other anchors: their pairs are more than enough."""
_ACCEPTED = {"accepted": True, "rejected": False}


class CalibratedChoice(NamedTuple):
    """What was found, and the page that shows it."""

    calibration: ChoiceCalibration
    page: Path


def calibrate_choices(
    context: RunContext, dataset: str, settings: ChoiceSettings, embedder: CachedEmbedder
) -> CalibratedChoice | None:
    """Stores how similar results are, and writes the page `reports/<dataset>-choices.html`.

    None where no search gave a result.
    """
    searches = [
        (one, record)
        for one in sorted(
            find(context.store, dataset, ResultsConsidered.kind), key=lambda one: one.id
        )
        if (record := one.record(ResultsConsidered)).results
    ]
    if not searches:
        return None
    people = _people_said(context.store, [one for one, _ in searches])
    observed = [
        ObservedResult(
            similarity=result.similarity,
            near_duplicate=result.verdict == "near_duplicate",
            accepted=people.get(one.id) if result.verdict == "chosen" else None,
        )
        for one, record in searches
        for result in record.results
    ]
    records = [record for _, record in searches]
    calibration = calibrate_choice(
        observed,
        len({record.anchor_id for record in records}),
        _unrelated(context, records[:_MOST_SEARCHES], embedder),
        settings,
        str(embedder.ref),
    )
    get_or_create_entity(context, calibration, dataset)
    page = context.settings.home / "reports" / f"{dataset}-choices.html"
    write_choice_report(calibration, observed, dataset, page)
    return CalibratedChoice(calibration, page)


def _people_said(store: Store, considered: Sequence[StoredEntity]) -> Mapping[str, bool]:
    """Of each search whose candidate people decided on, whether they accepted it."""
    orders = parents_of(store, [one.id for one in considered], Role.CONSIDERED_FOR)
    made = children_of(store, [found[0] for found in orders.values()], Role.ORDERED_BY)
    entities = fetch(store, {id_ for many in made.values() for id_ in many})
    judges = last_agents(store, list(entities))
    said = {
        order: _ACCEPTED[entities[id_].state]
        for order, many in made.items()
        for id_ in many
        if entities[id_].kind == Candidate.kind
        and entities[id_].state in _ACCEPTED
        and judges[id_].kind == "person"
    }
    return {one: said[found[0]] for one, found in orders.items() if found[0] in said}


def _unrelated(
    context: RunContext, records: Sequence[ResultsConsidered], embedder: CachedEmbedder
) -> NDArray[np.float64]:
    """The similarities of anchors to the results of others."""
    anchors = list(dict.fromkeys(record.anchor_id for record in records))
    place = {anchor: at for at, anchor in enumerate(anchors)}
    pairs = [(place[record.anchor_id], id_) for record in records for id_ in record.picture_ids]
    stored = fetch(context.store, [*anchors, *(id_ for _, id_ in pairs)])
    pictures = [picture_of(stored[anchor]) for anchor in anchors]
    pictures += [stored[id_].record(FoundPicture).picture for _, id_ in pairs]
    rows = embedder.embed_images([stored_picture(context, picture) for picture in pictures])
    owners = np.array([owner for owner, _ in pairs], np.int64)
    return unrelated_similarities(rows[: len(anchors)], rows[len(anchors) :], owners)


def uncalibrated_threshold_warning(
    settings: ContrastSettings, found: ChoiceCalibration
) -> str | None:
    """A warning on the bounds of the choice; None where they were measured with the embedder.

    Args:
        settings: the bounds in force, and whose they are.
        found: what the results of searches suggest.
    """
    if _are_measured(settings):
        return None
    bounds = settings.choice
    return (
        f"the bounds of the choice (floor {bounds.floor:g}, ceiling {bounds.ceiling:g}) were not "
        f"measured with {settings.embedder.name}; results suggest "
        f"{_suggested('a floor', found.floor)} and {_suggested('a ceiling', found.ceiling)}; "
        "once they are yours, say so in the profile (contrast.bounds_measured_with)"
    )


def edit_bounds_warning(settings: ContrastSettings) -> str | None:
    """A warning on the bounds of the check of edits; None where they were measured."""
    check = settings.edit_check
    if _are_measured(settings) or check.least_shift is None:
        return None
    return (
        f"whether an edit changed the wanted detail is judged by bounds (shift above "
        f"{check.least_shift:g}, doubtful below {check.doubtful_shift:g}) that were not measured "
        f"with {settings.embedder.name}"
    )


def _are_measured(settings: ContrastSettings) -> bool:
    return settings.bounds_measured_with == settings.embedder.name


def _suggested(what: str, bound: SuggestedBound) -> str:
    if bound.value is None:
        return f"no {what.split()[-1]} yet ({bound.known} of {LEAST_KNOWN} are known)"
    return f"{what} of {bound.value:g}"
