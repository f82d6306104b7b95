"""Finds pictures for contrastive images: searched for, and downloaded (CCD, step 2)."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from db.work import WorkResult
from flows.context import RunContext
from flows.hit_downloads import DownloaderMaker, HitDownloads, contents_key
from flows.image_searches import open_recorded_search
from flows.order_searches import OrderSearches
from flows.report import StageReport
from flows.runner import Stage, run_stream
from flows.search_ledger import Clock, utc_now
from schemas.base import digest_of
from schemas.errors import LoupeError
from schemas.image_search import FolderSearch, ImageSearchSpec
from schemas.profile import ContrastSettings
from schemas.records import Rejection
from sources.web.downloading import ImageDownloader

LIST = "list_folder"
VERSION = "3"


class Found(NamedTuple):
    """What a search came to.

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
    """Carries out every order for a search, to the pictures that were found.

    Which day it is for the service's daily budget, `clock` says. Where that or a limit of the run
    is reached, or the service is gone, what was found until then is downloaded all the same.

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
    stage = Stage(name=LIST, version=VERSION, dataset=dataset, configuration={"refused": listed})

    def work(items: Sequence[tuple[int, Rejection]]) -> list[WorkResult]:
        return [WorkResult(number, rejection=rejection) for number, rejection in items]

    if rejections:
        run_stream(context, stage, enumerate(rejections), work, total=len(rejections))
