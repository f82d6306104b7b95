"""Finds pictures for contrastive images: searched for, and downloaded (CCD, step 2)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from db.agents import AgentRef
from db.entities import (
    NewEntity,
    StoredEntity,
    new_entity,
)
from db.work import Pending, WorkResult, register_plan
from flows.asking import require_answers
from flows.context import RunContext
from flows.image_orders import strategies_of_orders
from flows.image_searches import open_recorded_search
from flows.report import Deferred, StageReport, StageResult
from flows.runner import Stage, run_stage, run_stream
from flows.search_ledger import Clock, RecordedSearch, utc_now
from flows.single import store_entity
from flows.tombstones import Tombstones
from models.search.folder import path_in_folder
from schemas.base import digest_of, sha256_of
from schemas.contrast_records import FoundHit, FoundPicture, ImageOrder
from schemas.download import DownloadedImage, DownloadSettings
from schemas.errors import BudgetReachedError
from schemas.image_search import FolderSearch, ImageSearchSpec, SearchFailure
from schemas.profile import ContrastSettings
from schemas.proposals import Picture, Strategy
from schemas.records import Attribution, Rejection, Source
from sources.images import ImageProblem, InspectedImage, inspect_image
from sources.web.downloading import ImageDownloader
from stages.screen_hits import FOLDER, WEB, screen_hits

FOUND_FOR = "found_for"
"""The role of the order that a search was made for."""
DOWNLOADED_FROM = "downloaded_from"
"""The role of the hit that a picture is of."""
IMPORTED_FROM = "imported_from"
"""The role of the source of an image; of what was found, the service."""

LIST, SEARCH, DOWNLOAD = "list_folder", "search_images", "download_images"
VERSION = "2"

_EACH_ITS_OWN = "each image has its own"


class Found(NamedTuple):
    """What a search came to.

    Attributes:
        search: the digest of the search, which its hits belong to.
        plans: the numbers of the plans that orders were searched for and hits downloaded by.
        reports: what was done.
        stopped: the limit that was reached, so that orders are left for another run.
    """

    search: str
    plans: tuple[int, int]
    reports: tuple[StageReport, ...]
    stopped: BudgetReachedError | None


DownloaderMaker = Callable[[DownloadSettings], ImageDownloader]
"""Makes what downloads images, open."""


def find_images(
    context: RunContext,
    dataset: str,
    settings: ContrastSettings,
    spec: ImageSearchSpec,
    make_downloader: DownloaderMaker = ImageDownloader,
    clock: Clock = utc_now,
) -> Found:
    """Carries out every order for a search, to the pictures that were found.

    Which day it is for the service's daily budget, `clock` says. Where it, or a limit of the run,
    is reached, what was found until then is downloaded all the same.

    Raises:
        ConfigurationError: something that the search needs is missing.
        ModelError: the service is gone; what came back before is stored.
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
    found = _FoundImages(context, dataset, settings, spec, search)
    search_plan, searched = found.search()
    with make_downloader(settings.download) as downloader:
        download_plan, downloaded = found.download(downloader)
    return Found(found.digest, (search_plan, download_plan), (searched, downloaded), found.stopped)


def _quarantine(context: RunContext, dataset: str, rejections: Sequence[Rejection]) -> None:
    """Keeps why images of a folder cannot be found."""
    listed = digest_of(*(rejection.model_dump_json() for rejection in rejections))
    stage = Stage(name=LIST, version=VERSION, dataset=dataset, configuration={"refused": listed})

    def work(items: Sequence[tuple[int, Rejection]]) -> list[WorkResult]:
        return [WorkResult(number, rejection=rejection) for number, rejection in items]

    if rejections:
        run_stream(context, stage, enumerate(rejections), work, total=len(rejections))


