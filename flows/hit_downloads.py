"""Downloads the hits of searches whose licence permits it; faults of the world are tried again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from db.entities import NewEntity, StoredEntity, new_entity
from db.repeats import count_plans
from db.work import ActivityRecord, Beneath, Pending, WorkResult, commit_chunk, register_plan
from flows.context import RunContext
from flows.order_searches import FOUND_FOR
from flows.report import Deferred, StageReport, StageResult
from flows.runner import Stage, run_stage
from flows.search_ledger import Clock
from flows.single import store_entity
from flows.tombstones import Tombstones
from models.search.folder import path_in_folder
from schemas.base import canonical_json, digest_of, sha256_of
from schemas.chat import ModelRef
from schemas.contrast_records import FoundHit, FoundPicture
from schemas.download import DownloadedImage, DownloadSettings
from schemas.errors import ServiceError
from schemas.proposals import Picture
from schemas.records import Attribution, Rejection, Source
from sources.images import ImageProblem, InspectedImage, inspect_image
from sources.web.downloading import ImageDownloader
from stages.screen_hits import FOLDER, WEB, screen_hits

DOWNLOADED_FROM = "downloaded_from"
"""The role of the hit that a picture is of."""
IMPORTED_FROM = "imported_from"
"""The role of the source of an image; of what was found, the service."""

DOWNLOAD, ATTEMPT = "download_images", "download_attempt"
VERSION = "3"
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
    """What downloads came to: their plan, what was done, and why hits are left for another run."""

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
        """Gets every hit of an order that stands."""
        source = self._source()
        stage = Stage(
            name=DOWNLOAD,
            version=VERSION,
            dataset=self._dataset,
            configuration={"contents": self._contents},
            chunk_size=100,
            workers=1,  # the downloader keeps many requests in flight itself
            independent=True,  # what is left for later keeps nothing else
            label="download images",
        )
        wanted = Beneath(FOUND_FOR, ("proposed",))
        hits = Pending(self._dataset, FoundHit.kind, ("proposed",), self._search, wanted)

        def work(chunk: Sequence[StoredEntity]) -> list[StageResult]:
            return self._work(chunk, downloader, source)

        report = run_stage(self._context, stage, hits, work)
        plan = register_plan(self._context.store, DOWNLOAD, VERSION, stage.configuration)
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
        return store_entity(self._context, record, self._service.name)

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
        """What became of each hit, by its place."""
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
            **_way(image),
        )
        parents = [(DOWNLOADED_FROM, entity.id), (IMPORTED_FROM, source.id)]
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
            plan_id=register_plan(store, ATTEMPT, VERSION, {"hour": hour}),
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
    """What to say of hits that are left for later; None where there are none."""
    if not report.deferred:
        return None
    reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(report.deferred.items()))
    told = "".join(f"; {reason}: {detail}" for reason, detail in sorted(report.details.items()))
    return ServiceError(
        f"{report.deferred.total()} images could not be downloaded for now ({reasons}){told}; what "
        f"came is stored, run again later: an address is given up after {MOST_ATTEMPTS} tries in "
        f"different hours"
    )


def _is_answer(result: Result) -> bool:
    """Whether somebody on the web answered."""
    return isinstance(result, DownloadedImage) or (
        isinstance(result, Rejection) and "status" in result.context
    )


def _way(image: DownloadedImage | InspectedImage) -> dict[str, object]:
    """Where on the web a picture was in the end, and how it was come by."""
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
