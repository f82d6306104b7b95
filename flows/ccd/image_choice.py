"""Choose the candidate among the first results of each search (CCD, step 2).

CCD takes the most similar of five results. This is often the anchor itself, cropped or saved again,
and a caption of the anchor is true of it. So near-duplicates are excluded first, then results above
a ceiling, including near-duplicates that no fingerprint finds. A result below a floor has only
words in common with the anchor.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.db.entities import LIVE, AgentRef, StoredEntity, WorkResult, pages
from loupe.db.store import Store
from loupe.db.work import drop_rejections, register_plan, rejections_of
from loupe.flows.ccd.choice_calibration import calibrate_choices
from loupe.flows.ccd.downloading import (
    Found,
    SearchResults,
    contents_key,
    download_hits,
    left_for_later,
    search_results,
)
from loupe.flows.ccd.image_requests import candidate_for, strategies_of_requests, waiting_strategies
from loupe.flows.ccd.run import CcdRun, is_anchor
from loupe.flows.ccd.searching import RequestSearches, open_recorded_search
from loupe.flows.engine.embedding import picture_of, stored_picture
from loupe.flows.engine.report import Deferred, StageReport, StageResult
from loupe.flows.engine.runner import Stage, run_stream, sole_run, worked_items
from loupe.models.embedding import Vectors
from loupe.retrieval.similarity.near_duplicates import (
    GrowingCollection,
    fingerprint,
    near_duplicate_pairs,
)
from loupe.schemas.contrast import (
    ConsideredResult,
    FoundPicture,
    ImageRequest,
    ResultsConsidered,
    ResultVerdict,
)
from loupe.schemas.profile import ChoiceSettings
from loupe.schemas.proposals import Candidate, FoundImage, Strategy
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image, Picture, Rejection
from loupe.schemas.similarity import ImageFingerprint, NearDuplicateSettings

STAGE = "choose_candidates"
VERSION = "1"

Vector = NDArray[Any]
"""An embedding, of shape (d,)."""
CandidateVectors = NDArray[Any]
"""Embeddings, of shape (n, d)."""

_DECIMALS = 6


class Choice(NamedTuple):
    """The chosen result.

    Attributes:
        place: position of the result, from 0.
        similarity: cosine to the anchor.
        considered: the verdict on each result considered, in their order.
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
    """Return the candidate among the first results; of equally similar ones the first.

    Reasons of a rejection: `no_results`; `too_similar` if all are near-duplicates of the anchor or
    above the ceiling; `already_used` if there are others, each of which already is an image of the
    dataset; `too_different` otherwise. Its context has the bounds and the verdict on each result.

    Args:
        anchor: embedding of the anchor, of any length but 0.
        results: embeddings of the results in the order of the search, of shape (n, d).
        near_duplicates: for each result, whether it has the anchor's content.
        settings: the number of results to consider, and the bounds.
        already_used: for each result, whether it already is an image of the dataset; default: none
            is.
    """
    used = already_used or [False] * len(near_duplicates)
    similarities = similarities_to(anchor, results)[: settings.first]
    considered = [
        ConsideredResult(
            rank=place + 1,
            similarity=similarity,
            verdict=_verdict(similarity, near_duplicates[place], used[place], settings),
        )
        for place, similarity in enumerate(similarities)
    ]
    fitting = [place for place, one in enumerate(considered) if one.verdict == "less_similar"]
    if not fitting:
        return _rejection(considered, settings)
    best = max(fitting, key=lambda place: (similarities[place], -place))
    considered[best] = considered[best].model_copy(update={"verdict": "chosen"})
    return Choice(best, similarities[best], tuple(considered))


def fit_warnings(fit: float, settings: ChoiceSettings) -> tuple[str, ...]:
    """Return warnings about a chosen result as sentences.

    Args:
        fit: its cosine to the contrastive caption minus the anchor's cosine to its own caption.
        settings: how much less a result may fit.
    """
    if fit >= -settings.doubtful_misfit:
        return ()
    warning = (
        f"It fits the wanted caption less than the anchor fits its own (by {-fit:.3f}), so that "
        "more may differ than the one detail."
    )
    return (warning,)


def similarities_to(anchor: Vector, results: CandidateVectors) -> list[float]:
    """Return the cosine of each result to the anchor, rounded to six decimals.

    Raises:
        ValueError: the shapes do not match.
    """
    if len(results) == 0:
        return []
    one, rows = np.asarray(anchor, np.float64), np.asarray(results, np.float64)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(one)
    cosines = np.clip(rows @ one / np.where(lengths > 0, lengths, 1.0), -1, 1)
    found: list[float] = np.round(cosines, _DECIMALS).tolist()
    return found