class _FoundImages:
    """The search of one build: each step goes on from what is stored."""

    def __init__(
        self,
        context: RunContext,
        dataset: str,
        settings: ContrastSettings,
        spec: ImageSearchSpec,
        search: RecordedSearch,
    ) -> None:
        self._context = context
        self._dataset = dataset
        self._settings = settings
        self._spec = spec
        self._search = search
        self.digest = search.digest(settings.choice.first)
        self.stopped: BudgetReachedError | None = None
        self._tombstones = Tombstones(context.store)

    def search(self) -> tuple[int, StageReport]:
        """Searches for every order that a limit lets it; gives the number of the plan, too."""
        first = self._settings.choice.first
        stage = Stage(
            name=SEARCH,
            version=VERSION,
            dataset=self._dataset,
            configuration={"search": self.digest},
            agents=(AgentRef("software", self._spec.name, self._spec.revision),),
            chunk_size=10,  # queries may cost money: hits are committed soon
            workers=1,
            independent=True,  # chunks do not grow
            label="search images",
        )

        def work(orders: Sequence[StoredEntity]) -> list[StageResult]:
            strategies = strategies_of_orders(self._context.store, orders)
            return [
                self._searched_within_limits(order, strategies[order.id].record(Strategy), first)
                for order in orders
            ]

        report = run_stage(self._context, stage, self._orders(), work)
        if self.stopped is None:
            require_answers(self._search.ref, report)
        plan = register_plan(self._context.store, SEARCH, VERSION, stage.configuration)
        return plan, report

    def _orders(self) -> Pending:
        return Pending(self._dataset, ImageOrder.kind, ("proposed",), "search")

    def _searched_within_limits(
        self, order: StoredEntity, strategy: Strategy, first: int
    ) -> StageResult:
        if self.stopped is None:
            try:
                return self._searched(order, strategy, first)
            except BudgetReachedError as reached:
                self.stopped = reached
        return Deferred(order.seq, "budget_reached")

    def _searched(self, order: StoredEntity, strategy: Strategy, first: int) -> StageResult:
        query = strategy.contrastive_caption
        outcome = self._search.search(query, first)
        if isinstance(outcome, SearchFailure):
            if outcome.retriable:
                return Deferred(order.seq, outcome.reason)
            told = {"query": query, "raw": outcome.raw}
            return _rejected(order, SEARCH, outcome.reason, outcome.detail, told)
        if not outcome.hits:
            detail = f"{self._search.ref.name} knows no image for the query {query!r}."
            return _rejected(order, SEARCH, "no_results", detail, {"query": query})
        hits = (
            new_entity(
                FoundHit(engine=str(self._search.ref), search=self.digest, query=query, hit=hit),
                self._dataset,
                parents=[(FOUND_FOR, order.id)],
                group=self.digest,  # by which no other search takes its hits
            )
            for hit in outcome.hits[:first]
        )
        return WorkResult(order.seq, tuple(hits))

    def download(self, downloader: ImageDownloader) -> tuple[int, StageReport]:
        """Gets every hit whose licence permits it; gives the number of the plan, too."""
        source = self._source()
        configuration = {"settings": self._settings.download.model_dump(mode="json")}
        stage = Stage(
            name=DOWNLOAD,
            version=VERSION,
            dataset=self._dataset,
            configuration=configuration,
            chunk_size=100,
            workers=1,  # the downloader keeps many requests in flight itself
            label="download images",
        )
        pending = Pending(self._dataset, FoundHit.kind, ("proposed",), self.digest)

        def work(hits: Sequence[StoredEntity]) -> list[WorkResult]:
            return self._downloaded(hits, downloader, source)

        report = run_stage(self._context, stage, pending, work)
        plan = register_plan(self._context.store, DOWNLOAD, VERSION, configuration)
        return plan, report

    def _source(self) -> NewEntity:
        """The service, as what its images are imported from."""
        ref = self._search.ref
        record = Source(
            name=ref.name,
            format="image-search",
            annotation_file=str(ref),
            annotation_sha256=sha256_of(str(ref).encode()),
            licence=_EACH_ITS_OWN,
            citation="",
        )
        return store_entity(self._context, record, ref.name)

    def _downloaded(
        self, hits: Sequence[StoredEntity], downloader: ImageDownloader, source: NewEntity
    ) -> list[WorkResult]:
        self._tombstones.look()
        found: dict[int, DownloadedImage | InspectedImage | Rejection] = {}
        web: list[int] = []
        folder = self._spec.folder if isinstance(self._spec, FolderSearch) else None
        schemes = WEB if folder is None else FOLDER
        for place, entity in enumerate(hits):
            record = entity.record(FoundHit)
            (hit,) = screen_hits(record.query, [record.hit], schemes)
            if isinstance(hit, Rejection):
                found[place] = hit
            elif folder is not None:
                found[place] = _read(Path(folder), hit.image_url)
            else:
                web.append(place)
        urls = (hits[place].record(FoundHit).hit.image_url for place in web)
        found |= {web[number]: result for number, result in downloader.download(urls)}
        return [self._picture(entity, found[place], source) for place, entity in enumerate(hits)]

    def _picture(
        self,
        entity: StoredEntity,
        image: DownloadedImage | InspectedImage | Rejection,
        source: NewEntity,
    ) -> WorkResult:
        if isinstance(image, Rejection):
            return WorkResult(entity.seq, rejection=image)
        found = entity.record(FoundHit)
        hit = found.hit
        digests = (image.sha256, image.source_sha256)
        if refused := self._tombstones.refusal(DOWNLOAD, hit.image_url, digests):
            return WorkResult(entity.seq, rejection=refused)
        picture = Picture(
            sha256=self._context.blobs.put(image.data, image.media_type),
            media_type=image.media_type,
            width_px=image.width_px,
            height_px=image.height_px,
        )
        terms = Attribution(licence=hit.licence or "", creator=hit.creator, source_url=hit.page_url)
        record = FoundPicture(found=found, picture=picture, attribution=terms)
        parents = [(DOWNLOADED_FROM, entity.id), (IMPORTED_FROM, source.id)]
        made = new_entity(record, self._dataset, parents=parents)
        return WorkResult(entity.seq, (made,))


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


def _rejected(
    order: StoredEntity, stage: str, reason: str, detail: str, context: dict[str, Any]
) -> WorkResult:
    rejection = Rejection(stage=stage, reason=reason, detail=detail, context=context)
    return WorkResult(order.seq, rejection=rejection)
