"""Downloads the hits of searches whose licence permits it (CCD, step 2)."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple

from db.entities import NewEntity, StoredEntity, children_of, fetch, new_entity
from db.pending import ParentFilter, Pending
from db.store import Store
from db.work import (
    WorkResult,
    commit_chunk,
    count_plans,
    register_plan,
    rejections_of,
    worked_inputs,
)
from flows.ccd.searching import Clock, OrderSearches, open_recorded_search, utc_now
from flows.engine.context import RunContext
from flows.engine.importing import Tombstones
from flows.engine.report import Deferred, StageReport, StageResult
from flows.engine.runner import Stage, get_or_create_entity, quarantine, run_stage
from models.search.folder import path_in_folder
from schemas.base import canonical_json, digest_of, sha256_of
from schemas.chat import ModelRef
from schemas.contrast import FoundHit, FoundPicture
from schemas.download import DownloadedImage, DownloadSettings
from schemas.errors import LoupeError, ServiceError
from schemas.image_search import FolderSearch, ImageSearchSpec, SearchHit
from schemas.licences import permits_release
from schemas.profile import ContrastSettings
from schemas.proposals import Picture
from schemas.provenance import Role
from schemas.records import Attribution, Rejection, Source
from sources.images import ImageProblem, InspectedImage, inspect_image
from sources.web.downloading import ImageDownloader

WEB: Final = ("http://", "https://")
"""How addresses begin that services on the web may name."""
FOLDER: Final = ("folder:",)
"""How those begin that the search of a folder names."""
DOWNLOAD, ATTEMPT, LIST = "download_images", "download_attempt", "list_folder"
VERSION = "3"
MOST_ATTEMPTS = 3
"""Hours in which an address is tried in vain before its fault is its own."""

_NO_WORD = frozenset({"unreachable", "timed_out", "interrupted"})
_PASSING = _NO_WORD | {"asked_to_wait"}
_PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_ENOUGH_TO_TELL = 20
"""Addresses of which none answers: it is this machine that is cut off."""

DownloaderMaker = Callable[[DownloadSettings], ImageDownloader]
"""Makes what downloads images, open."""
Result = DownloadedImage | InspectedImage | Rejection


def refused_hit(query: str, hit: SearchHit, schemes: tuple[str, ...] = WEB) -> Rejection | None:
    """Why nothing is downloaded for a hit; None where its image may be used.

    `licence_not_permitted`: its licence is unknown, or lets no derived work be released.
    `page_missing`: there is no page to name with it. `not_an_address`: the image has no address
    that begins with one of `schemes`, so that no service leads to a file of ours.
    """
    if not permits_release(hit.licence):
        reason = "licence_not_permitted"
        licence = hit.licence or "unknown"
        detail = f"the licence is {licence}, wanted one that lets a derived work be released"
    elif not hit.page_url:
        reason = "page_missing"
        detail = "the service names no page that shows the image, wanted one to name with it"
    elif not hit.image_url.casefold().startswith(schemes):
        reason, wanted = "not_an_address", " or ".join(schemes)
        detail = f"the image is at {hit.image_url[:80]!r}, wanted an address with {wanted}"
    else:
        return None
    return Rejection(
        stage="search",
        reason=reason,
        detail=f"hit {hit.rank} for {query!r}: {detail}",
        context={"query": query, "hit": hit.model_dump(mode="json")},
    )


def may_pass(refusal: Rejection) -> bool:
    """Whether an address that was refused may give an image later: the fault is the world's."""
    return refusal.reason in _PASSING or refusal.context.get("status") in _PASSING_STATUSES


# Search and download in one.


class Found(NamedTuple):
    """The outcome of a search.

    Attributes:
        search: the digest of the search, which its hits belong to.
        contents: what determines the bytes of its pictures, which those count by.
        plans: the numbers of the plans that orders were searched for and hits downloaded by.
        reports: what was done.
        stopped: why orders or hits are left for another run: a limit, a service, or the web.
    """

    search: str
    contents: str
    plans: tuple[int, int]
    reports: tuple[StageReport, ...]
    stopped: LoupeError | None


def find_images(
    context: RunContext,
    dataset: str,
    settings: ContrastSettings,
    spec: ImageSearchSpec,
    make_downloader: DownloaderMaker = ImageDownloader,
    clock: Clock = utc_now,
) -> Found:
    """Serves every request for a search, up to the pictures that were found.

    Which day it is for the service's daily budget, `clock` says. Where that or a limit of the run
    is reached, or the service is down, what was found until then is downloaded all the same.

    Raises:
        ConfigurationError: something that the search needs is missing.
    """

    def refuse(rejections: Sequence[Rejection]) -> None:
        """Keeps why images of a folder cannot be found."""
        listed = digest_of(*(rejection.model_dump_json() for rejection in rejections))
        if rejections:
            stage = Stage(LIST, VERSION, dataset, {"refused": listed})
            quarantine(context, stage, list(enumerate(rejections)))

    search = open_recorded_search(
        context.store, spec, dataset, context.budget, context.progress, clock, refuse
    )
    first = settings.choice.first
    searched = OrderSearches(context, dataset, search, first).run()
    downloads = _HitDownloads(
        context,
        dataset,
        settings.download,
        search=search.digest(first),
        source=_source(context, search.ref),
        folder=Path(spec.folder) if isinstance(spec, FolderSearch) else None,
        clock=clock,
    )
    with make_downloader(settings.download) as downloader:
        plan, report = downloads.run(downloader)
    return Found(
        search.digest(first),
        _contents_key(settings.download),
        (searched.plan, plan),
        (*searched.reports, report),
        searched.stopped or _left(report),
    )


