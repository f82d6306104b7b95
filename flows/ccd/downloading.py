"""Downloads the hits of searches whose licence permits it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

from db.entities import NewEntity, StoredEntity, children_of, fetch, new_entity
from db.pending import ParentFilter, Pending
from db.store import Store
from db.work import (
    ActivityRecord,
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
from flows.engine.runner import Stage, get_or_create_entity, run_stage, run_stream
from models.search.folder import path_in_folder
from schemas.base import canonical_json, digest_of, sha256_of
from schemas.chat import ModelRef
from schemas.contrast import FoundHit, FoundPicture
from schemas.download import DownloadedImage, DownloadSettings
from schemas.errors import LoupeError, ServiceError
from schemas.image_search import FolderSearch, ImageSearchSpec, SearchHit
from schemas.licences import permits_use
from schemas.profile import ContrastSettings
from schemas.proposals import Picture
from schemas.provenance import Role
from schemas.records import Attribution, Rejection, Source
from sources.images import ImageProblem, InspectedImage, inspect_image
from sources.web.downloading import ImageDownloader

# Hits that nobody may use are rejected before anything is downloaded (CCD, step 2).

STAGE: Final = "search"
SCREEN_HITS_VERSION: Final = "1"

WEB: Final = ("http://", "https://")
"""How addresses begin that services on the web may name."""
FOLDER: Final = ("folder:",)
"""How those begin that the search of a folder names."""


def screen_hits(
    query: str, hits: Sequence[SearchHit], schemes: tuple[str, ...] = WEB
) -> list[SearchHit | Rejection]:
    """One for each hit, in order: itself, or why it is turned down.

    `licence_not_permitted`: its licence is unknown, or lets no derived work be released.
    `page_missing`: there is no page to name with it. `not_an_address`: the image has no address
    that begins with one of `schemes`, so that no service leads to a file of ours.
    """
    return [_screened(query, hit, schemes) for hit in hits]


def _screened(query: str, hit: SearchHit, schemes: tuple[str, ...]) -> SearchHit | Rejection:
    if not permits_use(hit.licence):
        licence = hit.licence or "unknown"
        detail = f"the licence is {licence}, wanted one that lets a derived work be released"
        return _rejection("licence_not_permitted", detail, query, hit)
    if not hit.page_url:
        detail = "the service names no page that shows the image, wanted one to name with it"
        return _rejection("page_missing", detail, query, hit)
    if not hit.image_url.casefold().startswith(schemes):
        wanted = " or ".join(schemes)
        detail = f"the image is at {hit.image_url[:80]!r}, wanted an address with {wanted}"
        return _rejection("not_an_address", detail, query, hit)
    return hit


def _rejection(reason: str, detail: str, query: str, hit: SearchHit) -> Rejection:
    return Rejection(
        stage=STAGE,
        reason=reason,
        detail=f"hit {hit.rank} for {query!r}: {detail}",
        context={"query": query, "hit": hit.model_dump(mode="json")},
    )


# Downloads; transient failures are tried again by later runs.


DOWNLOAD, ATTEMPT = "download_images", "download_attempt"
HIT_DOWNLOADS_VERSION = "3"
MOST_ATTEMPTS = 3
"""Hours in which an address is tried in vain before its fault is its own."""

_EACH_ITS_OWN = "each image has its own"
_NO_WORD = frozenset({"unreachable", "timed_out", "interrupted"})
_PASSING = _NO_WORD | {"asked_to_wait"}
_PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_ENOUGH_TO_TELL = 20
"""Addresses of which none answers: it is this machine that is cut off."""

DownloaderMaker = Callable[[DownloadSettings], ImageDownloader]
"""Makes what downloads images, open."""
Result = DownloadedImage | InspectedImage | Rejection


class Downloaded(NamedTuple):
    """The outcome of downloads: their plan, what was done, and why hits are left for later."""

    plan: int
    report: StageReport
    stopped: ServiceError | None


def may_pass(refusal: Rejection) -> bool:
    """Whether an address that was refused may give an image later: the fault is the world's."""
    return refusal.reason in _PASSING or refusal.context.get("status") in _PASSING_STATUSES


