"""Import sources: validate every record, open every image, record every rejection."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from loupe.db.decisions import set_active
from loupe.db.entities import (
    LIVE,
    AgentRef,
    NewEntity,
    WorkResult,
    fetch_children,
    find,
    find_children,
    new_entity,
)
from loupe.db.plugin_agents import plugin_agents
from loupe.db.release_rows import corrections_of
from loupe.db.releases import list_releases
from loupe.db.store import Store
from loupe.db.withdrawals import refused_files
from loupe.db.work import begin_stream, register_plan
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.release_facts import release_facts
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, get_or_create_entity, run_stream
from loupe.flows.engine.software import software
from loupe.models.profiles.settings import Settings
from loupe.schemas.base import canonical_json, digest_of
from loupe.schemas.build import (
    RENDERED_IMAGES,
    SourceSpec,
    VideoSourceSpec,
    format_name,
)
from loupe.schemas.errors import ConfigurationError, FormatError
from loupe.schemas.faces import Faces
from loupe.schemas.licences import licence_of, permits_release
from loupe.schemas.processes import usual_workers
from loupe.schemas.provenance import Role
from loupe.schemas.records import (
    Caption,
    Contrast,
    Granularity,
    Image,
    ImageFacts,
    Rejection,
    Sample,
    Source,
    SourceTerms,
    TermsCorrection,
)
from loupe.sources.annotations import Importer
from loupe.sources.columns import names_of_fields
from loupe.sources.faces import face_model, require_face_model, treatment_of, without_faces
from loupe.sources.files import digest_file
from loupe.sources.images import ImageLimits, ImageProblem, InspectedImage, inspect_each
from loupe.sources.importer import (
    SEVERAL_IDENTITIES,
    UNKNOWN_LICENCE,
    Surveyed,
    importer_for,
    surveyed,
)
from loupe.sources.records import BadRow, ReadOptions, Row, SourceRow
from loupe.sources.remote import Located, hub_address, located, quiet
from loupe.sources.rendered import TRUTHS_FILE

# Withdrawn items are not imported again, from any source

WITHDRAWN = "withdrawn"
"""Reason of a rejection because of a withdrawal."""


class Tombstones:
    """Digests of withdrawn files, which are not imported again. Thread-safe.

    Refresh it once per chunk, which costs one query; checking a file costs none.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, str] = {}

    def look(self) -> None:
        """Load the withdrawals since the last refresh."""
        self._known = refused_files(self._store)

    def refusal(self, stage: str, file_path: str, digests: Iterable[str]) -> Rejection | None:
        """Return why a file is refused if one of its digests belongs to a withdrawn file."""
        key = next((self._known[one] for one in digests if one in self._known), None)
        if key is None:
            return None
        what = f"{file_path!r} was withdrawn before, by withdrawal {key[:12]}"
        detail = f"{what}; its bytes are not stored again"
        return Rejection.of(stage, WITHDRAWN, detail, file_path=file_path, withdrawal=key)


# Terms of sources: statements in builds, and an early warning if they prevent a release


def register_source(
    context: RunContext, described: Source, spec: SourceSpec | VideoSourceSpec
) -> tuple[NewEntity, Source]:
    """Return the source as it was first imported, stored if new; warn if it cannot be released.

    Raises:
        ConfigurationError: `releases.toml` cannot be read.
    """
    source = _imported_before(context.store, described) or described
    entity = get_or_create_entity(context, source, source.name)
    correct_terms(context, spec)
    terms, _ = _present_terms(context.store, entity.id, source)
    own = not isinstance(spec, VideoSourceSpec) and spec.has_own_licences
    refusal = refusal_of_terms(
        context.settings, source.name, terms.licence, spec.permitted_by, own_licences=own
    )
    if refusal is not None:
        context.progress.say(f"warning: source {source.name}: {refusal}")
    return entity, source


def _present_terms(
    store: Store, source_id: str, source: Source
) -> tuple[SourceTerms, tuple[str, TermsCorrection] | None]:
    """Return the terms of an imported source, and the last correction with its id, if any."""
    corrected = corrections_of(store, [source_id]).get(source_id)
    return corrected[1].terms if corrected else source.terms, corrected