def _source(context: RunContext, service: ModelRef) -> NewEntity:
    """The service, as what its images are imported from."""
    record = Source(
        name=service.name,
        format="image-search",
        annotation_file=str(service),
        annotation_sha256=sha256_of(str(service).encode()),
        licence="each image has its own",
        citation="",
    )
    return get_or_create_entity(context, record, service.name)


def _contents_key(settings: DownloadSettings) -> str:
    """Names what determines the bytes of pictures."""
    return digest_of(canonical_json(settings.contents))[:12]


def _left(report: StageReport) -> ServiceError | None:
    """The error on hits that are left for later; None where there are none."""
    if not report.deferred:
        return None
    reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(report.deferred.items()))
    details = "".join(f"; {reason}: {detail}" for reason, detail in sorted(report.details.items()))
    return ServiceError(
        f"{report.deferred.total()} images could not be downloaded for now ({reasons}){details}; "
        f"what came is stored, run again later: an address is given up after {MOST_ATTEMPTS} tries "
        f"in different hours"
    )


class _HitDownloads:
    """The downloads of one run.

    An address whose fault may pass is left for later, and tried in `MOST_ATTEMPTS` different hours
    before it is rejected; hours in which no address answers do not count. Where none of many does,
    the rest is left, too.

    Args:
        context: the run.
        dataset: that is built.
        settings: limits and politeness.
        search: the digest of the search that the hits belong to.
        source: the service that found them.
        folder: where the images lie; None where they are on the web.
        clock: says what time it is.
    """

    def __init__(
        self,
        context: RunContext,
        dataset: str,
        settings: DownloadSettings,
        *,
        search: str,
        source: NewEntity,
        folder: Path | None,
        clock: Clock,
    ) -> None:
        self._context = context
        self._dataset = dataset
        self._settings = settings
        self._search = search
        self._source = source
        self._folder = folder
        self._clock = clock
        self._tombstones = Tombstones(context.store)
        self._is_cut_off = False
        self._has_answered = False

    def run(self, downloader: ImageDownloader) -> tuple[int, StageReport]:
        """Downloads every hit of an active request; the number of the plan, and what was done."""
        stage = Stage(
            name=DOWNLOAD,
            version=VERSION,
            dataset=self._dataset,
            configuration={"contents": self._settings.contents},
            chunk_size=100,
            workers=1,  # the downloader keeps many requests in flight itself
            independent=True,  # what is left for later keeps nothing else
            label="download images",
        )
        wanted = ParentFilter(Role.FOUND_FOR, ("proposed",))
        hits = Pending(self._dataset, FoundHit.kind, ("proposed",), self._search, wanted)
        report = run_stage(self._context, stage, hits, lambda chunk: self._work(chunk, downloader))
        plan = register_plan(self._context.store, DOWNLOAD, VERSION, stage.configuration)
        return plan, report

    def _work(self, hits: Sequence[StoredEntity], downloader: ImageDownloader) -> list[StageResult]:
        if self._is_cut_off:
            return [Deferred(hit.seq, "not_asked") for hit in hits]
        self._tombstones.look()
        found = dict(self._results(hits, downloader))
        passing = {
            hits[place].seq: result
            for place, result in found.items()
            if isinstance(result, Rejection) and may_pass(result)
        }
        # Where nobody answers, the fault may be this machine's.
        self._has_answered = self._has_answered or any(map(_is_answer, found.values()))
        silent = {hit for hit, fault in passing.items() if fault.reason in _NO_WORD}
        self._is_cut_off = not self._has_answered and len(silent) >= _ENOUGH_TO_TELL
        tried = self._attempts([one for one in passing if self._has_answered or one not in silent])
        results: list[StageResult] = []
        for place, hit in enumerate(hits):
            if place not in found:
                results.append(Deferred(hit.seq, "not_asked"))  # the run stops
            elif hit.seq in passing and tried.get(hit.seq, 0) < MOST_ATTEMPTS:
                fault = passing[hit.seq]
                results.append(Deferred(hit.seq, fault.reason, fault.detail))
            else:
                results.append(self._picture(hit, found[place]))
        return results

    def _attempts(self, hits: Sequence[int]) -> dict[int, int]:
        """In how many hours each hit was tried in vain, this one included."""
        if not hits:
            return {}
        store = self._context.store
        now = self._clock().astimezone(UTC)
        hour = now.replace(minute=0, second=0, microsecond=0).isoformat()
        plan = register_plan(store, ATTEMPT, VERSION, {"hour": hour})
        activity = self._context.activity(plan, self._dataset)
        commit_chunk(store, activity, [WorkResult(hit) for hit in hits])
        return count_plans(store, ATTEMPT, hits)

    def _results(
        self, hits: Sequence[StoredEntity], downloader: ImageDownloader
    ) -> Iterator[tuple[int, Result]]:
        """The result of each hit, by its place."""
        web: list[int] = []
        for place, entity in enumerate(hits):
            record = entity.record(FoundHit)
            schemes = WEB if self._folder is None else FOLDER
            if (refused := refused_hit(record.query, record.hit, schemes)) is not None:
                yield place, refused
            elif self._folder is not None:
                yield place, _read(self._folder, record.hit.image_url)
            else:
                web.append(place)
        stop = self._context.budget.stop
        urls = (
            hits[place].record(FoundHit).hit.image_url
            for place in takewhile(lambda _: not stop.is_requested, web)
        )
        for number, result in downloader.download(urls):
            yield web[number], result

    def _picture(self, entity: StoredEntity, image: Result) -> WorkResult:
        if isinstance(image, Rejection):
            return WorkResult(entity.seq, rejection=image)
        found = entity.record(FoundHit)
        hit = found.hit
        digests = (image.sha256, image.source_sha256)
        if refused := self._tombstones.refusal(DOWNLOAD, hit.image_url, digests):
            return WorkResult(entity.seq, rejection=refused)
        retrieval: dict[str, Any] = {}
        if isinstance(image, DownloadedImage):
            retrieval = {"url": image.url, "redirects": image.redirects, "robots": image.robots}
        record = FoundPicture(
            found=found,
            picture=Picture(
                sha256=self._context.blobs.put(image.data, image.media_type),
                media_type=image.media_type,
                width_px=image.width_px,
                height_px=image.height_px,
            ),
            attribution=Attribution(
                licence=hit.licence or "",
                creator=hit.creator,
                source_url=hit.page_url,
                licence_url=hit.licence_url,
                licence_basis=hit.licence_basis,
            ),
            source_sha256=image.source_sha256,
            contents=_contents_key(self._settings),
            **retrieval,
        )
        parents = [(Role.DOWNLOADED_FROM, entity.id), (Role.IMPORTED_FROM, self._source.id)]
        return WorkResult(entity.seq, (new_entity(record, self._dataset, parents=parents),))