def _verdict(
    similarity: float, near_duplicate: bool, is_used: bool, settings: ChoiceSettings
) -> ResultVerdict:
    if near_duplicate:
        return "near_duplicate"
    if is_used:
        return "already_used"
    if similarity > settings.ceiling:
        return "too_similar"
    return "too_different" if similarity < settings.floor else "less_similar"


def _rejection(considered: Sequence[ConsideredResult], settings: ChoiceSettings) -> Rejection:
    detail, reason = "the search returned no image to choose from", "no_results"
    if considered:
        counted = Counter(one.verdict for one in considered)
        names: dict[ResultVerdict, str] = {
            "near_duplicate": "the anchor again (a near-duplicate)",
            "already_used": "an image of the dataset already",
            "too_similar": f"more similar to it than {settings.ceiling:g}",
            "too_different": f"less similar than {settings.floor:g}",
        }
        found = ", ".join(f"{counted[one]} {what}" for one, what in names.items() if counted[one])
        detail = f"none of {len(considered)} results can be the candidate: {found}"
        reason = "already_used" if counted["already_used"] else "too_similar"
        if different := [one.similarity for one in considered if one.verdict == "too_different"]:
            detail += f"; the most similar of these has {max(different):.3f}"
            reason = "too_different"
    return Rejection.of(
        STAGE,
        reason,
        detail,
        **settings.model_dump(include={"first", "floor", "ceiling"}),
        results=[one.model_dump() for one in considered],
    )


def are_again(
    looks: Sequence[ImageFingerprint | Rejection],
    vectors: Vectors,
    settings: NearDuplicateSettings,
) -> list[bool]:
    """Return for each image after the anchor whether it has, or may have, the anchor's content.

    Doubtful pairs count, because another result costs nothing, and an anchor among its own
    contrastive images makes right answers count as wrong.

    Args:
        looks: the fingerprint of each image, or why there is none; then only similarity decides.
        vectors: embeddings of the images, of shape (n, d).
        settings: when two images have the same content.
    """
    anchor, *results = looks
    return [
        isinstance(anchor, ImageFingerprint)
        and isinstance(result, ImageFingerprint)
        and bool(
            near_duplicate_pairs(
                {"anchor": anchor, "result": result}, settings, vectors[[0, place]]
            )
        )
        for place, result in enumerate(results, start=1)
    ]


# The choices of a run.

_PICTURES = "pictures"


class _Search(NamedTuple):
    """A request, its strategy, and the images that were found, by rank."""

    order: StoredEntity
    strategy: StoredEntity
    found: tuple[StoredEntity, ...]

    @property
    def anchor_id(self) -> str:
        """Return the id of the image that the found images are compared with."""
        return self.strategy.record(Strategy).anchor.image_id or ""

    @property
    def pictures(self) -> list[Picture]:
        """Return the found images."""
        return [one.record(FoundPicture).picture for one in self.found]


class _Rows(NamedTuple):
    """The embeddings of a search; `pictures` begin with the anchor."""

    pictures: Vectors
    caption: Vectors
    wanted: Vectors


def search_images(run: CcdRun) -> None:
    """Search, download the hits, and choose a candidate for each request.

    Raises:
        ConfigurationError: a requirement of the search is missing.
    """
    found = _find_images(run)
    run.stopped = run.stopped or found.stopped
    chosen = _choose_candidates(run, found)
    run.add(*found.reports, chosen)
    run.deferred |= waiting_strategies(run.store, run.dataset, chosen)
    calibrate_choices(run)


def _find_images(run: CcdRun) -> Found:
    """Serve every search request, up to downloading the images that were found.

    If the service's daily budget or a limit of the run is reached, or the service is down, the hits
    found until then are still downloaded.
    """
    assert run.search is not None  # noqa: S101 - the step is enabled with one alone
    search = open_recorded_search(run.context, run.search, run.dataset, run.clock)
    first = run.settings.choice.first
    searched, stopped = RequestSearches(run.context, run.dataset, search, first).run()
    digest = search.digest(first)
    downloaded = download_hits(run, search.ref, digest)
    return Found(
        digest,
        contents_key(run),
        (searched, downloaded),
        stopped or left_for_later(downloaded),
    )


