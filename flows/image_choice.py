"""Chooses the candidate among the first results of each search (CCD, step 2)."""

from collections.abc import Sequence
from typing import NamedTuple

from db.agents import AgentRef
from db.entities import (
    LIVE,
    NewEntity,
    StoredEntity,
    find,
    new_entity,
    pages,
)
from db.repeats import rejections_of, take_back
from db.store import Store
from db.work import Pending, WorkResult, register_plan
from flows.anchors import is_anchor
from flows.context import RunContext
from flows.embedding import CachedEmbedder
from flows.found_images import Found
from flows.image_orders import MADE_FOR, ORDERED_BY, strategies_of_orders
from flows.leases import sole_run
from flows.report import Deferred, StageReport, StageResult
from flows.runner import Stage, run_stage
from flows.search_results import ResultsOfSearch
from flows.task_images import picture_of, stored_picture
from flows.used_images import Looks, UsedImages
from models.embedding import Vectors
from schemas.contrast import ChoiceSettings, ResultsConsidered
from schemas.contrast_records import FoundPicture, ImageOrder
from schemas.near_duplicates import ImageFingerprint, NearDuplicateSettings
from schemas.profile import ContrastSettings
from schemas.proposals import Candidate, FoundImage, Picture, Strategy
from schemas.records import Image, Rejection
from stages.candidate_choice.anchor_duplicates import anchor_duplicates
from stages.candidate_choice.choice import (
    STAGE,
    VERSION,
    Choice,
    choose_candidate,
    fit_doubts,
)

FOUND_AS = "found_as"
"""The role of the picture that a candidate is."""
CONSIDERED_FOR = "considered_for"
"""The role of the order whose results were considered."""

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
        searched: what the search came to; hits of others do not count.
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

    def work(orders: Sequence[StoredEntity]) -> list[StageResult]:
        strategies = strategies_of_orders(store, orders)
        results_of = ResultsOfSearch(store, searched, orders)
        results: dict[str, StageResult] = {}
        open_: list[_Search] = []
        for order in orders:
            if not results_of.is_answered(order):
                results[order.id] = Deferred(order.seq, _NOT_SEARCHED)
            elif not results_of.hits(order):  # which the search has told
                results[order.id] = WorkResult(order.seq)
            elif not results_of.is_looked_at(order):
                results[order.id] = Deferred(order.seq, _NOT_DOWNLOADED)
            elif found := results_of.pictures(order):
                open_.append(_Search(order, strategies[order.id], tuple(found)))
            else:
                results[order.id] = _no_download(order, strategies[order.id], results_of)
        chosen = choosing.results(open_)
        return [results.get(order.id) or chosen[order.id] for order in orders]

    orders = Pending(dataset, ImageOrder.kind, ("proposed",), "search")
    with sole_run(context, dataset, stage.label, VERSION):  # or two runs choose one picture twice
        _take_back_outdated(store, dataset, stage, searched)
        return run_stage(context, stage, orders, work)


def _take_back_outdated(store: Store, dataset: str, stage: Stage, searched: Found) -> None:
    """Has those orders chosen for again whose pictures are others than when none was chosen."""
    plan = register_plan(store, stage.name, stage.version, stage.configuration)
    for page in pages(find(store, dataset, ImageOrder.kind, states=("proposed",))):
        rejected = rejections_of(store, plan, [one.seq for one in page])
        orders = [one for one in page if one.seq in rejected]
        results_of = ResultsOfSearch(store, searched, orders)
        outdated = [
            one.seq
            for one in orders
            if rejected[one.seq].context.get(_PICTURES)
            != [picture.id for picture in results_of.pictures(one)]
        ]
        take_back(store, plan, outdated)


def _no_download(
    order: StoredEntity, strategy: StoredEntity, results_of: ResultsOfSearch
) -> WorkResult:
    """That a search gave results, and why none of them is there to be chosen."""
    reasons = results_of.refusals(order)
    count = len(results_of.hits(order))
    told = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items()))
    rejection = Rejection(
        stage=STAGE,
        reason="no_download",
        detail=f"none of {count} results could be downloaded ({told})",
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
        """The image that the pictures are held against."""
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
        """What became of each search, by the id of its order."""
        used = self._used_images()
        rows = self._rows(searches)
        results: dict[str, WorkResult] = {}
        for search, own in zip(searches, rows, strict=True):
            results[search.order.id] = self._result(search, own, used)
        return results

    def _used_images(self) -> UsedImages:
        """The anchors and the candidates that stand: one is enough of each."""
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

    def _result(self, search: _Search, rows: _Rows, used: UsedImages) -> WorkResult:
        """The candidate, or why there is none, and what became of each result."""
        anchor, results = rows.pictures[0], rows.pictures[1:]
        anchor_picture = search.strategy.record(Strategy).anchor
        looks = [self._looks.of(one) for one in (anchor_picture, *search.pictures)]
        again = are_again(looks, rows.pictures, self._near)
        own = {search.anchor_id, search.strategy.id}
        known = used.are_used(search.pictures, but_for=own)
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
            parents=[(CONSIDERED_FOR, order.id)],
            group=search.anchor_id,
        )
        if isinstance(outcome, Rejection):
            query = search.strategy.record(Strategy).contrastive_caption
            considered_ids = [one.id for one in search.found]
            told = {**outcome.context, "query": query, _PICTURES: considered_ids}
            rejection = outcome.model_copy(update={"context": told})
            return WorkResult(order.seq, (looked_at,), rejection=rejection)
        found = search.found[outcome.place]
        used.add(search.strategy.id, _picture_of(found))
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
        looks: how each picture looks, or why nobody knows: then similarity alone decides on it.
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
        (MADE_FOR, search.strategy.id),
        (ORDERED_BY, search.order.id),
        (FOUND_AS, found.id),
    ]
    return new_entity(candidate, search.order.dataset, parents=parents, group=search.anchor_id)


def _picture_of(found: StoredEntity) -> Picture:
    return found.record(FoundPicture).picture