def _is_answer(result: Result) -> bool:
    """Whether a server on the web answered."""
    return isinstance(result, DownloadedImage) or (
        isinstance(result, Rejection) and "status" in result.context
    )


def _read(folder: Path, image_url: str) -> InspectedImage | Rejection:
    image = inspect_image(folder, path_in_folder(image_url) or "")
    if isinstance(image, ImageProblem):
        return Rejection(
            stage=DOWNLOAD,
            reason=image.reason,
            detail=image.detail,
            context={"file_path": image.file_path},
        )
    return image


class SearchResults(NamedTuple):
    """What one search gave for an order.

    Attributes:
        is_answered: whether the service has answered the query.
        is_looked_at: whether each of the hits was downloaded or refused.
        hits: how many there are.
        refusals: how many of them were refused, by reason.
        pictures: what was downloaded as is wanted now, by rank: of each hit what came last.
    """

    is_answered: bool
    is_looked_at: bool
    hits: int
    refusals: dict[str, int]
    pictures: tuple[StoredEntity, ...]


def search_results(
    store: Store, searched: Found, orders: Sequence[StoredEntity]
) -> dict[str, SearchResults]:
    """The results of one search for each of the orders, by the order's id."""
    search_plan, download_plan = searched.plans
    below = children_of(store, [one.id for one in orders], Role.FOUND_FOR)
    stored = fetch(store, {id_ for many in below.values() for id_ in many})
    hits = {
        order: [stored[id_] for id_ in many if stored[id_].group == searched.search]
        for order, many in below.items()
    }
    every = [hit for many in hits.values() for hit in many]
    answered = worked_inputs(store, search_plan, [one.seq for one in orders])
    looked_at = worked_inputs(store, download_plan, [hit.seq for hit in every])
    refused = rejections_of(store, download_plan, [hit.seq for hit in every])
    downloaded = children_of(store, [hit.id for hit in every], Role.DOWNLOADED_FROM)
    pictures = fetch(store, {id_ for many in downloaded.values() for id_ in many})

    def results(order: StoredEntity) -> SearchResults:
        own = hits.get(order.id, [])
        found = [
            max(wanted, key=lambda one: one.seq)
            for hit in own
            if (
                wanted := [
                    pictures[id_]
                    for id_ in downloaded.get(hit.id, ())
                    if pictures[id_].record(FoundPicture).contents == searched.contents
                ]
            )
        ]
        found.sort(key=lambda one: one.record(FoundPicture).found.hit.rank)
        return SearchResults(
            is_answered=order.seq in answered,
            is_looked_at=all(hit.seq in looked_at for hit in own),
            hits=len(own),
            refusals=dict(Counter(refused[hit.seq].reason for hit in own if hit.seq in refused)),
            pictures=tuple(found),
        )

    return {order.id: results(order) for order in orders}