def correct_terms(context: RunContext, spec: SourceSpec | VideoSourceSpec) -> None:
    """Correct the terms of what was imported from a source if its build now states other terms.

    Imported entities are not changed; future releases show the corrected terms. Terms that the
    build does not state are kept. A message names the releases that were made under other terms.
    """
    for entity in find(context.store, spec.name, Source.kind, states=LIVE):
        source = entity.record(Source)
        terms, earlier = _present_terms(context.store, entity.id, source)
        old = terms.model_dump()
        stated: dict[str, Any] = _undue_credits(spec, terms)
        for name in old:
            if value := getattr(spec, name):
                stated[name] = value
        changed = {name: value for name, value in stated.items() if value != old[name]}
        if not changed:
            continue
        terms = terms.model_copy(update=changed)
        record = TermsCorrection(
            source=source.name,
            source_id=entity.id,
            number=earlier[1].number + 1 if earlier else 1,
            reason=spec.correction,
            **terms.model_dump(),
        )
        corrected = (entity.id, earlier[0]) if earlier else (entity.id,)
        parents = [(Role.CORRECTS, one) for one in corrected]
        get_or_create_entity(context, record, source.name, parents)
        changes = ", ".join(
            f"{name} {old[name] or ''!r} -> {value!r}" for name, value in changed.items()
        )
        outdated: list[str] = []
        for release in list_releases(context.store):
            for one in release.manifest.sources:
                if one.entity_id == entity.id and one.terms != terms:
                    outdated.append(release.name)  # noqa: PERF401 - a loop in a loop
        releases = ", ".join(outdated)
        if not releases:
            made = "no release was made under the earlier ones"
        elif permits_release(terms.licence) or spec.permitted_by:
            made = f"made under the earlier ones: {releases}; release a new version"
        else:
            made = (
                f"made under the earlier ones, and not to be passed on before it is known that "
                f"these permit it: {releases} (loupe withdraw --source {source.name})"
            )
        context.progress.say(f"terms of {source.name} corrected: {changes}; {made}")


def _undue_credits(spec: SourceSpec | VideoSourceSpec, terms: SourceTerms) -> dict[str, str | None]:
    """Return what to write over credits of a collection that a source turns out not to be."""
    if isinstance(spec, VideoSourceSpec) or format_name(spec.format) == RENDERED_IMAGES:
        return {}
    importer = importer_for(spec.format)
    if terms.citation != importer.citation or importer.is_collection(spec.name, spec.licence):
        return {}
    return {"citation": "", "homepage": None}


def imported_licence(store: Store, described: Source) -> str | None:
    """Return the present licence of a source; None if it was not imported.

    Another annotation file under the same name is another source: its terms are its own.
    """
    source = _imported_before(store, described)
    if source is None:
        return None
    for entity in find(store, source.name, Source.kind, states=LIVE):
        if entity.record(Source) == source:
            return _present_terms(store, entity.id, source)[0].licence
    return None


def _imported_before(store: Store, described: Source) -> Source | None:
    """Return the source as it was first imported, whose terms may be others; None if it was not."""
    terms = described.terms.model_dump()
    for entity in find(store, described.name, Source.kind, states=LIVE):
        source = entity.record(Source)
        if source.model_copy(update=terms) == described:
            return source
    return None


def refusal_of_terms(
    settings: Settings,
    name: str,
    licence: str,
    permitted_by: str | None,
    *,
    own_licences: bool = False,
) -> str | None:
    """Return why nothing of a source can be released in its current state, or None if it can.

    Raises:
        ConfigurationError: `releases.toml` cannot be read.
    """
    if own_licences or permits_release(licence):
        return None
    stated = release_facts(settings.releases_file, name).permitted_terms
    is_known = licence_of(licence) is not None
    if not is_known and (permitted_by or stated.get(name, "").strip()):
        return None
    if is_known:
        return (
            f"its licence forbids a release ({licence!r}), which no reason "
            f"overrules: nothing of it is released"
        )
    return (
        f"its terms are not a known licence ({licence!r}): nothing of it is "
        f"released unless its licence is set (licence) or the reason why its terms permit it "
        f"(permitted_by)"
    )


