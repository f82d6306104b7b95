"""The state and queries that the steps of `build-ccd` share."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from loupe.db.entities import LIVE, StoredEntity, fetch_children
from loupe.db.store import Store
from loupe.flows.engine.context import PipelineRun
from loupe.flows.engine.embedding import CachedEmbedder, pinned
from loupe.flows.engine.runner import sole_run
from loupe.flows.engine.scope import is_original
from loupe.schemas.build import CcdBuild
from loupe.schemas.content_filter import ServiceFlags
from loupe.schemas.errors import ConfigurationError, LoupeError
from loupe.schemas.image_search import DownloadSettings, FolderSearch, ImageSearchSpec
from loupe.schemas.profile import ContrastSettings, Profile
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Granularity, Image, Method
from loupe.sources.faces import treatment_of
from loupe.sources.web import open_downloader

if TYPE_CHECKING:
    from loupe.sources.web.downloading import ImageDownloader

Clock = Callable[[], datetime]
"""Returns the time with its zone."""
DownloaderMaker = Callable[[DownloadSettings], "ImageDownloader"]
"""Opens an image downloader."""


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


@dataclass
class CcdRun(PipelineRun[CcdBuild]):
    """State shared by the steps.

    Attributes:
        clock: returns the time, which determines the day of a search service's daily budget.
        method: how images are obtained in this pass.
        stopped: the error that stopped a method; raised once its images are stored and chosen.
        deferred: strategies whose results of an earlier method are not known yet.
    """

    make_downloader: DownloaderMaker = open_downloader
    clock: Clock = utc_now
    settings: ContrastSettings = field(init=False)
    embedder: CachedEmbedder = field(init=False)
    search: ImageSearchSpec | None = field(init=False)
    method: Method = field(init=False)
    stopped: LoupeError | None = field(init=False, default=None)
    deferred: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.settings = self.profile.contrast
        self.compared_by = self.settings.embedder
        self.embedder = CachedEmbedder(
            self.store, pinned(self.settings.embedder), settings=self.context.settings
        )
        self.search = search_of(self.build.search_folder, self.profile)

    @property
    def edits_alone(self) -> bool:
        """Whether all images of the build are edited."""
        return self.search is None or "search" not in self.build.methods

    def alone(self, work: str) -> AbstractContextManager[None]:
        """Lock a step so that parallel runs do not deactivate what this run makes."""
        return sole_run(self.context, self.dataset, work)


def image_rules(run: CcdRun) -> dict[str, object]:
    """Return what decides on found and edited images and their bytes, if it is not the default.

    How faces are treated, and the filter of their content.
    """
    rules: dict[str, object] = {}
    if treatment := treatment_of(run.build.faces):
        rules["faces"] = treatment.model_dump()
    content_filter = run.profile.contrast.content_filter
    if content_filter != ServiceFlags():
        rules["content_filter"] = content_filter.model_dump(mode="json")
    return rules


def search_of(folder: Path | None, profile: Profile) -> ImageSearchSpec | None:
    """Return the search service of the profile, or the folder that a build names.

    Raises:
        ConfigurationError: there are both, or the folder cannot be searched.
    """
    if folder is None:
        return profile.contrast.search
    if profile.contrast.search is not None:
        raise ConfigurationError(
            f"the build names a folder to search (search_folder) and profile {profile.name!r} a "
            f"service ({profile.contrast.search.name}); only one of them can be searched"
        )
    spec = FolderSearch(folder=str(folder), embedder=pinned(profile.contrast.embedder))
    for path, what in ((folder, "is no folder"), (folder / spec.licence_file, "is missing")):
        if not path.exists():
            raise ConfigurationError(
                f"search_folder must hold images and their licences ({spec.licence_file}); "
                f"{path} {what}"
            )
    return spec


def is_anchor(image: StoredEntity) -> bool:
    """Return whether an image of a contrastive benchmark is an anchor."""
    return image.record(Image).contrast is None


def coarse_captions(store: Store, image_ids: Sequence[str]) -> dict[str, list[StoredEntity]]:
    """Return the coarse captions of each anchor, or those of its source, by position."""
    coarse: dict[str, list[StoredEntity]] = defaultdict(list)
    for image_id, captions in fetch_children(store, image_ids, Role.DESCRIBES).items():
        for one in sorted(captions, key=lambda one: one.record(Caption).position):
            is_coarse = one.record(Caption).granularity is Granularity.COARSE
            if (is_coarse or is_original(one)) and one.state in LIVE:
                coarse[image_id].append(one)
    return coarse