class HitDownloads:
    """The downloads of one run.

    An address whose fault may pass is left for later, and tried in `MOST_ATTEMPTS` different hours
    before it is rejected; hours in which no address answers do not count. Where none of many does,
    the rest is left, too.

    Args:
        context: the run.
        dataset: that is built.
        settings: limits and politeness.
        service: what found the hits.
        search: the digest of the search that the hits belong to.
        folder: where the images lie; None where they are on the web.
        clock: says what time it is.
    """

    def __init__(
        self,
        context: RunContext,
        dataset: str,
        settings: DownloadSettings,
        service: ModelRef,
        search: str,
        folder: Path | None,
        clock: Clock,
    ) -> None:
        self._context = context
        self._dataset = dataset
        self._contents = settings.contents
        self._service = service
        self._search = search
        self._folder = folder
        self._attempts = _Attempts(context, dataset, clock)
        self._tombstones = Tombstones(context.store)
        self._is_cut_off = False
        self._has_answered = False

    def run(self, downloader: ImageDownloader) -> Downloaded:
        """Downloads every hit of an active request."""
        source = self._source()
        stage = Stage(
            name=DOWNLOAD,
            version=HIT_DOWNLOADS_VERSION,
            dataset=self._dataset,
            configuration={"contents": self._contents},
            chunk_size=100,
            workers=1,  # the downloader keeps many requests in flight itself
            independent=True,  # what is left for later keeps nothing else
            label="download images",
        )
        wanted = ParentFilter(Role.FOUND_FOR, ("proposed",))
        hits = Pending(self._dataset, FoundHit.kind, ("proposed",), self._search, wanted)

        def work(chunk: Sequence[StoredEntity]) -> list[StageResult]:
            return self._work(chunk, downloader, source)

        report = run_stage(self._context, stage, hits, work)
        plan = register_plan(
            self._context.store, DOWNLOAD, HIT_DOWNLOADS_VERSION, stage.configuration
        )
        return Downloaded(plan, report, _left(report))

    def _source(self) -> NewEntity:
        """The service, as what its images are imported from."""
        record = Source(
            name=self._service.name,
            format="image-search",
            annotation_file=str(self._service),
            annotation_sha256=sha256_of(str(self._service).encode()),
            licence=_EACH_ITS_OWN,
            citation="",
        )
        return get_or_create_entity(self._context, record, self._service.name)

    def _work(
        self, hits: Sequence[StoredEntity], downloader: ImageDownloader, source: NewEntity
    ) -> list[StageResult]:
        if self._is_cut_off:
            return [Deferred(hit.seq, "not_asked") for hit in hits]
        self._tombstones.look()
        found = dict(self._results(hits, downloader))
        passing = {
            hits[place].seq: result
            for place, result in found.items()
            if isinstance(result, Rejection) and may_pass(result)
        }
        counted = self._counted(passing, list(found.values()))
        tried = self._attempts.note(counted)
        results: list[StageResult] = []
        for place, hit in enumerate(hits):
            if place not in found:
                results.append(Deferred(hit.seq, "not_asked"))  # the run stops
            elif hit.seq in passing and tried.get(hit.seq, 0) < MOST_ATTEMPTS:
                fault = passing[hit.seq]
                results.append(Deferred(hit.seq, fault.reason, fault.detail))
            else:
                results.append(self._picture(hit, found[place], source))
        return results

    def _counted(self, passing: Mapping[int, Rejection], results: Sequence[Result]) -> list[int]:
        """The hits whose fault counts as theirs: where nobody answers, it may be this machine's."""
        silent = [hit for hit, fault in passing.items() if fault.reason in _NO_WORD]
        self._has_answered = self._has_answered or any(map(_is_answer, results))
        self._is_cut_off = not self._has_answered and len(silent) >= _ENOUGH_TO_TELL
        return [hit for hit in passing if self._has_answered or hit not in silent]

    def _results(
        self, hits: Sequence[StoredEntity], downloader: ImageDownloader
    ) -> Iterator[tuple[int, Result]]:
        """The result of each hit, by its place."""
        web: list[int] = []
        for place, entity in enumerate(hits):
            record = entity.record(FoundHit)
            schemes = WEB if self._folder is None else FOLDER
            (hit,) = screen_hits(record.query, [record.hit], schemes)
            if isinstance(hit, Rejection):
                yield place, hit
            elif self._folder is not None:
                yield place, _read(self._folder, hit.image_url)
            else:
                web.append(place)
        stop = self._context.budget.stop
        urls = (
            hits[place].record(FoundHit).hit.image_url
            for place in takewhile(lambda _: not stop.is_requested, web)
        )
        for number, result in downloader.download(urls):
            yield web[number], result

    def _picture(self, entity: StoredEntity, image: Result, source: NewEntity) -> WorkResult:
        if isinstance(image, Rejection):
            return WorkResult(entity.seq, rejection=image)
        found = entity.record(FoundHit)
        hit = found.hit
        digests = (image.sha256, image.source_sha256)
        if refused := self._tombstones.refusal(DOWNLOAD, hit.image_url, digests):
            return WorkResult(entity.seq, rejection=refused)
        sha256 = self._context.blobs.put(image.data, image.media_type)
        record = FoundPicture(
            found=found,
            picture=Picture(
                sha256=sha256,
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
            contents=contents_key(self._contents),
            **_retrieval(image),
        )
        parents = [(Role.DOWNLOADED_FROM, entity.id), (Role.IMPORTED_FROM, source.id)]
        made = new_entity(record, self._dataset, parents=parents)
        return WorkResult(entity.seq, (made,))


class _Attempts:
    """How often hits were tried in vain: once an hour at most counts."""

    def __init__(self, context: RunContext, dataset: str, clock: Clock) -> None:
        self._context = context
        self._dataset = dataset
        self._clock = clock

    def note(self, hits: Sequence[int]) -> dict[int, int]:
        """Counts these hits for this hour; in how many hours each was tried until now."""
        if not hits:
            return {}
        store = self._context.store
        now = self._clock().astimezone(UTC)
        hour = now.replace(minute=0, second=0, microsecond=0).isoformat()
        activity = ActivityRecord(
            plan_id=register_plan(store, ATTEMPT, HIT_DOWNLOADS_VERSION, {"hour": hour}),
            dataset=self._dataset,
            code_revision=self._context.code_revision,
            flow_run=self._context.flow_run,
            started_at=datetime.now(UTC),
            agents=(self._context.software,),
        )
        commit_chunk(store, activity, [WorkResult(hit) for hit in hits])
        return count_plans(store, ATTEMPT, hits)


def contents_key(contents: Mapping[str, int | None]) -> str:
    """Names what determines the bytes of pictures (`DownloadSettings.contents`)."""
    return digest_of(canonical_json(contents))[:12]


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


def _is_answer(result: Result) -> bool:
    """Whether a server on the web answered."""
    return isinstance(result, DownloadedImage) or (
        isinstance(result, Rejection) and "status" in result.context
    )


def _retrieval(image: DownloadedImage | InspectedImage) -> dict[str, object]:
    """Where on the web a picture was found after redirects, and what robots.txt said."""
    if isinstance(image, InspectedImage):
        return {}
    return {"url": image.url, "redirects": image.redirects, "robots": image.robots}


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


# Search and download in one (CCD, step 2).

LIST = "list_folder"
FOUND_IMAGES_VERSION = "3"


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
    search = open_recorded_search(
        context.store,
        spec,
        dataset,
        context.budget,
        context.progress,
        clock,
        lambda rejections: _quarantine(context, dataset, rejections),
    )
    first = settings.choice.first
    digest = search.digest(first)
    searched = OrderSearches(context, dataset, search, first).run()
    folder = Path(spec.folder) if isinstance(spec, FolderSearch) else None
    with make_downloader(settings.download) as downloader:
        downloaded = HitDownloads(
            context, dataset, settings.download, search.ref, digest, folder, clock
        ).run(downloader)
    return Found(
        digest,
        contents_key(settings.download.contents),
        (searched.plan, downloaded.plan),
        (*searched.reports, downloaded.report),
        searched.stopped or downloaded.stopped,
    )


def _quarantine(context: RunContext, dataset: str, rejections: Sequence[Rejection]) -> None:
    """Keeps why images of a folder cannot be found."""
    listed = digest_of(*(rejection.model_dump_json() for rejection in rejections))
    stage = Stage(
        name=LIST, version=FOUND_IMAGES_VERSION, dataset=dataset, configuration={"refused": listed}
    )

    def work(items: Sequence[tuple[int, Rejection]]) -> list[WorkResult]:
        return [WorkResult(number, rejection=rejection) for number, rejection in items]

    if rejections:
        run_stream(context, stage, enumerate(rejections), work, total=len(rejections))


class ResultsOfSearch:
    """The results of one search for some orders; read once.

    Args:
        store: where they lie.
        searched: the search.
        orders: that it was made for.
    """

    def __init__(self, store: Store, searched: Found, orders: Sequence[StoredEntity]) -> None:
        self._store = store
        self._search_plan, self._download_plan = searched.plans
        self._contents = searched.contents
        below = children_of(store, [one.id for one in orders], Role.FOUND_FOR)
        stored = fetch(store, {id_ for many in below.values() for id_ in many})
        self._hits = {
            order: [stored[id_] for id_ in many if stored[id_].group == searched.search]
            for order, many in below.items()
        }
        every = [hit for many in self._hits.values() for hit in many]
        self._answered = worked_inputs(store, self._search_plan, [one.seq for one in orders])
        self._looked_at = worked_inputs(store, self._download_plan, [hit.seq for hit in every])
        got = children_of(store, [hit.id for hit in every], Role.DOWNLOADED_FROM)
        pictures = fetch(store, {id_ for many in got.values() for id_ in many})
        self._pictures = {
            hit: [pictures[id_] for id_ in many if self._counts(pictures[id_])]
            for hit, many in got.items()
        }

    def is_answered(self, order: StoredEntity) -> bool:
        """Whether the service has answered its query."""
        return order.seq in self._answered

    def hits(self, order: StoredEntity) -> list[StoredEntity]:
        """What the service named."""
        return self._hits.get(order.id, [])

    def is_looked_at(self, order: StoredEntity) -> bool:
        """Whether each of its hits was downloaded or refused."""
        return all(hit.seq in self._looked_at for hit in self.hits(order))

    def pictures(self, order: StoredEntity) -> list[StoredEntity]:
        """What was downloaded as is wanted now, by rank: of each hit what came last."""
        found = [
            max(pictures, key=lambda one: one.seq)
            for hit in self.hits(order)
            if (pictures := self._pictures.get(hit.id))
        ]
        return sorted(found, key=lambda one: one.record(FoundPicture).found.hit.rank)

    def refusals(self, order: StoredEntity) -> dict[str, int]:
        """How many of its hits were refused, by reason."""
        hits = [hit.seq for hit in self.hits(order)]
        refused = rejections_of(self._store, self._download_plan, hits)
        return dict(Counter(one.reason for one in refused.values()))

    def _counts(self, picture: StoredEntity) -> bool:
        return picture.record(FoundPicture).contents == self._contents
