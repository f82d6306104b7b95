"""Import a source into shards, and compute with them: rewrites, embeddings, near-duplicates."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from threading import Lock
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from loupe.db.calls import NewCall
from loupe.db.configurations import configurations_of
from loupe.db.entities import LIVE, NewEntity, StoredEntity, WorkResult, children_of, pages
from loupe.db.withdrawal_graph import own_digests
from loupe.db.withdrawals import refused_files
from loupe.db.work import Pending
from loupe.flows.engine.contamination import Fingerprints
from loupe.flows.engine.context import RunContext, sync_active
from loupe.flows.engine.embedding import build_embedder, pinned, read_ahead, stored_image
from loupe.flows.engine.importing import open_source
from loupe.flows.engine.model_step import DatasetModel, require_answers, step_results
from loupe.flows.engine.programs import BlobProgram
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, run_stage, run_stream, store_settings
from loupe.flows.faithfulness import VERSION as CHECK_VERSION
from loupe.flows.faithfulness import RewriteChecks
from loupe.flows.rewriting import VERSION as REWRITE_VERSION
from loupe.flows.rewriting import plan_rewriting, rewrite_step
from loupe.flows.shards.files import (
    DUPLICATES,
    IMPORT,
    IMPORT_STAGE,
    IMPORT_VERSION,
    RECORDS,
    RecordResult,
    ShardRow,
    computed_shards,
    erase_records,
    imported_shards,
    lost_shards,
    read_shard,
    require_shards,
    restore_shard,
    store_shard,
)
from loupe.models.embedding import ImageTextEmbedder
from loupe.models.registry import OnDemandChatModel
from loupe.retrieval.similarity.distances import rows_on_disk
from loupe.retrieval.similarity.near_duplicates import (
    FINGERPRINTS_VERSION,
    collect,
    near_duplicates_among,
)
from loupe.schemas.base import canonical_json, digest_of
from loupe.schemas.build import SourceSpec
from loupe.schemas.chat import ChatAnswer, ChatOutcome, ChatRequest
from loupe.schemas.embedding import (
    BuiltinEmbedder,
    BuiltinStillsEmbedder,
    EmbeddingModelSpec,
    PlainModelSpec,
)
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.schemas.processes import usual_workers
from loupe.schemas.profile import (
    BuiltinRewriter,
    ChatModelSpec,
    FaithfulnessSettings,
    OpenAIChat,
    Profile,
    RewriteSettings,
    VllmChat,
)
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image, Rejection, Shard
from loupe.schemas.similarity import (
    FINGERPRINT,
    ImageFingerprint,
    NearDuplicateReport,
    NearDuplicateSettings,
)
from loupe.sources.records import Row

VERSION = "1"
_SECONDS = 6 * 3600.0  # CPU time a shard
_PARSED = 500  # captions that the built-in models remember until their rewrites are checked
_answering = Lock()  # models in a process answer one stream at a time


def import_shards(context: RunContext, spec: SourceSpec, size: int = RECORDS) -> StageReport:
    """Import `spec` into shards of `size` records; a second import adds only what is missing.

    Files of shards that are missing or damaged are written again.

    Raises:
        FormatError, ConfigurationError: see `loupe.flows.engine.importing.open_source`.
    """
    source = open_source(context, spec)
    stage = Stage(
        name=IMPORT_STAGE,
        version=IMPORT_VERSION,
        dataset=spec.name,
        configuration={**source.configuration, "records": size},
        agents=source.agents,
        chunk_size=1,
        workers=2 * usual_workers(),  # some decode while others wait for the disk
        label=f"import {spec.name} into shards",
    )

    def made(number: int, rows: Sequence[Row]) -> list[WorkResult]:
        return source.results(list(enumerate(rows, number * size)))

    def result(number: int, rows: Sequence[Row]) -> WorkResult:
        source.tombstones.look()
        results = made(number, rows)
        rejected = [one.rejection.reason for one in results if one.rejection]
        indexed = list(map(_indexed, results))
        shard = store_shard(context.blobs, source.entity, IMPORT, number, indexed, rejected)
        return WorkResult(number, entities=(shard,))

    lost = lost_shards(context.store, context.blobs, spec.name, source.entity.id)
    if lost:
        source.tombstones.look()
        for number, rows in enumerate(pages(source.rows(), size)):
            if number in lost:
                restore_shard(
                    context.blobs, lost[number], [_indexed(one) for one in made(number, rows)]
                )
    report = run_stream(
        context,
        stage,
        enumerate(pages(source.rows(), size)),
        lambda items: [result(number, rows) for number, rows in items],
        fixed=True,
    )
    _erase_late(context, spec.name)
    return report


def _erase_late(context: RunContext, dataset: str) -> None:
    """Erase records that were withdrawn while shards were made of them."""
    if refused := refused_files(context.store):
        erase_records(context, dataset, refused.keys())


def _indexed(result: WorkResult) -> ShardRow:
    """Return an imported record, with its last image: the others are anchors of that one."""
    content = RecordResult().add(result).as_json()
    images = [one for one in result.entities if one.kind == Image.kind]
    if not images:
        return ShardRow(result.input, result=content)
    digests = {one for image in images for one in own_digests(image.kind, image.payload)}
    image = images[-1]
    return ShardRow(result.input, image.id, image.group, image.split, sorted(digests), content)


# Steps: each computes a shard from every imported shard, row by row.


@dataclass(frozen=True)
class ShardStep(BlobProgram):
    """A step on the shards in a blob store."""

    stage = "shards"
    seconds = 60.0
    step: ClassVar[str]
    version: ClassVar[str]

    @abstractmethod
    def computed(self, rows: Sequence[ShardRow]) -> list[tuple[RecordResult, bytes | None]]:
        """Return the result of each row, in order, and the vector of its image if it has one."""

    @property
    def configuration(self) -> dict[str, Any]:
        """Everything that determines the results besides the shard."""
        return {}

    def work(self, items: Sequence[StoredEntity]) -> list[WorkResult]:
        """Return the shard that is computed from each shard."""
        return [WorkResult(shard.seq, entities=(self._shard(shard),)) for shard in items]

    def _shard(self, shard: StoredEntity) -> NewEntity:
        rows = read_shard(self.blobs, shard)
        results = self.computed(rows)
        made = [
            ShardRow(row.number, erased=row.erased)
            if row.erased
            else ShardRow(row.number, result=result.as_json(), vector=vector)
            for row, (result, vector) in zip(rows, results, strict=True)
        ]
        rejected = [one.reason for result, _ in results for one in result.rejections]
        number = shard.record(Shard).number
        return store_shard(self.blobs, shard, self.step, number, made, rejected)


def run_step(
    context: RunContext, dataset: str, program: ShardStep, *, local: bool = False
) -> StageReport:
    """Compute with all shards of a source that the step has not computed with yet.

    If `local`, this process does it: its model is loaded once.

    Raises:
        UsageError: the source has no shards.
        IntegrityError: a shard is missing or damaged.
    """
    require_shards(context.store, dataset)
    stage = Stage(
        name=f"{program.step}_shards",
        version=f"{VERSION}.{program.version}",
        dataset=dataset,
        configuration=program.configuration,
        chunk_size=1,
        workers=1,
        label=f"{program.step} shards of {dataset}",
    )
    engine = {"engine_seconds": _SECONDS} | ({"engine": "threads"} if local else {})
    slow = replace(context, settings=context.settings.model_copy(update=engine))
    report = run_stage(slow, stage, Pending(dataset, Shard.kind, ("proposed",), IMPORT), program)
    _erase_late(context, dataset)
    return report


def _stored(entity: NewEntity, seq: int) -> StoredEntity:
    """Return an entity of a shard as one of the store; `seq` is its position."""
    id_, dataset, kind, payload, split, group, _, _ = entity
    return StoredEntity(seq, id_, dataset, kind, split, group, "proposed", payload)


def _images(rows: Sequence[ShardRow]) -> list[StoredEntity]:
    """Return the images of rows, each with the position of its row."""
    return [
        _stored(one, place)
        for place, row in enumerate(rows)
        for one in RecordResult.of(row).entities
        if one.id == row.image
    ]


# Rewriting.


def rewrite_shards(context: RunContext, dataset: str, profile: Profile) -> StageReport:
    """Rewrite all captions of a source's shards with the models of a profile, and check them.

    The rewrites are those that `rewrite_captions` and `check_rewrites` would store for the source.

    Raises:
        ConfigurationError: a model charges for its answers, or may.
        ModelError: a model is unavailable; run again when it answers.
        UsageError, IntegrityError: see `run_step`.
    """
    settings = profile.rewrite
    for spec in settings.models:
        if _may_charge(spec):
            raise ConfigurationError(
                f"{spec.ref} charges for its answers or has no prices in the profile. Answers are "
                f"stored when a whole shard is rewritten, so that a killed run would pay again: "
                f"rewrite record by record with `loupe run`, or set both prices to 0 if it is free"
            )
    prompts: list[str] = []
    for spec in settings.models:
        plan = plan_rewriting(dataset, spec, settings)
        prompts.append(DatasetModel(context, dataset, spec).store_prompt(plan.prompt).id)
    step = ShardRewriting(
        context.blobs.url, dataset, settings, profile.faithfulness, tuple(prompts)
    )
    local = any(isinstance(one, VllmChat) for one in settings.models)
    return run_step(context, dataset, step, local=local)


def _may_charge(spec: ChatModelSpec) -> bool:
    """Return whether a model may charge for its answers: not if Loupe says how to start it."""
    if spec.prices:
        return bool(spec.prices.input_per_million or spec.prices.output_per_million)
    return isinstance(spec, OpenAIChat) and spec.launch is None


@dataclass(frozen=True)
class ShardRewriting(ShardStep):
    """Rewrites the captions of each record with all models, and checks the rewrites."""

    step = "rewrite"
    version = f"{REWRITE_VERSION}.{CHECK_VERSION}"

    dataset: str
    settings: RewriteSettings
    faithfulness: FaithfulnessSettings
    prompts: tuple[str, ...]

    @property
    def configuration(self) -> dict[str, Any]:
        """The models, their prompts, and the settings of the check."""
        return {
            "models": [[one.ref.model_dump(), one.parameters] for one in self.settings.models],
            "prompts": self.prompts,
            "max_characters": self.settings.max_characters,
            "faithfulness": self.faithfulness.model_dump(mode="json"),
        }

    def computed(self, rows: Sequence[ShardRow]) -> list[tuple[RecordResult, bytes | None]]:
        """Return calls, rewrites, reports and rejections of each row."""
        found = [RecordResult()] * len(rows)
        captions = [
            _stored(one, place)
            for place, row in enumerate(rows)
            for one in RecordResult.of(row).entities
            if one.kind == Caption.kind
        ]
        models = [_ShardModel(spec, self.dataset) for spec in self.settings.models]
        is_builtin = all(isinstance(one, BuiltinRewriter) for one in self.settings.models)
        for page in _whole_groups(captions, _PARSED if is_builtin else len(captions)):
            self._add_rewrites(found, page, models)
        return [(one, None) for one in found]

    def _add_rewrites(
        self,
        found: list[RecordResult],
        captions: Sequence[StoredEntity],
        models: Sequence["_ShardModel"],
    ) -> None:
        """Add what is made of captions to the results; their `seq` is the place of their row."""
        rewrites: list[StoredEntity] = []
        sources: list[StoredEntity] = []
        for model, spec, prompt in zip(models, self.settings.models, self.prompts, strict=True):
            plan = plan_rewriting(self.dataset, spec, self.settings)
            step = rewrite_step(plan, self.settings, prompt)
            with _answering:
                results = step_results(model, step, list(enumerate(captions)))
            report = StageReport("rewrite")
            report.add(results)
            require_answers(spec.ref, report, "nothing of this shard is stored")
            complete = (one for one in results if isinstance(one, WorkResult))
            for caption, result in zip(captions, complete, strict=True):
                made = found[caption.seq].add(result)
                if call := model.calls.get(caption.record(Caption).text):
                    made = made._replace(calls=(*made.calls, call))
                found[caption.seq] = made
                for one in result.entities:
                    rewrites.append(_stored(one, len(rewrites)))
                    sources.append(caption)
        authors = tuple(str(spec.ref) for spec in self.settings.models)
        checks = RewriteChecks(self.dataset, self.faithfulness, authors)
        checked = checks.work(checks.paired(rewrites, sources, rewrites))
        for caption, result in zip(sources, checked, strict=True):
            found[caption.seq] = found[caption.seq].add(result)


def _whole_groups(captions: Sequence[StoredEntity], size: int) -> Iterator[list[StoredEntity]]:
    """Split captions into pages of at least `size`, except the last, without splitting groups."""
    page: list[StoredEntity] = []
    for _, group in groupby(sorted(captions, key=_group_of), _group_of):
        page += group
        if len(page) >= size:
            yield page
            page = []
    if page:
        yield page


def _group_of(entity: StoredEntity) -> str:
    return str(entity.group)


class _ShardModel:
    """A model whose calls are kept by subject, to be stored with a shard; equal ones once.

    There is one request per subject. Failures without cost are not kept.
    """

    def __init__(self, spec: ChatModelSpec, dataset: str) -> None:
        self._model = OnDemandChatModel(spec)
        self._dataset = dataset
        self.calls: dict[str, NewCall] = {}

    def key(self, request: ChatRequest) -> str:
        call = self.calls.get(request.subject)
        return call.key if call else request.key(self._model.ref, self._model.parameters)

    def has_answered(self, purposes: Iterable[str]) -> bool:  # noqa: ARG002 - there is one purpose
        return bool(self.calls)

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        sent: list[tuple[int, ChatRequest]] = []
        again: list[tuple[int, str]] = []
        outcomes: dict[str, ChatOutcome] = {}

        def different() -> Iterator[ChatRequest]:
            subjects = set()
            for position, request in enumerate(requests):
                if request.subject in subjects:
                    again.append((position, request.subject))
                    continue
                subjects.add(request.subject)
                sent.append((position, request))
                yield request

        for place, outcome in self._model.answer(different()):
            position, request = sent[place]
            if isinstance(outcome, ChatAnswer):  # equal answers are stored equally
                outcome = outcome.model_copy(update={"seconds": 0.0})
            outcomes[request.subject] = outcome
            if isinstance(outcome, ChatAnswer) or outcome.is_paid:
                call = self.key(request), self._model.ref, self._model.parameters, request, outcome
                self.calls[request.subject] = NewCall(*call, self._dataset, None, None)
            yield position, outcome
        for position, subject in again:
            if subject in outcomes:
                yield position, outcomes[subject]


# Embeddings and near-duplicates.


def embed_shards(context: RunContext, dataset: str, spec: PlainModelSpec) -> StageReport:
    """Embed the images of a source's shards.

    Raises:
        ModelError: the model cannot be loaded, or fails.
        UsageError, IntegrityError: see `run_step`.
    """
    local = not isinstance(spec, BuiltinEmbedder | BuiltinStillsEmbedder)
    return run_step(context, dataset, ShardEmbedding(context.blobs.url, pinned(spec)), local=local)


@dataclass(frozen=True)
class ShardEmbedding(ShardStep):
    """Embeds the image of each record."""

    step = "embed"
    version = "1"

    spec: EmbeddingModelSpec

    @property
    def configuration(self) -> dict[str, Any]:
        """The model."""
        return {"model": self.spec.ref.model_dump(), "parameters": self.spec.parameters}

    @cached_property
    def _model(self) -> ImageTextEmbedder:
        return build_embedder(self.spec)

    def computed(self, rows: Sequence[ShardRow]) -> list[tuple[RecordResult, bytes | None]]:
        """Return the vector of each row."""
        images = _images(rows)
        vectors: list[bytes | None] = [None] * len(rows)
        places = iter([one.seq for one in images])
        files = [stored_image(self.blobs, one) for one in images]
        for _, pictures in read_ahead(files):
            for vector in self._model.embed_images(pictures):
                vectors[next(places)] = vector.astype("<f4").tobytes()
        return [(RecordResult(), vector) for vector in vectors]


@dataclass(frozen=True)
class ShardFingerprints(ShardStep):
    """Computes the fingerprint of the image of each record."""

    step = "fingerprint"
    version = FINGERPRINTS_VERSION

    @property
    def configuration(self) -> dict[str, Any]:
        """The algorithm."""
        return {"made_by": FINGERPRINT}

    def computed(self, rows: Sequence[ShardRow]) -> list[tuple[RecordResult, bytes | None]]:
        """Return the fingerprint of each row, or a rejection."""
        found = [RecordResult()] * len(rows)
        for result in Fingerprints(self.blobs_url).work(_images(rows)):
            found[result.input] = RecordResult().add(result)
        return [(one, None) for one in found]


@dataclass(frozen=True)
class ShardDuplicates(ShardStep):
    """Rejects records whose image has the same content as one that is kept.

    Attributes:
        settings: the id of the settings of the search, which name the images that are compared.
        kept: the id of the image that is kept, by that of the image that is not.
    """

    step = DUPLICATES
    version = "1"

    settings: str
    kept: Mapping[str, str]

    @property
    def configuration(self) -> dict[str, Any]:
        """The settings of the search."""
        return {"settings": self.settings}

    def _shard(self, shard: StoredEntity) -> NewEntity:
        """Link the shard to the settings; if others lead to the same rows, it stays the same."""
        return super()._shard(shard).linked((Role.FILTERED_WITH, self.settings))

    def computed(self, rows: Sequence[ShardRow]) -> list[tuple[RecordResult, bytes | None]]:
        """Return a rejection for each row whose image is not kept."""
        return [(self._result(row), None) for row in rows]

    def _result(self, row: ShardRow) -> RecordResult:
        kept = self.kept.get(row.image or "")
        if kept is None:
            return RecordResult()
        detail = f"image {row.image} has the same content as image {kept}, which is kept"
        rejection = Rejection(stage=self.step, reason="near_duplicate", detail=detail)
        return RecordResult(rejections=(rejection,))


def find_shard_duplicates(
    context: RunContext, dataset: str, settings: NearDuplicateSettings
) -> NearDuplicateReport:
    """Find near-duplicates among all images of a source's shards; one of each content is kept.

    Results of other settings become inactive. Embeddings are compared if all shards have them:
    those of the newest model that embedded all. Spectra and embeddings are in temporary files.

    Raises:
        UsageError: a shard has no fingerprints, shards were embedded with different models, or
            records were withdrawn meanwhile.
        IntegrityError: see `run_step`.
    """
    run_step(context, dataset, ShardFingerprints(context.blobs.url))
    sources = [
        (shard, {one.group: one for one in computed_shards(context.store, shard)})
        for shard in imported_shards(context.store, dataset)
    ]
    for shard, steps in sources:
        if ShardFingerprints.step not in steps:
            number = shard.record(Shard).number
            raise UsageError(f"shard {number} of {dataset!r} has no fingerprints")
    embedded = all(ShardEmbedding.step in steps for _, steps in sources)
    if embedded:
        by_shard = _embedded(context, [shard for shard, _ in sources])
        if not by_shard:
            raise UsageError(
                f"the shards of {dataset!r} were embedded with different models; embed all of them "
                f"with one: loupe shards embed {dataset}"
            )
        for shard, steps in sources:
            steps[ShardEmbedding.step] = by_shard[shard.id]
    used = (ShardFingerprints.step, *((ShardEmbedding.step,) if embedded else ()))
    roots = [steps[name].record(Shard).root for _, steps in sources for name in used]
    known: set[str] = set()
    places: list[list[int]] = []  # of the first row with each image, by shard

    def looks() -> Iterator[tuple[str, ImageFingerprint]]:
        for shard, steps in sources:
            rows = read_shard(context.blobs, shard)
            found = read_shard(context.blobs, steps[ShardFingerprints.step])
            places.append([])
            for place, (row, look) in enumerate(zip(rows, found, strict=True)):
                for one in RecordResult.of(look).entities:
                    if row.image is not None and row.image not in known:
                        known.add(row.image)
                        places[-1].append(place)
                        yield row.image, _stored(one, 0).record(ImageFingerprint)

    def vectors() -> Iterator[NDArray[np.float32]]:
        for (_, steps), chosen in zip(sources, places, strict=True):
            rows = read_shard(context.blobs, steps[ShardEmbedding.step])
            found = [rows[place].vector or b"" for place in chosen]
            if not all(found):
                raise UsageError(
                    f"records of {dataset!r} were withdrawn while near-duplicates were searched; "
                    f"search again: loupe shards duplicates {dataset}"
                )
            if chosen:
                yield np.frombuffer(b"".join(found), "<f4").reshape(len(chosen), -1)

    images = collect(looks())
    embeddings = rows_on_disk(vectors()) if embedded else None
    found = near_duplicates_among(images.embedded_as(embeddings), settings)
    kept = {
        pair.first if pair.second == cluster.kept else pair.second: cluster.kept
        for cluster in found.clusters
        for pair in cluster.dropped
    }
    values = {"settings": settings.model_dump(mode="json"), "among": digest_of(*roots)}
    stored = store_settings(context, dataset, DUPLICATES, ShardDuplicates.version, values).id
    step = ShardDuplicates(context.blobs.url, stored, kept)
    run_step(context, dataset, step, local=True)
    current = set(children_of(context.store, [stored], Role.FILTERED_WITH)[stored])

    def is_active(shard: StoredEntity) -> bool | None:
        return shard.id in current if shard.group == DUPLICATES else None

    sync_active(context, dataset, Shard.kind, is_active, LIVE)
    return found.report


def _embedded(context: RunContext, shards: Sequence[StoredEntity]) -> dict[str, StoredEntity]:
    """Return the embeddings of each shard by the newest model that embedded all; else none."""
    by_model: dict[str, dict[str, StoredEntity]] = {}
    for shard in shards:
        for one in computed_shards(context.store, shard):
            if one.group == ShardEmbedding.step:
                (model,) = configurations_of(context.store, f"{one.group}_shards", [one.id])
                by_model.setdefault(canonical_json(model), {})[shard.id] = one
    complete = [found for found in by_model.values() if len(found) == len(shards)]
    return max(complete, key=lambda found: max(found.values()), default={})