# Import of a source: every record is validated, every image opened, every rejection recorded

VERSION = "1"
STAGE = "import_source"
OWN_LICENCES = "Each image under its own licence"
_UNKNOWN_LICENCE = "unknown_licence"
_FORBIDDEN_LICENCE = "licence_forbids_release"
COPIES = "sources"
_OF_HUB = "hf"
_REMOTE_WORKERS = 16  # each waits for another machine


def import_source(context: RunContext, spec: SourceSpec) -> tuple[NewEntity, StageReport]:
    """Import `spec` into the dataset of its name; a second import adds only what is missing.

    Raises:
        FormatError, ConfigurationError: see `open_source`.
    """
    source = open_source(context, spec)
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=spec.name,
        configuration=source.configuration,
        agents=source.agents,
        workers=source.workers,
        label=f"import {spec.name}",
    )
    plan_id = register_plan(context.store, stage.name, stage.version, stage.configuration)
    if begin_stream(context.store, plan_id, source.survey.images):
        context.progress.say(f"source {spec.name}: its images have changed; they are read again")
    earlier = _EarlierImages(context.store, source.entity.id)
    outcomes: list[bool] = []  # of whole records: whether they were imported

    def work(rows: Sequence[tuple[int, Row]]) -> list[WorkResult]:
        source.tombstones.look()
        results = source.results(rows)
        for (_, row), result in zip(rows, results, strict=True):
            if not isinstance(row, BadRow) or row.scope == "record":
                outcomes.append(result.rejection is None)
        earlier.replace([row for _, row in rows], results)
        return results

    # The file's digest determines the order of its rows.
    report = run_stream(context, stage, enumerate(source.rows()), work, fixed=True)
    lost = outcomes.count(False)
    if lost > len(outcomes) / 2:
        reasons = (f"{count:,} {reason}" for reason, count in report.rejected.most_common(3))
        context.losses.append(
            f"{lost:,} of the {len(outcomes):,} records of source {spec.name} were not imported "
            f"({', '.join(reasons)}): loupe quarantine {spec.name}"
        )
    return source.entity, report


class _EarlierImages:
    """The images that a source has before its rows are read, again or for the first time."""

    def __init__(self, store: Store, source_id: str) -> None:
        self._store = store
        self._source_id = source_id
        self._lock = Lock()

    @cached_property
    def _by_path(self) -> dict[str, dict[str, bool]]:
        """The images under each path, by their ids, and whether they are active."""
        found: dict[str, dict[str, bool]] = {}
        for one in find_children(self._store, self._source_id, Role.IMPORTED_FROM):
            if one.kind == Image.kind and one.state in (*LIVE, "inactive"):
                path = one.record(Image).file_path
                found.setdefault(path, {})[one.id] = one.state != "inactive"
        return found

    def replace(self, rows: Sequence[Row], results: Sequence[WorkResult]) -> None:
        """Let only those images count, with their texts, that rows have now."""
        with self._lock:
            known = self._by_path
        changed: dict[bool, list[str]] = {True: [], False: []}
        for row, result in zip(rows, results, strict=True):
            made = {one.id for one in result.entities if one.kind == Image.kind}
            for image in (one for of in _images_of(row) for one in (of.file_path, *of.other_paths)):
                for id_, is_active in known.get(image, {}).items():
                    if is_active != (id_ in made):
                        changed[id_ in made].append(id_)
        for active, ids in changed.items():
            if ids:
                texts = fetch_children(self._store, ids, Role.DESCRIBES)
                below = [one.id for many_texts in texts.values() for one in many_texts]
                set_active(self._store, [*ids, *below], software(), active=active)


