"""A build whose contrastive images are drawn in advance and found on local servers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from loupe.annotate.backend import Desks
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.ccd.pipeline import ccd_pipeline
from loupe.flows.ccd.run import CcdRun, Clock, utc_now
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.flows.engine.pipeline import PipelineSpec, run_pipeline
from loupe.schemas.build import CcdBuild
from loupe.schemas.image_search import OpenverseSearch
from loupe.schemas.profile import Profile
from loupe.sources.web.downloading import ImageDownloader
from tests.flows.ccd_world import contrast_build, contrast_profile, counted_model
from tests.flows.still_families import Family, found_on, source_of_anchors
from tests.servers.counting_server import CountingServer
from tests.servers.search_server import SearchServer, search_server
from tests.sources.web.adversary import Adversary, only_loopback, quick, serving


class FoundVariants(NamedTuple):
    """The servers, and a build of the anchors whose variants they hold."""

    service: SearchServer
    host: Adversary
    build: CcdBuild

    def profile(self, model: CountingServer, **search: Any) -> Profile:
        """Propose and refine with the counting model; `search` adds settings of the service."""
        counted = counted_model(model.base_url)
        families: dict[str, Any] = {"provider": "openverse", "base_url": self.service.base_url}
        return contrast_profile(
            strategist=counted,
            refiner=counted,
            search=OpenverseSearch(**{**families, **search}),
            download=quick(self.host.port, timeout_seconds=120, connect_timeout_seconds=60),
        )


@contextmanager
def found_variants(
    stills: StillsWorld, families: Sequence[Family], folder: Path, **build: Any
) -> Iterator[FoundVariants]:
    """Serve each variant as the only result for its caption; other queries have no results."""
    source = source_of_anchors(stills, [one.first for one in families], folder / "anchors.json")
    wanted = contrast_build(
        stills, **{"anchors": None, "methods": ("search",), "sources": (source,), **build}
    )
    with search_server() as service, serving() as host:
        known = found_on(host, stills, families)
        service.results_of = lambda query: known.get(query, [])
        yield FoundVariants(service, host, wanted)


def build_found(
    run: RunContext,
    build: CcdBuild,
    profile: Profile,
    clock: Clock = utc_now,
    pipeline: Callable[..., PipelineSpec[CcdBuild, CcdRun]] = ccd_pipeline,
) -> BuildReport:
    """Run the build without annotators, downloading from 127.0.0.1 only."""
    spec = pipeline(
        make_downloader=lambda settings: ImageDownloader(settings, allow=only_loopback),
        clock=clock,
    )
    return run_pipeline(run, spec, build, profile, _no_desks)


def _no_desks() -> Desks:
    raise AssertionError("no annotator may be asked")