def _choose_candidates(run: CcdRun, searched: Found) -> StageReport:
    """Choose a candidate for every request whose search and downloads are done.

    Hits of other searches than `searched` are ignored.
    """
    store, settings, embedder = run.store, run.settings, run.embedder
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=run.dataset,
        configuration={
            "choice": settings.choice.model_dump(mode="json"),
            "embedder": str(embedder.ref),
            "near_duplicates": settings.near_duplicates.model_dump(mode="json"),
            "search": searched.search,
        },
        agents=(AgentRef.of_model(embedder.ref),),
        chunk_size=50,
        independent=True,  # a request left for later does not hold up the others
        workers=1,  # an image chosen for one strategy is not chosen for the next
        label="choose candidates",
    )
    choosing = _Choosing(run)

    def work(items: Sequence[tuple[int, StoredEntity]]) -> list[StageResult]:
        orders = [order for _, order in items]
        strategies = strategies_of_requests(store, orders)
        found = search_results(store, searched, orders)
        results: dict[str, StageResult] = {}
        open_: list[_Search] = []
        for order in orders:
            own = found[order.id]
            if not own.hits:
                results[order.id] = Deferred(order.seq, "not_searched")
            elif not own.is_looked_at:
                results[order.id] = Deferred(order.seq, "not_downloaded")
            elif own.pictures:
                open_.append(_Search(order, strategies[order.id], own.pictures))
            else:
                results[order.id] = _no_download(order, strategies[order.id], own)
        for search, rows in zip(open_, choosing.rows(open_), strict=True):
            results[search.order.id] = choosing.result(search, rows)
        return [results[order.id] for order in orders]

    # without this, two runs could choose the same image
    with sole_run(run.context, run.dataset, stage.label):
        orders = run.find(ImageRequest, "proposed", group="search")
        _take_back_outdated(store, orders, stage, searched)
        done = worked_items(run.context, stage, [one.seq for one in orders])
        fits = choosing.fits(searched, [one for one in orders if one.seq not in done])
        # An image is chosen once, for the strategy whose contrastive caption it fits best. The
        # numbers of requests are not used because they depend on which chunk was committed first.
        pending = sorted(fits, key=lambda one: (-fits[one], one.id))
        items = [(one.seq, one) for one in pending]
        return run_stream(run.context, stage, items, work, total=len(items))


def _take_back_outdated(
    store: Store, orders: Sequence[StoredEntity], stage: Stage, searched: Found
) -> None:
    """Reopen requests without a candidate whose images have changed since."""
    plan = register_plan(store, stage.name, stage.version, stage.configuration)
    for page in pages(orders):
        rejected = rejections_of(store, plan, [one.seq for one in page])
        without = [one for one in page if one.seq in rejected]
        results = search_results(store, searched, without)
        outdated = [
            one.seq
            for one in without
            if rejected[one.seq].context.get(_PICTURES)
            != [picture.id for picture in results[one.id].pictures]
        ]
        drop_rejections(store, plan, outdated)


def _no_download(order: StoredEntity, strategy: StoredEntity, results: SearchResults) -> WorkResult:
    """Return a rejection that says why none of the results was downloaded."""
    listed = ", ".join(f"{number} {reason}" for reason, number in sorted(results.refusals.items()))
    context = {
        "query": strategy.record(Strategy).contrastive_caption,
        "reasons": results.refusals,
        _PICTURES: list[str](),
    }
    detail = f"none of {results.hits} results could be downloaded ({listed})"
    return WorkResult.rejected(order.seq, STAGE, "no_download", detail, **context)


