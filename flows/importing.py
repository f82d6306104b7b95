"""Imports a source: every record validated, every image looked at, every reject accounted for."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from db.entities import NewEntity, find, new_entity
from db.work import WorkResult
from flows.context import RunContext
from flows.report import StageReport
from flows.runner import Stage, run_stream
from flows.single import store_entity
from schemas.build import SourceSpec
from schemas.errors import ConfigurationError, FormatError
from schemas.records import Caption, Image, Rejection, Sample, Source
from sources.description import describe_source
from sources.images import ImageLimits, ImageProblem, InspectedImage, inspect_image
from sources.importer import Importer, importer_for
from sources.reading import read_source
from sources.records import BadRow, ReadOptions, Row, SourceRow

VERSION = "1"
STAGE = "import_source"


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

    def work(rows: Sequence[tuple[int, Row]]) -> list[WorkResult]:
        return [
            _import_row(context, entity, source.name, spec.images, limits, number, row)
            for number, row in rows
        ]

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


def _import_row(
    context: RunContext,
    source: NewEntity,
    name: str,
    image_root: Path,
    limits: ImageLimits,
    number: int,
    row: Row,
) -> WorkResult:
    if isinstance(row, BadRow):
        return WorkResult(number, rejection=_rejection(row))
    inspected = inspect_image(image_root, row.file_path, limits)
    if isinstance(inspected, ImageProblem):
        return WorkResult(number, rejection=_image_rejection(source, row, inspected))
    context.blobs.put(inspected.data, inspected.media_type)
    return WorkResult(number, entities=_entities(source, name, row, inspected))


def _entities(
    source: NewEntity, name: str, row: SourceRow, inspected: InspectedImage
) -> tuple[NewEntity, ...]:
    image = new_entity(
        Image(
            source=name,
            identity=row.identity,
            split=row.split,
            file_path=row.file_path,
            sha256=inspected.sha256,
            source_sha256=inspected.source_sha256,
            media_type=inspected.media_type,
            width_px=inspected.width_px,
            height_px=inspected.height_px,
        ),
        name,
        parents=[("imported_from", source.id)],
        split=row.split,
        group=f"{name}/{row.identity}",
    )
    captions = (
        new_entity(
            Caption(source=name, text=text, position=position),
            name,
            parents=[("describes", image.id)],
            split=row.split,
            group=image.id,
        )
        for position, text in zip(row.positions, row.captions, strict=True)
    )
    return (image, *captions)


def _rejection(row: BadRow) -> Rejection:
    return Rejection(
        stage=STAGE,
        reason=row.reason,
        detail=row.detail,
        context=row.model_dump(mode="json", exclude={"reason", "detail"}),
    )


def _image_rejection(source: NewEntity, row: SourceRow, problem: ImageProblem) -> Rejection:
    return Rejection(
        stage=STAGE,
        reason=problem.reason,
        detail=problem.detail,
        context={
            "file": Source.model_validate_json(source.payload).annotation_file,
            "index": row.index,
            "field": "file_path",
            "raw": row.model_dump_json(),
        },
    )
