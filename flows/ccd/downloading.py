"""Download the hits of searches whose licence permits it (CCD, step 2)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from loupe.db.entities import NewEntity, StoredEntity, WorkResult, fetch_children, new_entity
from loupe.db.plugin_agents import plugin_agents
from loupe.db.store import Store
from loupe.db.work import ParentFilter, Pending, rejections_of, worked_inputs
from loupe.flows.ccd.run import CcdRun, image_rules
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.embedding import put_picture
from loupe.flows.engine.importing import Tombstones, face_agents
from loupe.flows.engine.report import Deferred, StageReport, StageResult
from loupe.flows.engine.runner import Stage, count_attempts, get_or_create_entity, run_stage
from loupe.models.content_filter import ContentFilter
from loupe.models.registry import build_content_filter
from loupe.models.search.folder import path_in_folder
from loupe.schemas.base import canonical_json, digest_of, sha256_of
from loupe.schemas.chat import ChatImage, ModelRef
from loupe.schemas.contrast import FoundHit, FoundPicture
from loupe.schemas.errors import LoupeError, ServiceError
from loupe.schemas.image_search import (
    TRANSIENT_STATUSES,
    DownloadedImage,
    FolderSearch,
    SearchHit,
)
from loupe.schemas.licences import permits_release
from loupe.schemas.provenance import Role
from loupe.schemas.records import Attribution, Rejection, Source
from loupe.sources.images import ImageProblem, InspectedImage, inspect_image

if TYPE_CHECKING:
    from loupe.sources.web.downloading import ImageDownloader

_WEB: Final = ("http://", "https://")
"""Prefixes of addresses that web services may return."""
FOLDER: Final = ("folder:",)
"""Prefixes of addresses that the search of a folder returns."""
DOWNLOAD, ATTEMPT = "download_images", "download_attempt"
VERSION = "3"
MOST_ATTEMPTS = 3
"""Number of different hours in which an address is tried before it is rejected."""

_UNREACHABLE = frozenset({"unreachable", "timed_out", "interrupted"})
_TRANSIENT = _UNREACHABLE | {"asked_to_wait"}
_OFFLINE_AFTER = 20
"""If none of this many addresses responds, the network of this machine is assumed to be down."""

Result = DownloadedImage | InspectedImage | Rejection


def refused_hit(query: str, hit: SearchHit, schemes: tuple[str, ...] = _WEB) -> Rejection | None:
    """Return why a hit is not downloaded, or None if its image may be used.

    `licence_not_permitted`: the licence is unknown or does not permit derived works.
    `page_missing`: the hit has no page to attribute. `not_an_address`: the image has no address
    that begins with one of `schemes`; this keeps web services from naming local files.
    """
    if not permits_release(hit.licence):
        reason = "licence_not_permitted"
        licence = hit.licence or "unknown"
        detail = f"the licence is {licence}, wanted one that permits derived works"
    elif not hit.page_url:
        reason = "page_missing"
        detail = "the service returned no page of the image, which its attribution needs"
    elif not hit.image_url.casefold().startswith(schemes):
        reason, wanted = "not_an_address", " or ".join(schemes)
        detail = f"the image is at {hit.image_url[:80]!r}, wanted an address with {wanted}"
    else:
        return None
    detail = f"hit {hit.rank} for {query!r}: {detail}"
    return Rejection.of("search", reason, detail, query=query, hit=hit.model_dump(mode="json"))


def refused_content(by: ModelRef, found: FoundHit, what: str) -> Rejection:
    """Return the rejection of a found image by a content filter; the image is not stored."""
    hit = found.hit
    detail = f"hit {hit.rank} for {found.query!r} is refused by {by}: {what}"
    return Rejection.of(DOWNLOAD, "refused_content", detail, hit=hit.model_dump(mode="json"))


def is_transient(refusal: Rejection) -> bool:
    """Return whether a refused address may succeed later because the error is transient."""
    return refusal.reason in _TRANSIENT or refusal.context.get("status") in TRANSIENT_STATUSES


# Search and download.


class Found(NamedTuple):
    """The outcome of a search.

    Attributes:
        search: digest of the search that the hits belong to.
        contents: digest of the settings that determine the bytes of the images.
        reports: of the searches and of the downloads.
        stopped: why requests or hits are left for another run: a limit, a service, or the network.
    """

    search: str
    contents: str
    reports: tuple[StageReport, StageReport]
    stopped: LoupeError | None


def download_hits(run: CcdRun, service: ModelRef, search: str) -> StageReport:
    """Download the images that a search of `service` found for active requests."""
    settings = run.settings.download
    stage = Stage(
        name=DOWNLOAD,
        version=VERSION,
        dataset=run.dataset,
        configuration={"contents": settings.contents | image_rules(run)},
        agents=(
            *face_agents(run.build.faces),
            *plugin_agents("models", run.settings.content_filter.name),
        ),
        chunk_size=100,
        workers=1,  # the downloader itself keeps many requests in flight
        independent=True,  # a hit left for later does not hold up the others
        label="download images",
    )
    wanted = ParentFilter(Role.FOUND_FOR, ("proposed",))
    hits = Pending(run.dataset, FoundHit.kind, ("proposed",), search, wanted)
    folder = Path(run.search.folder) if isinstance(run.search, FolderSearch) else None
    with run.make_downloader(settings) as downloader:
        downloads = _HitDownloads(run, _source(run.context, service).id, folder, downloader)
        return run_stage(run.context, stage, hits, downloads.work)


def _source(context: RunContext, service: ModelRef) -> NewEntity:
    """Return the service as the source that images are imported from."""
    record = Source(
        name=service.name,
        format="image-search",
        annotation_file=str(service),
        annotation_sha256=sha256_of(str(service).encode()),
        licence="each image has its own",
        citation="",
    )
    return get_or_create_entity(context, record, service.name)


def contents_key(run: CcdRun) -> str:
    """Return the digest of what determines the images and their bytes."""
    return digest_of(canonical_json(run.settings.download.contents | image_rules(run)))[:12]


def left_for_later(report: StageReport) -> ServiceError | None:
    """Return the error on hits that are left for later, or None if there are none."""
    if not report.deferred:
        return None
    return ServiceError(
        f"{report.deferred.total()} images could not be downloaded for now {report.why_left}; "
        f"downloaded images are stored, run again later: an address is rejected after "
        f"{MOST_ATTEMPTS} tries in different hours"
    )


@dataclass
class _HitDownloads:
    """The downloads of one run.

    An address with a transient error is left for later. It is rejected after failing in
    `MOST_ATTEMPTS` different hours; hours in which no address responds do not count. If none of
    many addresses responds, the remaining ones are left for later, too.

    Attributes:
        source_id: the service that found them.
        folder: folder of the images; None if they are on the web.
    """

    run: CcdRun
    source_id: str
    folder: Path | None
    downloader: "ImageDownloader"
    _is_cut_off: bool = field(default=False, init=False)
    _has_answered: bool = field(default=False, init=False)

    @cached_property
    def _filter(self) -> ContentFilter:
        return build_content_filter(self.run.settings.content_filter)

    @cached_property
    def _tombstones(self) -> Tombstones:
        return Tombstones(self.run.store)

    def work(self, hits: Sequence[StoredEntity]) -> list[StageResult]:
        """Return the downloaded image of each hit, why it is refused, or that it is left."""
        if self._is_cut_off:
            return [Deferred(hit.seq, "not_asked") for hit in hits]
        self._tombstones.look()
        found = dict(self._results(hits))
        passing = {
            hits[place].seq: result
            for place, result in found.items()
            if isinstance(result, Rejection) and is_transient(result)
        }
        # If no address responds, the network of this machine may be down.
        self._has_answered = self._has_answered or any(map(_is_answer, found.values()))
        silent = {hit for hit, fault in passing.items() if fault.reason in _UNREACHABLE}
        self._is_cut_off = not self._has_answered and len(silent) >= _OFFLINE_AFTER
        faulty = [one for one in passing if self._has_answered or one not in silent]
        hour = self.run.clock().astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        tried = count_attempts(
            self.run.context, self.run.dataset, ATTEMPT, hour.isoformat(), faulty
        )
        results: list[StageResult] = []
        for place, hit in enumerate(hits):
            if place not in found:
                results.append(Deferred(hit.seq, "not_asked"))  # the run is being stopped
            elif hit.seq in passing and tried.get(hit.seq, 0) < MOST_ATTEMPTS:
                fault = passing[hit.seq]
                results.append(Deferred(hit.seq, fault.reason, fault.detail))
            else:
                results.append(self._picture(hit, found[place]))
        return results

    def _results(self, hits: Sequence[StoredEntity]) -> Iterator[tuple[int, Result]]:
        """Yield the result of each hit by its position."""
        web: list[int] = []
        for place, entity in enumerate(hits):
            record = entity.record(FoundHit)
            schemes = _WEB if self.folder is None else FOLDER
            if (refused := refused_hit(record.query, record.hit, schemes)) is not None:
                yield place, refused
            elif self.folder is not None:
                yield place, _read(self.folder, record.hit.image_url)
            else:
                web.append(place)
        stop = self.run.context.budget.stop
        urls = (
            hits[place].record(FoundHit).hit.image_url
            for place in takewhile(lambda _: not stop.is_requested, web)
        )
        for number, result in self.downloader.download(urls):
            yield web[number], result

    def _picture(self, entity: StoredEntity, image: Result) -> WorkResult:
        if isinstance(image, Rejection):
            return WorkResult(entity.seq, rejection=image)
        found = entity.record(FoundHit)
        hit = found.hit
        shown = ChatImage(media_type=image.media_type, data=image.data)
        if what := self._filter.refusal(shown, hit.flags):
            return WorkResult(entity.seq, rejection=refused_content(self._filter.ref, found, what))
        digests = (image.sha256, image.source_sha256)
        if refused := self._tombstones.refusal(DOWNLOAD, hit.image_url, digests):
            return WorkResult(entity.seq, rejection=refused)
        retrieval = {}
        if isinstance(image, DownloadedImage):
            retrieval = image.model_dump(include={"url", "redirects", "robots"})
        record = FoundPicture(
            found=found,
            picture=put_picture(
                self.run.context.blobs,
                image.data,
                image.media_type,
                (image.width_px, image.height_px),
                self.run.build.faces,
            ),
            attribution=Attribution(
                licence=hit.licence or "",
                creator=hit.creator,
                source_url=hit.page_url,
                licence_url=hit.licence_url,
                licence_basis=hit.licence_basis,
            ),
            source_sha256=image.source_sha256,
            contents=contents_key(self.run),
            **retrieval,
        )
        parents = [(Role.DOWNLOADED_FROM, entity.id), (Role.IMPORTED_FROM, self.source_id)]
        return WorkResult(entity.seq, (new_entity(record, self.run.dataset, parents=parents),))


def _is_answer(result: Result) -> bool:
    """Return whether a web server responded."""
    return isinstance(result, DownloadedImage) or (
        isinstance(result, Rejection) and "status" in result.context
    )


def _read(folder: Path, image_url: str) -> InspectedImage | Rejection:
    image = inspect_image(folder, path_in_folder(image_url) or "")
    return image.as_rejection(DOWNLOAD) if isinstance(image, ImageProblem) else image


class SearchResults(NamedTuple):
    """The results of one search for a request.

    Attributes:
        is_answered: whether the service responded to the query.
        is_looked_at: whether every hit was downloaded or refused.
        hits: number of hits.
        refusals: number of refused hits by reason.
        pictures: images downloaded with the current settings, by rank; the latest of each hit.
    """

    is_answered: bool
    is_looked_at: bool
    hits: int
    refusals: dict[str, int]
    pictures: tuple[StoredEntity, ...]


def search_results(
    store: Store, searched: Found, orders: Sequence[StoredEntity]
) -> dict[str, SearchResults]:
    """Return the results of one search for each request, by the request's id."""
    search_plan, download_plan = (one.plan_id for one in searched.reports)
    below = fetch_children(store, [one.id for one in orders], Role.FOUND_FOR)
    hits = {
        order: [hit for hit in many if hit.group == searched.search]
        for order, many in below.items()
    }
    every = [hit for many in hits.values() for hit in many]
    answered = worked_inputs(store, search_plan, [one.seq for one in orders])
    looked_at = worked_inputs(store, download_plan, [hit.seq for hit in every])
    refused = rejections_of(store, download_plan, [hit.seq for hit in every])
    downloaded = fetch_children(store, [hit.id for hit in every], Role.DOWNLOADED_FROM)

    def results(order: StoredEntity) -> SearchResults:
        own = hits.get(order.id, [])
        found = [
            max(wanted, key=lambda one: one.seq)
            for hit in own
            if (
                wanted := [
                    one
                    for one in downloaded[hit.id]
                    if one.record(FoundPicture).contents == searched.contents
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