def open_source(context: RunContext, spec: SourceSpec) -> "OpenSource":
    """Register the source of `spec`, to be imported into the dataset of its name.

    Raises:
        FormatError: the file is not in this format, or the image folder does not exist.
        ConfigurationError: the name belongs to a dataset that was built.
        MissingExtraError: faces are to be treated, and their model is not installed.
    """
    importer = importer_for(spec.format)
    require_face_model(spec.faces)
    if spec.faces != "keep":
        context.progress.say_once("looking for faces in each image, which takes seconds an image")
    place = locate(spec, context.settings.home, context.progress.say)
    if isinstance(place.images, Path) and not place.images.is_dir():
        raise FormatError(f"source {spec.name}: the image folder {place.images} is not there")
    if next(find(context.store, spec.name, Sample.kind), None) is not None:
        raise ConfigurationError(
            f"dataset {spec.name!r} was built from other sources; import under another name"
        )
    described = describe_source(spec, place.annotations)
    if not spec.citation and not importer.is_collection(spec.name, spec.licence):
        context.progress.say(
            f"source {spec.name}: the authors of {importer.format} are not cited, because this "
            f"source has another name or licence; if it is their collection, state its citation"
        )
    entity, source = register_source(context, described, spec)
    tombstones = Tombstones(context.store)
    limits = ImageLimits(least_side_px=spec.least_side_px, greatest_aspect=spec.greatest_aspect)
    return OpenSource(context, spec, place, importer, source, entity, tombstones, limits)


def locate(spec: SourceSpec, home: Path, say: Callable[[str], None] = quiet) -> Located:
    """Return where the annotations and images of a source are; remote annotations are copied.

    Raises:
        FormatError: remote annotations cannot be read.
        MissingExtraError: what their scheme needs is not installed.
    """
    try:
        return located(address_of(spec), spec.images, home / COPIES, say)
    except FormatError as error:
        raise FormatError(f"source {spec.name}: {error}") from error


def address_of(spec: SourceSpec) -> Path | str:
    """Return where the annotations of a source are: a path, or an address if they are remote."""
    is_of_hub = format_name(spec.format) == _OF_HUB
    return hub_address(spec.annotations) if is_of_hub else spec.annotations


def describe_source(spec: SourceSpec, annotations: Path) -> Source:
    """Return the source of `spec`, with the terms of its format where the build states none.

    Raises:
        FormatError: the annotations cannot be read.
    """
    if format_name(spec.format) == RENDERED_IMAGES:
        return Source(
            name=spec.name,
            format=RENDERED_IMAGES,
            annotation_file=TRUTHS_FILE,
            annotation_sha256=digest_file(annotations),
            licence=spec.licence or UNKNOWN_LICENCE,
            citation=spec.citation or "",
            homepage=spec.homepage,
        )
    described = importer_for(spec.format).describe(
        annotations,
        name=spec.name,
        licence=spec.licence or (OWN_LICENCES if spec.licence_column else None),
        citation=spec.citation,
        homepage=spec.homepage,
        granularity=spec.granularity,
    )
    shape = {
        "least_side_px": spec.least_side_px,
        "greatest_aspect": spec.greatest_aspect,
        "read_as": _read_as(spec),
        "faces": treatment_of(spec.faces),
    }
    return described.model_copy(update=shape)


def _read_as(spec: SourceSpec) -> dict[str, Any] | None:
    """Return what is stated on reading the annotations and is not the default; None if nothing."""
    stated = spec.columns.model_dump(mode="json", exclude_defaults=True) if spec.columns else {}
    if spec.split != SourceSpec.model_fields["split"].default:
        stated["split"] = spec.split
    return stated or None


def read_options(spec: SourceSpec) -> ReadOptions:
    """Return the options for reading the annotation file of a source."""
    is_stated = "split" in spec.model_fields_set
    return ReadOptions(split=spec.split, is_split_stated=is_stated, columns=spec.columns)


def survey(spec: SourceSpec, importer: Importer, place: Located) -> Surveyed:
    """Run the first pass over a source.

    Raises:
        FormatError: see `loupe.sources.importer.read_source`.
    """
    return surveyed(importer, place.annotations, read_options(spec), place.images)


