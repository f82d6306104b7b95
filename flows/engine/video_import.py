"""Import collections of videos: inspect every file and record its digest."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from loupe.db.entities import (
    NewEntity,
    StoredEntity,
    WorkResult,
    count_entities,
    find,
    find_children,
    new_entity,
)
from loupe.flows.engine.context import PipelineRun, RunContext
from loupe.flows.engine.importing import Tombstones, register_source
from loupe.flows.engine.report import Deferred, StageReport, StageResult
from loupe.flows.engine.runner import Stage, run_each, run_stream
from loupe.schemas.base import digest_of, sha256_of
from loupe.schemas.build import SourceSpec, VideoSourceSpec
from loupe.schemas.checkout import install_command
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.extras import missing_modules
from loupe.schemas.provenance import Role
from loupe.schemas.records import Source
from loupe.schemas.video import Video
from loupe.services.diagnosis import Finding, lacking
from loupe.sources.faces import treatment_of
from loupe.sources.video.finding import FoundVideo, find_all_videos, inspect_video, unknown_rate
from loupe.sources.video.reader import (
    VideoProblem,
    VideoRefusedError,
    files_of,
    located,
    reaching,
)

STAGE = "import_videos"
_TAKE_STAGE = "take_videos"
VERSION = "1"
FORMAT = "videos"
_NO_ANNOTATIONS = "(none: videos)"
"""Stands for the annotation file of a collection without one; its digest is that of no bytes."""

SPLIT = "split"
"""The subject of the finding that one video cannot be split, with which a run is still useful."""
_NUMBER_DIGITS = 15


def read_videos(run: PipelineRun[Any], most: int | None = None) -> None:
    """Import the videos of all sources of a run, and copy them into its dataset.

    Args:
        run: the run.
        most: at most so many of each source.

    Raises:
        ConfigurationError: none can be used.
    """
    specs = [one for one in run.build.sources if isinstance(one, VideoSourceSpec)]
    for spec in specs:
        source, imported = import_videos(run.context, spec, most)
        run.add(imported, take_videos(run.context, run.dataset, source))
    if not count_entities(run.store, run.dataset, Video.kind):
        names = " ".join(spec.name for spec in specs)
        raise ConfigurationError(
            f"the sources of {run.dataset!r} have no usable video; look at: loupe quarantine "
            f"{names}"
        )


def import_videos(
    context: RunContext, spec: VideoSourceSpec, most: int | None = None
) -> tuple[NewEntity, StageReport]:
    """Import the videos of `spec` into the dataset of its name; later ones are added to it.

    A file that was inspected before and is unchanged since (by size and time) is not read again.
    Unusable files go to quarantine.
    """
    described = Source(
        name=spec.name,
        format=FORMAT,
        annotation_file=_NO_ANNOTATIONS,
        annotation_sha256=sha256_of(b""),
        licence=spec.licence,
        citation=spec.citation,
        homepage=spec.homepage,
        faces=treatment_of(spec.faces),
    )
    entity, source = register_source(context, described, spec)
    stage = Stage(
        STAGE,
        VERSION,
        spec.name,
        {"source": source.model_dump(mode="json")},
        chunk_size=8,
        label=f"import {spec.name}",
    )

    tombstones = Tombstones(context.store)

    def result(number: int, found: FoundVideo | VideoProblem) -> StageResult:
        inspected = inspect_video(found) if isinstance(found, FoundVideo) else found
        if isinstance(inspected, VideoProblem):
            if isinstance(found, FoundVideo) and inspected.reason == "unreachable_video":
                return Deferred(number, inspected.reason)
            return WorkResult(number, rejection=inspected.as_rejection(STAGE))
        if refused := tombstones.refusal(STAGE, inspected.file_path, (inspected.sha256,)):
            return WorkResult(number, rejection=refused)
        if spec.frame_rate is None and not inspected.facts.has_stated_rate:
            context.progress.say(unknown_rate(inspected, "frame_rate in the build file"))
        video = new_entity(
            Video(source=spec.name, **inspected.model_dump(exclude={"url"})),
            spec.name,
            parents=[(Role.IMPORTED_FROM, entity.id)],
            group=f"{spec.name}/{inspected.sha256}",
        )
        return WorkResult(number, entities=(video,))

    def work(found: Sequence[tuple[int, FoundVideo | VideoProblem]]) -> list[StageResult]:
        tombstones.look()
        return [result(number, one) for number, one in found]

    return entity, run_stream(context, stage, islice(_numbered(spec.videos), most), work)


def take_videos(context: RunContext, dataset: str, source: NewEntity) -> StageReport:
    """Copy the imported videos of a source into the dataset that is built.

    Bytes that the dataset has under another name go to quarantine: the people in them would occur
    twice. Of several new ones the first by path is taken.
    """
    stage = Stage(
        _TAKE_STAGE,
        VERSION,
        dataset,
        {"dataset": dataset, "source": source.id},
        label=f"take {source.dataset}",
    )
    children = find_children(context.store, source.id, Role.IMPORTED_FROM)
    new = [video for video in children if video.state == "proposed"]
    there = [one.record(Video) for one in find(context.store, dataset, Video.kind)]
    by_path = sorted((one.record(Video) for one in new), key=lambda video: video.file_path)
    taken: dict[str, Video] = {}  # the one that stands for each digest
    for video in (*there, *by_path):
        taken.setdefault(video.sha256, video)

    def result(number: int, entity: StoredEntity) -> WorkResult:
        video = entity.record(Video)
        first = taken[video.sha256]
        if first == video:
            parents = [(Role.SAMPLED_FROM, entity.id)]
            copy = new_entity(video, dataset, parents=parents, group=entity.dataset)
            return WorkResult(number, entities=(copy,))
        what = f"has the same bytes as {first.file_path!r} of {first.source!r}, which is taken"
        refusal = VideoRefusedError(video.file_path, "duplicate_video", what)
        return WorkResult(number, rejection=refusal.as_problem().as_rejection(_TAKE_STAGE))

    return run_each(context, stage, [(video.seq, video) for video in new], result)


def _numbered(addresses: Sequence[str]) -> Iterator[tuple[int, FoundVideo | VideoProblem]]:
    """Number each video, from metadata that changes when a file does; contents are not read."""
    for found in find_all_videos(addresses):
        one: FoundVideo | VideoProblem = found
        if isinstance(found, FoundVideo):
            try:
                key = _version(found)
            except VideoRefusedError as refusal:
                one, key = refusal.as_problem(), refusal.reason
        else:
            key = found.reason
        digest = digest_of(type(one).__name__, one.file_path, key)
        yield int(digest[:_NUMBER_DIGITS], 16), one


def _version(found: FoundVideo) -> str:
    """Return a text that changes when a file of a video does."""
    filesystem, _ = located(found.url)
    with reaching(filesystem, found.file_path):
        paths = [located(url)[1] for url in files_of(found.url, found.file_path)]
        versions = [filesystem.ukey(path) for path in paths]
    return versions[0] if len(versions) == 1 else digest_of(*versions)


# What can be said of the videos of a build before it is run.


def check_videos(
    sources: Sequence[SourceSpec | VideoSourceSpec], test_share: float | None
) -> Iterator[Finding]:
    """Check whether videos can be read, and their people be split into train and test."""
    specs = [one for one in sources if isinstance(one, VideoSourceSpec)]
    if not specs:
        return
    if missing_modules("video"):
        yield lacking("videos", "need the extra video", install_command("video"))
        return
    is_split = test_share is not None and 0 < test_share < 1
    if is_split and len(specs) == len(sources) and _is_one_video(specs):
        yield lacking(
            SPLIT,
            "the sources have one video, and all people of a video are in the same split: there "
            "will be people for training or for testing, not both",
            "add videos, from which the test set can come; or set test_share = 0 (all for "
            "training) or 1 (all for testing)",
        )


def _is_one_video(specs: Sequence[VideoSourceSpec]) -> bool:
    """Tell whether all sources name one video, as far as that is known without a network."""
    addresses = [address for spec in specs for address in spec.videos]
    if any("://" in address for address in addresses):
        return False
    found = islice((one for one in find_all_videos(addresses) if isinstance(one, FoundVideo)), 2)
    return len(list(found)) == 1