@dataclass
class _Choosing:
    """The choices of a run."""

    run: CcdRun
    _looks: dict[str, ImageFingerprint | Rejection] = field(default_factory=dict, init=False)

    def fits(self, searched: Found, orders: Sequence[StoredEntity]) -> dict[StoredEntity, float]:
        """Return how well the best image of each request fits its contrastive caption.

        Requests that the search rejected are left out: they can be put back, and searched again.
        """
        fits: dict[StoredEntity, float] = {}
        for page in pages(orders):
            strategies = strategies_of_requests(self.run.store, page)
            results = search_results(self.run.store, searched, page)
            for order in page:
                if results[order.id].hits or not results[order.id].is_answered:
                    fits[order] = -inf
            searches = [
                _Search(order, strategies[order.id], found)
                for order in page
                if (found := results[order.id].pictures)
            ]
            for search, rows in zip(searches, self.rows(searches), strict=True):
                fits[search.order] = float(np.max(rows.pictures[1:] @ rows.wanted))
        return fits

    def rows(self, searches: Sequence[_Search]) -> list[_Rows]:
        """Return the embeddings of each search; without any, the embedder is not loaded."""
        if not searches:
            return []
        strategies = [one.strategy.record(Strategy) for one in searches]
        shown = [
            [strategy.anchor, *search.pictures]
            for strategy, search in zip(strategies, searches, strict=True)
        ]
        pictures = self.run.embedder.embed_images(
            [stored_picture(self.run.context, one) for many in shown for one in many]
        )
        captions = self.run.embedder.embed_texts([one.caption for one in strategies])
        wanted = self.run.embedder.embed_texts([one.contrastive_caption for one in strategies])
        ends = np.cumsum([len(many) for many in shown])[:-1]
        parts = zip(np.split(pictures, ends), captions, wanted, strict=True)
        return [_Rows(*own) for own in parts]

    @cached_property
    def _used(self) -> GrowingCollection:
        """Return the active anchors and candidates by their owner (an anchor or a strategy).

        The candidates of this run are added; one of each is enough.
        """
        used = GrowingCollection(self.run.settings.near_duplicates)
        for image in self.run.find(Image, *LIVE):
            if is_anchor(image):
                used.add(image.id, *self._bytes_and_look(picture_of(image)))
        for one in self.run.find(Candidate, *LIVE):
            record = one.record(Candidate)
            used.add(record.strategy_id or "", *self._bytes_and_look(record.image))
        return used

    def _look(self, picture: Picture) -> ImageFingerprint | Rejection:
        """Return the fingerprint of an image, or why it has none; computed once per content."""
        if picture.sha256 not in self._looks:
            stored = stored_picture(self.run.context, picture)
            self._looks[picture.sha256] = fingerprint(stored.read(), stored.name)
        return self._looks[picture.sha256]

    def _bytes_and_look(self, picture: Picture) -> tuple[str, ImageFingerprint | None]:
        look = self._look(picture)
        return picture.sha256, look if isinstance(look, ImageFingerprint) else None

    def result(self, search: _Search, rows: _Rows) -> WorkResult:
        """Return the candidate, or why there is none, and the verdict on each result."""
        order, strategy = search.order, search.strategy.record(Strategy)
        anchor, results = rows.pictures[0], rows.pictures[1:]
        looks = [self._look(one) for one in (strategy.anchor, *search.pictures)]
        again = are_again(looks, rows.pictures, self.run.settings.near_duplicates)
        own = {search.anchor_id, search.strategy.id}
        known = [
            bool(self._used.owners_of_similar(*self._bytes_and_look(one)) - own)
            for one in search.pictures
        ]
        outcome = choose_candidate(anchor, results, again, self.run.settings.choice, known)
        considered = (
            outcome.context["results"] if isinstance(outcome, Rejection) else outcome.considered
        )
        record = ResultsConsidered(
            anchor_id=search.anchor_id,
            embedder=str(self.run.embedder.ref),
            picture_ids=tuple(one.id for one in search.found[: len(considered)]),
            results=considered,
        )
        parents = [(Role.CONSIDERED_FOR, order.id)]
        looked_at = self.run.create(record, parents, group=search.anchor_id)
        if isinstance(outcome, Rejection):
            considered_ids = [one.id for one in search.found]
            query = strategy.contrastive_caption
            context = {**outcome.context, "query": query, _PICTURES: considered_ids}
            rejection = outcome.model_copy(update={"context": context})
            return WorkResult(order.seq, (looked_at,), rejection=rejection)
        self._used.add(search.strategy.id, *self._bytes_and_look(search.pictures[outcome.place]))
        fit = float(results[outcome.place] @ rows.wanted - anchor @ rows.caption)
        found = search.found[outcome.place]
        picture = found.record(FoundPicture)
        hit = picture.found.hit
        candidate = candidate_for(
            order,
            search.strategy,
            [(Role.FOUND_AS, found.id)],
            image=picture.picture,
            origin=FoundImage(
                engine=picture.found.engine,
                query=picture.found.query,
                rank=hit.rank,
                page=hit.page_url or hit.image_url,
                licence=hit.licence or "",
                creator=hit.creator,
            ),
            similarity=outcome.similarity,
            warnings=fit_warnings(fit, self.run.settings.choice),
        )
        return WorkResult(order.seq, (candidate, looked_at))