def survey_key(spec: SourceSpec, place: Located) -> str:
    """Return under what a run keeps the first pass over a source, from its checks to its import."""
    options = canonical_json(read_options(spec).model_dump(mode="json"))
    return digest_of(spec.format, str(place.annotations), str(place.images), options)


@dataclass(frozen=True)
class OpenSource:
    """A registered source, whose rows are converted to entities or rejections."""

    context: RunContext
    spec: SourceSpec
    place: Located
    importer: Importer
    source: Source
    entity: NewEntity
    tombstones: Tombstones
    limits: ImageLimits

    @cached_property
    def survey(self) -> Surveyed:
        """What the first pass over it found; that of the checks serves once."""
        known: Surveyed | None = self.context.surveys.pop(survey_key(self.spec, self.place), None)
        return known or survey(self.spec, self.importer, self.place)

    @property
    def workers(self) -> int:
        """The threads of an import: each waits for a decoding process, or for another machine."""
        if not isinstance(self.place.images, Path):
            return _REMOTE_WORKERS
        return 2 * usual_workers()  # some decode while others wait for the disk

    @property
    def agents(self) -> tuple[AgentRef, ...]:
        """The package of its format, if that is a plugin, and the model that finds faces."""
        return (*plugin_agents("formats", self.spec.format), *face_agents(self.spec.faces))

    @property
    def configuration(self) -> dict[str, Any]:
        """Everything that determines its rows and their results."""
        return {
            "source": self.source.model_dump(mode="json"),
            "options": read_options(self.spec).model_dump(mode="json"),
            "limits": self.limits.model_dump(mode="json"),
        }

    def rows(self) -> Iterator[Row]:
        """Read the rows of its annotation file.

        Raises:
            FormatError: on the first step, if the file is not in its format, all of its records
                have the same defect, or none of its images exists.
        """
        if missing := self.survey.misplaced:
            raise FormatError(
                f"source {self.spec.name}: none of its images is in {self.place.images}, such as "
                f"{missing}; image paths are relative to that folder (images of the source, or "
                f"--images)"
            )
        yield from self.survey.rows()

    def results(self, rows: Sequence[tuple[int, Row]]) -> list[WorkResult]:
        """Return the results of numbered rows."""
        images: list[SourceRow] = []
        for _, row in rows:
            images += _images_of(row)
        inspected = inspect_each(self.place.images, images, self.limits)
        results: list[WorkResult] = []
        for number, row in rows:
            found = islice(inspected, len(_images_of(row)))
            own = [without_faces(self.spec.faces, one) for one in found]
            results.append(self._result(number, row, own))
        return results

    def _result(
        self, number: int, row: Row, images: Sequence[InspectedImage | ImageProblem]
    ) -> WorkResult:
        if isinstance(row, BadRow):
            return WorkResult(number, rejection=self._rejection(row, images))
        made: list[NewEntity] = []
        for one, inspected in zip(_images_of(row), images, strict=True):
            if unpermitted := self._unpermitted(one):
                return WorkResult(number, rejection=unpermitted)
            if isinstance(inspected, ImageProblem):
                bad_row = inspected.as_bad_row(row, self.source.annotation_file)
                names = names_of_fields(self.importer, self.spec.columns)
                field = names.get(bad_row.field, bad_row.field)
                bad_row = bad_row.model_copy(update={"field": field})
                return WorkResult(number, rejection=bad_row.as_rejection())
            digests = (inspected.sha256, inspected.source_sha256)
            if refused := self.tombstones.refusal(STAGE, inspected.file_path, digests):
                return WorkResult(number, rejection=refused)
            self.context.blobs.put(inspected.data, inspected.media_type)
            facts = self._facts(one, inspected)
            anchor = made[-1] if made else None
            made += [*facts, self._image(one, inspected, facts, anchor)]
        image = made[-1]
        captions = [
            new_entity(
                record,
                self.source.name,
                parents=[(Role.DESCRIBES, image.id)],
                split=row.split,
                group=image.group if row.is_grouped else image.id,
            )
            for record in self._caption_records(row)
        ]
        return WorkResult(number, entities=(*made, *captions))

    def _unpermitted(self, row: SourceRow) -> Rejection | None:
        """Return why an image is not imported if its own licence does not permit a release."""
        licence = row.attribution.licence if row.attribution else None
        if licence is None or not are_unpermitted(licence, self.spec):
            return None
        is_known = licence_of(licence) is not None
        what = "forbids a release" if is_known else "is not a known licence"
        return BadRow(
            file=row.file or self.source.annotation_file,
            index=row.index,
            field=self.spec.licence_column or "licence",
            reason=_FORBIDDEN_LICENCE if is_known else _UNKNOWN_LICENCE,
            detail=f"the licence of {row.file_path!r}, {licence!r}, {what}; wanted one that "
            f"permits a release, such as CC-BY-4.0",
            raw=row.model_dump_json(),
        ).as_rejection()

    def _rejection(self, row: BadRow, images: Sequence[InspectedImage | ImageProblem]) -> Rejection:
        """Return the rejection of a row; that of an image of several identities has its digest.

        Their copies under another path are not theirs either (`loupe.flows.engine.sampling`).
        """
        rejection = row.as_rejection()
        if not images or isinstance(images[0], ImageProblem):
            return rejection
        (row_of_image,), sha256 = _images_of(row), images[0].sha256
        shared = {"source": self.entity.id, "identity": row_of_image.identity, "sha256": sha256}
        return rejection.model_copy(update={"context": {**rejection.context, "shared": shared}})

    def _facts(self, row: SourceRow, inspected: InspectedImage) -> list[NewEntity]:
        """Return one entity with the known facts of the image, or none if nothing is known."""
        if not (row.facts or row.categories):
            return []
        record = ImageFacts(
            source=self.source.name,
            file_path=inspected.file_path,
            facts=row.facts,
            categories=row.categories,
        )
        return [
            new_entity(record, self.source.name, parents=[(Role.IMPORTED_FROM, self.entity.id)])
        ]

    def _image(
        self,
        row: SourceRow,
        inspected: InspectedImage,
        facts: Sequence[NewEntity],
        anchor: NewEntity | None = None,
    ) -> NewEntity:
        """Return the image of a row. `anchor`, the image it differs from, is stored with it."""
        contrast = None
        if row.contrast and anchor:
            stated = row.contrast.model_dump(exclude={"anchor"})
            contrast = Contrast(anchor_id=anchor.id, **stated)
        record = Image(
            source=self.source.name,
            identity=row.identity,
            split=row.split,
            attribution=row.attribution,
            contrast=contrast,
            **inspected.facts(),
        )
        known = [(Role.KNOWN_FROM, one.id) for one in facts]
        differs = [(Role.CONTRAST_OF, anchor.id)] if anchor else []
        image = new_entity(
            record,
            self.source.name,
            parents=[(Role.IMPORTED_FROM, self.entity.id), *known, *differs],
            split=row.split,
            group=f"{self.source.name}/{row.identity}",
        )
        return image._replace(group=(anchor or image).id) if row.is_grouped else image

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


def are_unpermitted(licence: str, spec: SourceSpec) -> bool:
    """Tell whether the licence of a single image, other than its source's, permits no release."""
    return licence != spec.licence and not permits_release(licence)


def face_agents(faces: Faces) -> tuple[AgentRef, ...]:
    """Return the model that finds faces, if they are to be treated."""
    return () if faces == "keep" else (AgentRef.of_model(face_model()),)


def _images_of(row: Row) -> Sequence[SourceRow]:
    """Return the rows whose images the result of a row needs."""
    if not isinstance(row, BadRow):
        return (row.contrast.anchor, row) if row.contrast else (row,)
    if row.reason == SEVERAL_IDENTITIES:
        stored = SourceRow.model_validate_json(row.raw)
        return (stored.model_copy(update={"held": row.held}),)
    return ()
