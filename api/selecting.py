"""The first step of a pipeline: import its sources, and copy their images into the dataset."""

from collections.abc import Iterator, Sequence
from itertools import islice

from loupe.api.parts import OwnRun, Part
from loupe.db.entities import (
    LIVE,
    NewEntity,
    StoredEntity,
    WorkResult,
    fetch_children,
    find_children,
    new_entity,
)
from loupe.flows.engine.importing import import_source, open_source
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, run_stream, store_settings
from loupe.schemas.base import digest_of
from loupe.schemas.build import SourceSpec
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image
from loupe.sources.records import Row

NAME = "select"
VERSION = "1"
_RANGE = 1 << 128


class Select(Part):
    """Imports the sources and copies their images, with their captions, into the dataset."""

    name = NAME
    version = VERSION

    def described(self) -> str:
        """Return what it does."""
        return "sources"

    def run(self, run: OwnRun) -> None:
        """Import what is new in the sources, and copy it."""
        for spec in run.build.sources:
            source, report = _imported(run, spec)
            run.done(report, self._copied(run, spec, source))

    def _copied(self, run: OwnRun, spec: SourceSpec, source: NewEntity) -> StageReport:
        build = run.build
        share = build.test_share
        values = {"source": source.id, "test_share": share, "seed": build.seed}
        settings = store_settings(run.context, run.dataset, NAME, VERSION, values)
        run.current.add(settings.id)
        stage = Stage(
            name=NAME,
            version=VERSION,
            dataset=run.dataset,
            configuration={"dataset": run.dataset, "settings": settings.id},
            label=f"copy {spec.name}",
        )

        def images() -> Iterator[tuple[int, StoredEntity]]:
            for one in find_children(run.store, source.id, Role.IMPORTED_FROM):
                if one.kind == Image.kind and one.state in LIVE:
                    yield one.seq, one

        def work(chunk: Sequence[tuple[int, StoredEntity]]) -> list[WorkResult]:
            captions = fetch_children(run.store, [one.id for _, one in chunk], Role.DESCRIBES)
            return [
                WorkResult(number, _copy(run, one, captions[one.id], settings, share))
                for number, one in chunk
            ]

        return run_stream(run.context, stage, images(), work)


def _imported(run: OwnRun, spec: SourceSpec) -> tuple[NewEntity, StageReport]:
    """Import a source, or the first records of it for a preview."""
    if run.build.limit is None:
        return import_source(run.context, spec)
    opened = open_source(run.context, spec)
    stage = Stage(
        name="import_source",
        version=VERSION,
        dataset=spec.name,
        configuration={**opened.configuration, "limit": run.build.limit},
        label=f"import {spec.name}",
    )
    rows = islice(enumerate(opened.rows()), run.build.limit)

    def work(chunk: Sequence[tuple[int, Row]]) -> list[WorkResult]:
        opened.tombstones.look()
        return [opened.result(number, row) for number, row in chunk]

    return opened.entity, run_stream(run.context, stage, rows, work)


def _copy(
    run: OwnRun,
    image: StoredEntity,
    captions: Sequence[StoredEntity],
    settings: NewEntity,
    share: float | None,
) -> tuple[NewEntity, ...]:
    record = image.record(Image)
    split = record.split
    if share is not None:
        drawn = int(digest_of(str(run.build.seed), record.source, record.identity), 16)
        split = "test" if drawn < share * _RANGE else "train"
        record = record.model_copy(update={"split": split})
    copy = new_entity(
        record,
        run.dataset,
        parents=[(Role.SAMPLED_FROM, image.id), (Role.WRITTEN_WITH, settings.id)],
        split=split,
        group=image.group,
    )
    texts = [
        new_entity(
            one.record(Caption),
            run.dataset,
            parents=[(Role.DESCRIBES, copy.id), (Role.SAMPLED_FROM, one.id)],
            split=split,
            group=copy.id,
        )
        for one in captions
    ]
    return (copy, *texts)
