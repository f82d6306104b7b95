"""Make contrastive images by editing anchors, and measure what changed (CCD, step 2)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from loupe.db.entities import AgentRef, NewEntity, StoredEntity, WorkResult, fetch_children, find
from loupe.db.work import Pending, register_plan, store_activity
from loupe.flows.ccd.image_requests import candidate_for, strategies_of_requests
from loupe.flows.ccd.run import CcdRun, image_rules
from loupe.flows.engine.cluster_models import image_editor
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.embedding import CachedEmbedder, put_picture, stored_picture
from loupe.flows.engine.importing import face_agents
from loupe.flows.engine.ledger import Ledger
from loupe.flows.engine.model_step import left_unanswered
from loupe.flows.engine.rejections import naming_inputs
from loupe.flows.engine.report import Deferred, StageReport, StageResult
from loupe.flows.engine.runner import Stage, count_attempts, run_stage, store_settings
from loupe.models.content_filter import ContentFilter
from loupe.models.image_editor import ImageEditor
from loupe.models.registry import build_content_filter, build_image_editor
from loupe.retrieval.edit_measures import (
    NO_CHANGE,
    Change,
    caption_shift,
    change_between,
    difference_overlay,
    judge_edit,
    measure_edit,
    opened_picture,
)
from loupe.schemas.base import digest_of
from loupe.schemas.chat import ChatImage, ModelRef
from loupe.schemas.contrast import ImageRequest, StoredEdit
from loupe.schemas.image_edit import (
    EditedPicture,
    EditFailure,
    EditRequest,
    ImageEditorSpec,
    QwenImageEdit,
)
from loupe.schemas.profile import ContrastSettings
from loupe.schemas.proposals import EditedImage, EditMeasurement, Strategy
from loupe.schemas.provenance import Role
from loupe.schemas.records import Picture, Rejection
from loupe.schemas.requests import MOST_INSTRUCTION_WORDS
from loupe.schemas.taxonomy import DifferenceType
from loupe.schemas.video import StageSettings


def unfit_for_editing(instruction: str) -> Rejection | None:
    """Return why `instruction` cannot be used for an edit, or None if it can.

    One of more than `MOST_INSTRUCTION_WORDS` is dropped; its strategy may still be searched.
    """
    words = len(instruction.split())
    if words <= MOST_INSTRUCTION_WORDS:
        return None
    detail = f"The editing instruction has {words} words; wanted {MOST_INSTRUCTION_WORDS} at most."
    return Rejection.of("edit_image", "long_instruction", detail, instruction=instruction)


# The commit of an editor is looked up once per dataset and kept, because provenance names it. A run
# without an edit sends no request, and a moved branch does not change the model of a dataset.

_EDITOR_PINS_STAGE = "pin_editor"
_EDITOR_PINS_VERSION = "1"


def known_pin(context: RunContext, dataset: str, spec: ImageEditorSpec) -> ImageEditorSpec | None:
    """Return `spec` with the commit stored for this dataset, or None if there is none."""
    if not isinstance(spec, QwenImageEdit):
        return spec
    for one in find(context.store, dataset, StageSettings.kind):
        record = one.record(StageSettings)
        if record.stage == _EDITOR_PINS_STAGE and record.values["model"] == spec.ref.model_dump():
            return spec.model_copy(update={"revision": record.values["commit"]})
    return None


def pin(context: RunContext, dataset: str, spec: ImageEditorSpec) -> ImageEditorSpec:
    """Return `spec` with the commit of this dataset, which is looked up if it is unknown.

    Raises:
        ModelError: the commit cannot be looked up in the model's repository.
    """
    known = known_pin(context, dataset, spec)
    if known is not None or not isinstance(spec, QwenImageEdit):
        return known or spec
    from loupe.models.qwen_image_edit import pinned_editor

    found = pinned_editor(spec)
    values = {"model": spec.ref.model_dump(), "commit": found.revision}
    store_settings(context, dataset, _EDITOR_PINS_STAGE, _EDITOR_PINS_VERSION, values)
    return found


# Make contrastive images by editing anchors, and measure what changed (CCD, step 2).

EDITED_IMAGES_STAGE = "edit_images"
_EDITED_IMAGES_VERSION = "2"
_LEDGER_STAGE, _LEDGER_VERSION = "edit_pictures", "1"
_FAILED = "failed_edit"
MOST_ATTEMPTS = 3
"""The most runs in which an edit is attempted if the editor fails, such as for lack of memory."""
_LABEL = "edit images"
_SEEDS = 2**32
_PNG = "image/png"
_ATTEMPTS = 2
_AGAIN = (NO_CHANGE, "bad_values")
"""The reasons of a rejection after which an edit is retried with another seed."""


def edit_images(run: CcdRun) -> None:
    """Serve every edit request; each results in a candidate or a rejection.

    If nothing changed, the edit is retried once with another seed. If settings of the check change,
    stored edits are measured and judged again instead of edited again. If the editor fails on an
    edit for now, it is left for later, in at most `MOST_ATTEMPTS` runs, and the others go on.

    Raises:
        ModelError: the editor or the embedder cannot continue at all.
    """
    run.say(edit_bounds_warning(run.settings))
    if not run.find(ImageRequest, "proposed", group="edit"):  # no need to look up the editor
        run.add(StageReport(_LABEL))
        return
    spec = pin(run.context, run.dataset, run.settings.editor)
    with_settings = edit_settings(run)
    assert with_settings is not None  # noqa: S101 - the editor is pinned
    stage = Stage(
        name=EDITED_IMAGES_STAGE,
        version=_EDITED_IMAGES_VERSION,
        dataset=run.dataset,
        configuration={"settings": with_settings.id},
        agents=(AgentRef.of_model(spec.ref),),
        chunk_size=8,  # images are kept in memory; each is stored at once
        workers=1,
        independent=True,  # chunks do not grow
        label=_LABEL,
    )
    pending = Pending(run.dataset, ImageRequest.kind, ("proposed",), "edit")
    edited = run_stage(run.context, stage, pending, _Editing(run, spec, with_settings.id).results)
    run.add(edited)
    run.stopped = run.stopped or left_unanswered(run.settings.editor.ref, edited)


def edit_settings(run: CcdRun) -> NewEntity | None:
    """Return the current settings to make, measure and judge edits with, as an entity.

    `picture` determines the image, the rest how it is judged. None if the editor's commit is not
    known yet, so that no edit was made with it.
    """
    spec, seed = known_pin(run.context, run.dataset, run.settings.editor), run.build.seed
    if spec is None:
        return None
    picture = {"model": spec.ref.model_dump(), "parameters": spec.parameters, "seed": seed}
    values = {
        "picture": picture | image_rules(run),
        "check": run.settings.edit_check.model_dump(mode="json"),
        "embedder": str(run.embedder.ref),
    }
    return store_settings(
        run.context, run.dataset, EDITED_IMAGES_STAGE, _EDITED_IMAGES_VERSION, values
    )


class EditOrder(NamedTuple):
    """What is to be changed in an image.

    Attributes:
        subject_id: the entity that the edit is made for.
        anchor: the image.
        caption: what it shows.
        wanted_caption: what the edited image is to show.
    """

    subject_id: str
    anchor: Picture
    instruction: str
    difference: DifferenceType
    caption: str
    wanted_caption: str


class _Made(NamedTuple):
    """An edit made in this run or an earlier one, its request and its entity.

    `entity` is the one to be stored, made in `seconds`; None if it is stored already.
    """

    request: EditRequest
    id: str
    record: StoredEdit
    entity: NewEntity | None = None
    seconds: float = 0.0


class _Call(NamedTuple):
    """An edit that is made for an entity."""

    request: EditRequest
    subject_id: str


class _RecordedEditor(Ledger[_Call, _Made | EditFailure]):
    """An editor whose edits are stored as they are made, and not made twice.

    An edit is identified by model, parameters, seed, instruction and image.
    """

    def __init__(self, run: CcdRun, spec: ImageEditorSpec) -> None:
        super().__init__(run.store, run.context.budget, run.context.progress.waits)
        self._run = run
        self._spec = spec

    @property
    def ref(self) -> ModelRef:
        """The editor."""
        return self._spec.ref

    @cached_property
    def _model(self) -> ImageEditor:
        """Load the editor for the first edit, or have actors load it if there is a cluster."""
        settings = self._run.context.settings
        if isinstance(self._spec, QwenImageEdit) and settings.engine == "ray":
            return image_editor(self._spec, settings, self._spec.batch_size)
        return build_image_editor(self._spec)

    @cached_property
    def _filter(self) -> ContentFilter:
        return build_content_filter(self._run.profile.contrast.content_filter)

    @cached_property
    def _plan_id(self) -> int:
        model = {"model": self.ref.model_dump(), "parameters": self._spec.parameters}
        return register_plan(self.store, _LEDGER_STAGE, _LEDGER_VERSION, model)

    def key(self, request: _Call) -> str:
        """Return the identity of the edit, as it is stored."""
        return request.request.key(self.ref, self._spec.parameters | image_rules(self._run))

    def subject(self, request: _Call) -> str:
        """Return the instruction."""
        return request.request.instruction

    def send(self, requests: Iterable[_Call]) -> Iterator[tuple[int, _Made | EditFailure]]:
        """Make edits until the run is stopped."""
        remaining = iter(requests)
        first = next(remaining, None)
        if first is None:
            return
        taken: list[_Call] = []

        def asked() -> Iterator[EditRequest]:
            for call in chain((first,), remaining):
                taken.append(call)
                yield call.request

        for position, outcome in self._model.edit(asked()):
            if isinstance(outcome, EditFailure):
                yield position, outcome
            elif what := self._filter.refusal(outcome.image, ()):
                detail = f"the edited image is refused by {self._filter.ref}: {what}"
                yield position, EditFailure(reason="refused_content", detail=detail)
            else:
                yield position, self._made(taken[position], outcome)
            if self.is_stopped:
                return

    def _made(self, call: _Call, edited: EditedPicture) -> _Made:
        image, size = edited.image, (edited.width_px, edited.height_px)
        record = StoredEdit(
            key=self.key(call),
            model=str(self.ref),
            instruction=call.request.instruction,
            seed=call.request.seed,
            picture=put_picture(
                self._run.context.blobs, image.data, image.media_type, size, self._run.build.faces
            ),
            regions=edited.regions,
        )
        entity = self._run.create(record, [(Role.EDITED_FOR, call.subject_id)])
        return _Made(call.request, entity.id, record, entity, edited.seconds)

    def find(self, request: _Call) -> _Made | None:
        """Return the stored edit."""
        key, subject_id = self.key(request), request.subject_id
        for one in fetch_children(self.store, [subject_id], Role.EDITED_FOR)[subject_id]:
            record = one.record(StoredEdit)
            if record.key == key:
                return _Made(request.request, one.id, record)
        return None

    def is_paid(self, outcome: _Made | EditFailure) -> bool:
        """Return whether there is an image."""
        return isinstance(outcome, _Made)

    def record(self, request: _Call, outcome: _Made | EditFailure, claim_id: str) -> bool:  # noqa: ARG002
        """Store the edit with its provenance."""
        assert isinstance(outcome, _Made)  # noqa: S101 - nothing else is paid
        assert outcome.entity is not None  # noqa: S101 - made in this run
        run, agent = self._run, AgentRef.of_model(self.ref)
        started_at = datetime.now(UTC) - timedelta(seconds=outcome.seconds)
        agents = (agent, *face_agents(run.build.faces))
        activity = run.context.activity(self._plan_id, run.dataset, started_at, *agents)
        with self.store.write() as connection:
            store_activity(connection, activity, [outcome.entity])
            return self.store.claims.release(connection, claim_id)


class Edited(NamedTuple):
    """An edit that was made, and its verdict: warnings, or why it cannot be used."""

    made: _Made
    change: Change
    measurement: EditMeasurement
    verdict: tuple[str, ...] | Rejection


@dataclass(frozen=True)
class Edits:
    """The edits of a run, whether made in it or before, measured and judged.

    An edit that was made before is not made again: its stored image is used.
    """

    run: CcdRun
    editor: ImageEditorSpec
    embedder: CachedEmbedder

    @cached_property
    def _ledger(self) -> _RecordedEditor:
        return _RecordedEditor(self.run, self.editor)

    def of(self, orders: Sequence[EditOrder]) -> list[Edited | EditFailure | Rejection]:
        """Return the edit of each order, or why there is none.

        Raises:
            BudgetReachedError: a limit of the run's budget was reached.
            ModelError: the editor cannot continue; earlier edits are stored.
            SystemExit: the run is being stopped; earlier edits are stored.
        """
        found: dict[int, Edited | EditFailure | Rejection] = {}
        open_: dict[int, EditOrder] = {}
        for place, order in enumerate(orders):
            if (unfit := unfit_for_editing(order.instruction)) is not None:
                found[place] = unfit
            else:
                open_[place] = order
        for attempt in range(_ATTEMPTS):
            for place, edited in self._edit(open_, attempt).items():
                again = (
                    edited.reason in _AGAIN
                    if isinstance(edited, EditFailure)
                    else isinstance(edited.verdict, Rejection)
                )
                if not again or attempt + 1 == _ATTEMPTS:
                    found[place] = edited
                    del open_[place]
        return [found[place] for place in range(len(orders))]

    def _edit(
        self, orders: Mapping[int, EditOrder], attempt: int
    ) -> dict[int, Edited | EditFailure]:
        places = list(orders)
        calls = [self._call(one, attempt) for one in orders.values()]
        found: dict[int, Edited | EditFailure] = {}
        made: dict[int, _Made] = {}
        for position, outcome in self._ledger.answer(calls):
            if isinstance(outcome, EditFailure):
                found[places[position]] = outcome
            else:
                made[places[position]] = outcome
        shifts = self._shifts([(orders[place], one) for place, one in made.items()])
        check = self.run.settings.edit_check
        for (place, one), shift in zip(made.items(), shifts, strict=True):
            difference, picture = orders[place].difference, one.record.picture
            anchor = opened_picture(one.request.image.data)
            edited = opened_picture(self.run.context.blobs.read(picture.sha256, picture.media_type))
            change = change_between(anchor, edited, check)
            measurement = measure_edit(
                change, anchor.size, difference, regions=one.record.regions, shift=shift
            )
            verdict = judge_edit(measurement, difference, check)
            found[place] = Edited(one, change, measurement, verdict)
        return found

    def _call(self, order: EditOrder, attempt: int) -> _Call:
        anchor, subject_id = order.anchor, order.subject_id
        data = self.run.context.blobs.read(anchor.sha256, anchor.media_type)
        chance = digest_of("edit", str(self.run.build.seed), subject_id, str(attempt))
        request = EditRequest(
            image=ChatImage(media_type=anchor.media_type, data=data),
            instruction=order.instruction,
            seed=int(chance[:8], 16) % _SEEDS,
        )
        return _Call(request, subject_id)

    def _shifts(self, edits: Sequence[tuple[EditOrder, _Made]]) -> list[float]:
        """Return how much better each edit fits the wanted caption than its anchor does."""
        if not edits:
            return []
        orders = [order for order, _ in edits]
        anchors = [stored_picture(self.run.context, one.anchor) for one in orders]
        edited = [stored_picture(self.run.context, made.record.picture) for _, made in edits]
        rows = zip(
            self.embedder.embed_images(anchors),
            self.embedder.embed_images(edited),
            self.embedder.embed_texts([one.caption for one in orders]),
            self.embedder.embed_texts([one.wanted_caption for one in orders]),
            strict=True,
        )
        return [caption_shift(*own) for own in rows]


def _order_of(stored: StoredEntity) -> EditOrder:
    """Return the order for a strategy."""
    strategy = stored.record(Strategy)
    return EditOrder(
        subject_id=stored.id,
        anchor=strategy.anchor,
        instruction=strategy.editing_instruction,
        difference=strategy.difference,
        caption=strategy.caption,
        wanted_caption=strategy.contrastive_caption,
    )


@dataclass(frozen=True)
class _Editing:
    """The edits for requests, which become candidates."""

    run: CcdRun
    editor: ImageEditorSpec
    settings_id: str

    @cached_property
    def _edits(self) -> Edits:
        return Edits(self.run, self.editor, self.run.embedder)

    @cached_property
    def _started(self) -> str:
        return datetime.now(UTC).isoformat()

    def results(self, requests: Sequence[StoredEntity]) -> list[StageResult]:
        """Return the result of each request; see `Edits.of`."""
        strategies = strategies_of_requests(self.run.store, requests)
        edits = self._edits.of([_order_of(strategies[one.id]) for one in requests])
        results = [
            self._result(one, strategies[one.id], edited)
            for one, edited in zip(requests, edits, strict=True)
        ]
        return naming_inputs(self.run.store, requests, results)

    def _result(
        self,
        request: StoredEntity,
        stored_strategy: StoredEntity,
        edited: Edited | EditFailure | Rejection,
    ) -> StageResult:
        number, strategy = request.seq, stored_strategy.record(Strategy)
        if isinstance(edited, Rejection):
            return WorkResult(number, rejection=edited)
        if isinstance(edited, EditFailure):
            return self._failed(number, strategy, edited)
        if isinstance(edited.verdict, Rejection):
            asked = {"instruction": strategy.editing_instruction, "model": str(self.editor.ref)}
            context = {**edited.verdict.context, **asked}
            rejection = edited.verdict.model_copy(update={"context": context})
            return WorkResult(number, rejection=rejection)
        made = edited.made
        candidate = candidate_for(
            request,
            stored_strategy,
            [(Role.EDITED_AS, made.id), (Role.WRITTEN_WITH, self.settings_id)],
            image=made.record.picture,
            origin=EditedImage(
                model=str(self.editor.ref),
                instruction=made.request.instruction,
                seed=made.request.seed,
                steps=self.editor.steps,
            ),
            measurement=edited.measurement,
            overlay=self._overlay(edited),
            warnings=edited.verdict,
        )
        return WorkResult(number, (candidate,))

    def _failed(self, number: int, strategy: Strategy, failure: EditFailure) -> StageResult:
        """Leave a failed edit for later, or reject it if that is of no use."""
        detail = failure.detail
        if failure.retriable:
            run, stage = self.run, _FAILED
            attempts = count_attempts(run.context, run.dataset, stage, self._started, [number])
            if attempts[number] < MOST_ATTEMPTS:
                return Deferred(number, failure.reason, detail)
            detail = f"{detail} (tried in {attempts[number]} runs)"
        return WorkResult.rejected(
            number,
            EDITED_IMAGES_STAGE,
            failure.reason,
            detail,
            instruction=strategy.editing_instruction,
            anchor=strategy.anchor.sha256,
            model=str(self.editor.ref),
        )

    def _overlay(self, edited: Edited) -> Picture:
        anchor = opened_picture(edited.made.request.image.data)
        drawn = difference_overlay(anchor, edited.change)
        return put_picture(self.run.context.blobs, drawn, _PNG, anchor.size)


def edit_bounds_warning(settings: ContrastSettings) -> str | None:
    """Return a warning if the bounds of the check of edits were not measured."""
    check = settings.edit_check
    if settings.has_measured_bounds or check.least_shift is None:
        return None
    return (
        f"whether an edit changed the wanted detail is judged by bounds (shift above "
        f"{check.least_shift:g}, doubtful below {check.doubtful_shift:g}) that were not measured "
        f"with {settings.embedder.name}"
    )
