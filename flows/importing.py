"""Imports a source: every record validated, every image looked at, every reject accounted for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from db.entities import NewEntity, find, new_entity
from db.work import WorkResult
from flows.context import RunContext
from flows.report import StageReport
from flows.runner import Stage, run_stream
from flows.single import store_entity
from flows.source_terms import tell_of_terms
from flows.tombstones import Tombstones
from schemas.build import SourceSpec
from schemas.errors import ConfigurationError, FormatError
from schemas.records import (
    Caption,
    Contrast,
    Granularity,
    Image,
    ImageFacts,
    Rejection,
    Sample,
    Source,
)
from sources.description import describe_source
from sources.images import ImageLimits, ImageProblem, InspectedImage, inspect_any
from sources.importer import Importer, importer_for
from sources.reading import read_source
from sources.records import BadRow, ReadOptions, Row, SourceContrast, SourceRow

VERSION = "1"
STAGE = "import_source"
KNOWN_FROM = "known_from"
"""The role of what a source says of an image beside its captions."""
CONTRAST_OF = "contrast_of"
"""The role of the anchor of a contrastive image."""


def import_source(context: RunContext, spec: SourceSpec) -> tuple[NewEntity, StageReport]:
    """Imports `spec` into the dataset of its name; a second time does only what is missing.

    Raises:
        FormatError: the file is not of the format, or the image folder is not there.
        ConfigurationError: the name is that of a dataset that was built.
    """
    importer = importer_for(spec.format)
    if not spec.images.is_dir():
        raise FormatError(f"source {spec.name}: the image folder {spec.images} is not there")
    if next(find(context.store, spec.name, Sample.kind), None) is not None:
        raise ConfigurationError(
            f"dataset {spec.name!r} was built from other sources; import under another name"
        )
    source = _describe(importer, spec)
    tell_of_terms(context, source, spec.permitted_by)
    entity = store_entity(context, source, spec.name)
    options, limits = ReadOptions(split=spec.split), ImageLimits()
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=spec.name,
        configuration={
            "source": source.model_dump(mode="json"),
            "options": options.model_dump(mode="json"),
            "limits": limits.model_dump(mode="json"),
        },
        label=f"import {spec.name}",
    )

    importing = _Import(context, source, entity.id, spec.images, limits, Tombstones(context.store))

    def work(rows: Sequence[tuple[int, Row]]) -> list[WorkResult]:
        importing.tombstones.look()
        return [importing.result(number, row) for number, row in rows]

    rows = _numbered(importer, spec.annotations, options)
    return entity, run_stream(context, stage, rows, work)


def _numbered(importer: Importer, path: Path, options: ReadOptions) -> Iterator[tuple[int, Row]]:
    """Rows and bad rows by their place in the stream, which the file's digest determines."""
    return enumerate(read_source(importer, path, options))


def _describe(importer: Importer, spec: SourceSpec) -> Source:
    return describe_source(
        importer,
        spec.annotations,
        name=spec.name,
        licence=spec.licence,
        citation=spec.citation,
        homepage=spec.homepage,
        granularity=spec.granularity,
    )


@dataclass(frozen=True)
class _Import:
    """The import of one source: turns rows into entities, or into rejections."""

    context: RunContext
    source: Source
    source_id: str
    image_root: Path
    limits: ImageLimits
    tombstones: Tombstones

    def result(self, number: int, row: Row) -> WorkResult:
        """What becomes of the row with that number."""
        if isinstance(row, BadRow):
            return WorkResult(number, rejection=row.as_rejection())
        made: list[NewEntity] = []
        for one in (row.contrast.anchor, row) if row.contrast else (row,):
            inspected = inspect_any(self.image_root, one, self.limits)
            if isinstance(inspected, ImageProblem):
                bad_row = inspected.as_bad_row(row, self.source.annotation_file)
                return WorkResult(number, rejection=bad_row.as_rejection())
            if refused := self._refusal(inspected):
                return WorkResult(number, rejection=refused)
            self.context.blobs.put(inspected.data, inspected.media_type)
            facts = self._facts(one, inspected)
            anchor = made[-1] if made else None
            made += [*facts, self._image(one, inspected, facts, anchor)]
        return WorkResult(number, entities=(*made, *self._captions(row, made[-1])))

    def _refusal(self, image: InspectedImage) -> Rejection | None:
        digests = (image.sha256, image.source_sha256)
        return self.tombstones.refusal(STAGE, image.file_path, digests)

    def _facts(self, row: SourceRow, inspected: InspectedImage) -> list[NewEntity]:
        """What is known of the image, in one entity; none where nothing is."""
        if not (row.facts or row.categories):
            return []
        record = ImageFacts(
            source=self.source.name,
            file_path=inspected.file_path,
            facts=row.facts,
            categories=row.categories,
        )
        return [new_entity(record, self.source.name, parents=[("imported_from", self.source_id)])]

    def _image(
        self,
        row: SourceRow,
        inspected: InspectedImage,
        facts: Sequence[NewEntity],
        anchor: NewEntity | None = None,
    ) -> NewEntity:
        """The image of a row; `anchor` is what it differs from, which is stored with it."""
        record = Image(
            source=self.source.name,
            identity=row.identity,
            split=row.split,
            attribution=row.attribution,
            contrast=_contrast(row.contrast, anchor) if row.contrast and anchor else None,
            **inspected.model_dump(exclude={"data"}),
        )
        known = [(KNOWN_FROM, one.id) for one in facts]
        differs = [(CONTRAST_OF, anchor.id)] if anchor else []
        image = new_entity(
            record,
            self.source.name,
            parents=[("imported_from", self.source_id), *known, *differs],
            split=row.split,
            group=f"{self.source.name}/{row.identity}",
        )
        return image._replace(group=(anchor or image).id) if row.is_grouped else image

    def _captions(self, row: SourceRow, image: NewEntity) -> Iterator[NewEntity]:
        for record in self._caption_records(row):
            yield new_entity(
                record,
                self.source.name,
                parents=[("describes", image.id)],
                split=row.split,
                group=image.group if row.is_grouped else image.id,
            )

    def _caption_records(self, row: SourceRow) -> Iterator[Caption]:
        name = self.source.name
        for position, text in zip(row.positions, row.captions, strict=True):
            yield Caption(source=name, text=text, position=position)
        for position, text in enumerate(row.coarse_captions):
            yield Caption(source=name, text=text, position=position, granularity=Granularity.COARSE)
        for language, texts in row.translations:
            for position, said in enumerate(texts):
                if said is not None:
                    yield Caption(source=name, text=said, position=position, language=language)


def _contrast(told: SourceContrast, anchor: NewEntity) -> Contrast:
    return Contrast(
        anchor_id=anchor.id,
        difference=told.difference,
        detail=told.detail,
        plan=told.plan,
        way=told.way,
    )
