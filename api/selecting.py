"""The first step of a pipeline: import its sources, and copy their images into the dataset."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from loupe.api.parts import OwnRun, Part, without_code
from loupe.api.references import code_digest
from loupe.db.entities import (
    LIVE,
    NewEntity,
    StoredEntity,
    WorkResult,
    fetch_children,
    find,
    find_children,
    new_entity,
    pages,
    parents_of,
)
from loupe.db.plugin_agents import plugin_agents
from loupe.flows.engine.importing import import_source, open_source
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, run_stream, store_settings
from loupe.flows.engine.scope import is_original
from loupe.flows.engine.video_import import read_videos
from loupe.schemas.base import digest_of
from loupe.schemas.build import SourceSpec
from loupe.schemas.plugins import foreign_plugins
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image, Source
from loupe.schemas.video import READ_SOURCES, StageSettings
from loupe.sources.annotations import Importer
from loupe.sources.importer import declared_format
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
        origins: list[NewEntity] = []
        run.shared["origins"] = origins  # the sources, for steps that take more of their images
        of_images = [one for one in run.build.sources if isinstance(one, SourceSpec)]
        if len(of_images) < len(run.build.sources):
            read_videos(run, most=None if run.build.limit is None else 1)
        for spec in of_images:
            source, report = _imported(run, spec)
            origins.append(source)
            run.add(report, self._copied(run, spec, source))
        read = {"sources": [one.id for one in origins]}
        settings = store_settings(run.context, run.dataset, READ_SOURCES, VERSION, read)
        run.keep_settings(settings.id, [one.id for one in run.stage_settings(READ_SOURCES)])

    def _copied(self, run: OwnRun, spec: SourceSpec, source: NewEntity) -> StageReport:
        build = run.build
        share = build.test_share
        values: dict[str, Any] = {"source": source.id, "test_share": share, "seed": build.seed}
        for plugin in foreign_plugins("formats", [spec.format]):
            values["package"] = plugin.named
        if (form := declared_format(spec.format)) is not None:
            values["format"] = {"name": form.__qualname__, "version": form.version}
            values["code"] = _format_digest(form)
            self._warn_of_code(run, spec, values)
        settings = store_settings(run.context, run.dataset, NAME, VERSION, values)
        run.current.add(settings.id)
        copies = _Copies(run, settings, share, _earlier_copies(run, source, settings))
        stage = Stage(
            name=NAME,
            version=VERSION,
            dataset=run.dataset,
            configuration={"dataset": run.dataset, "settings": settings.id},
            agents=plugin_agents("formats", spec.format),
            label=f"copy {spec.name}",
        )

        def images() -> Iterator[tuple[int, StoredEntity]]:
            for one in find_children(run.store, source.id, Role.IMPORTED_FROM):
                is_own = one.dataset == spec.name  # and none that was made of another image
                if is_own and one.kind == Image.kind and one.state in LIVE:
                    yield one.seq, one

        def work(chunk: Sequence[tuple[int, StoredEntity]]) -> list[WorkResult]:
            copied = copies.of([one for _, one in chunk])
            numbered = zip(chunk, copied, strict=True)
            return [WorkResult(number, one.entities) for (number, _), one in numbered]

        report = run_stream(run.context, stage, images(), work)
        if copies.earlier:
            for page in pages(one for _, one in images()):
                for copy in copies.of(page):
                    run.keep(copy.kept)
            run.is_fresh = False
        return report

    def _warn_of_code(self, run: OwnRun, spec: SourceSpec, values: Mapping[str, Any]) -> None:
        """Say if the code of a format changed and its version did not."""
        before = [one.record(StageSettings).values for one in run.stage_settings(NAME)]
        same = [one["code"] for one in before if without_code(one) == without_code(values)]
        if same and values["code"] not in same:
            run.say(
                f"warning: the code of the format {spec.format!r} changed, but its version is "
                f"still {values['format']['version']!r}: what it read stays; raise the version of "
                f"the class to read the file again"
            )


def _format_digest(form: type[Importer]) -> str:
    """Return a digest of the code of a format: of all functions of its class."""
    digests = []
    for name, one in sorted(vars(form).items()):
        if inspect.isfunction(one):
            digests += [name, code_digest(one)]
    return digest_of(*digests)


def _earlier_copies(run: OwnRun, source: NewEntity, settings: NewEntity) -> dict[str, str]:
    """Return the copies of an earlier state of a source, by their payloads.

    An image that is in the table as before keeps its copy, with all decisions on what was made of
    it. What was read with other columns, or into another split, is of another source.
    """
    sources = find(run.store, source.dataset, Source.kind)
    read_as = {one.id: one.record(Source).read_as for one in sources}
    earlier: set[str] = set()
    for one in run.stage_settings(NAME):
        copied = one.record(StageSettings).values["source"]
        if copied in read_as and read_as[copied] == read_as[source.id]:
            earlier.add(one.id)
    earlier.discard(settings.id)
    found: dict[str, str] = {}
    for page in pages(find(run.store, run.dataset, Image.kind)):
        made_with = parents_of(run.store, [one.id for one in page], Role.WRITTEN_WITH)
        for one in page:
            is_earlier = not earlier.isdisjoint(made_with.get(one.id, ()))
            if is_earlier and one.state != "withdrawn":
                found[one.payload] = min(one.id, found.get(one.payload, one.id))
    return found


class _Copied(NamedTuple):
    """The new entities of a copy, and the ids of an earlier one that counts, the image first."""

    entities: tuple[NewEntity, ...]
    kept: tuple[str, ...]


class _Copies:
    """Copies images of a source, with their captions, into the dataset."""

    def __init__(
        self, run: OwnRun, settings: NewEntity, share: float | None, earlier: Mapping[str, str]
    ) -> None:
        self._run = run
        self._settings = settings
        self._share = share
        self.earlier = earlier

    def of(self, images: Sequence[StoredEntity]) -> list[_Copied]:
        """Return the copy of each image."""
        store = self._run.store
        captions = fetch_children(store, [one.id for one in images], Role.DESCRIBES)
        records = [self._record(one) for one in images]
        known = [self.earlier.get(record.payload()) for record in records]
        before = fetch_children(store, [id_ for id_ in known if id_], Role.DESCRIBES)
        return [
            self._copied(image, record, captions[image.id], id_, before[id_] if id_ else ())
            for image, record, id_ in zip(images, records, known, strict=True)
        ]

    def _record(self, image: StoredEntity) -> Image:
        record = image.record(Image)
        if self._share is None:
            return record
        drawn = digest_of(str(self._run.build.seed), record.source, record.identity)
        split = "test" if int(drawn, 16) < self._share * _RANGE else "train"
        return record.model_copy(update={"split": split})

    def _copied(
        self,
        image: StoredEntity,
        record: Image,
        captions: Sequence[StoredEntity],
        earlier: str | None,
        before: Sequence[StoredEntity],
    ) -> _Copied:
        entities, kept = [], []
        copy = earlier or ""
        if earlier is None:
            made = new_entity(
                record,
                self._run.dataset,
                parents=[(Role.SAMPLED_FROM, image.id), (Role.WRITTEN_WITH, self._settings.id)],
                split=record.split,
                group=image.group,
            )
            copy = made.id
            entities.append(made)
        else:
            kept.append(earlier)
        known = {one.payload: one.id for one in before if is_original(one)}
        for caption in captions:
            if (same := known.get(caption.payload)) is not None:
                kept.append(same)
                continue
            text = new_entity(
                caption.record(Caption),
                self._run.dataset,
                parents=[(Role.DESCRIBES, copy), (Role.SAMPLED_FROM, caption.id)],
                split=record.split,
                group=copy,
            )
            entities.append(text)
            if earlier is not None:
                kept.append(text.id)
        return _Copied(tuple(entities), tuple(kept))


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
        agents=opened.agents,
        label=f"import {spec.name}",
    )
    rows = islice(enumerate(opened.rows()), run.build.limit)

    def work(chunk: Sequence[tuple[int, Row]]) -> list[WorkResult]:
        opened.tombstones.look()
        return opened.results(chunk)

    return opened.entity, run_stream(run.context, stage, rows, work)
