"""Make contrastive images by editing anchors, and measure what changed (CCD, step 2)."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from db.entities import (
    AgentRef,
    NewEntity,
    StoredEntity,
    WorkResult,
    fetch_children,
    find,
    new_entity,
)
from db.store import Store, drop_claims, pauses, retried
from db.work import Pending, register_plan, store_activity
from flows.ccd.edit_measures import (
    NO_CHANGE,
    Change,
    caption_shift,
    change_between,
    difference_overlay,
    judge_edit,
    measure_edit,
    opened_picture,
)
from flows.ccd.image_requests import candidate_for, strategies_of_requests
from flows.ccd.run import CcdRun
from flows.engine.context import RunContext
from flows.engine.embedding import put_picture, stored_picture
from flows.engine.model_step import left_unanswered
from flows.engine.report import Deferred, StageReport, StageResult
from flows.engine.runner import Stage, get_or_create_entity, run_stage
from models.image_editor import ImageEditor, build_image_editor
from schemas.base import EntityRecord, digest_of
from schemas.chat import ChatImage
from schemas.contrast import ImageRequest, StoredEdit
from schemas.image_edit import (
    BuiltinEditor,
    EditedPicture,
    EditFailure,
    EditRequest,
    FailedEdit,
    ImageEditorSpec,
)
from schemas.profile import ContrastSettings
from schemas.proposals import EditedImage, EditMeasurement, Strategy
from schemas.provenance import Role
from schemas.records import Picture, Rejection
from schemas.requests import MOST_INSTRUCTION_WORDS
from schemas.video import StageSettings


def unfit_for_editing(
    instruction: str, most_words: int = MOST_INSTRUCTION_WORDS
) -> Rejection | None:
    """Return why `instruction` cannot be used for an edit, or None if it can.

    An instruction of more than `most_words` words is dropped; its strategy may still be searched.
    """
    words = len(instruction.split())
    if words <= most_words:
        return None
    return Rejection(
        stage="edit_image",
        reason="long_instruction",
        detail=f"The editing instruction has {words} words; wanted {most_words} at most.",
        context={"instruction": instruction},
    )


# The commit of an editor is looked up once per dataset and kept, because provenance names it. A run
# without an edit sends no request, and a moved branch does not change the model of a dataset.

_EDITOR_PINS_STAGE = "pin_editor"
_EDITOR_PINS_VERSION = "1"


def known_pin(context: RunContext, dataset: str, spec: ImageEditorSpec) -> ImageEditorSpec | None:
    """Return `spec` with the commit stored for this dataset, or None if there is none."""
    if isinstance(spec, BuiltinEditor):
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
    if known is not None or isinstance(spec, BuiltinEditor):
        return known or spec
    from models.qwen_image_edit import pinned_editor

    found = pinned_editor(spec)
    values = {"model": spec.ref.model_dump(), "commit": found.revision}
    get_or_create_entity(
        context,
        StageSettings(stage=_EDITOR_PINS_STAGE, version=_EDITOR_PINS_VERSION, values=values),
        dataset,
    )
    return found


# The ledger of edits: each image is stored at once, and none is made twice.

_LEDGER_STAGE = "edit_pictures"
_LEDGER_VERSION = "1"
MOST_ATTEMPTS = 3
"""The most runs in which an edit is attempted if the editor fails, such as for lack of memory."""


class AskedEdit(NamedTuple):
    """A requested edit, its strategy and its key."""

    strategy_id: str
    request: EditRequest
    key: str


class MadeEdit(NamedTuple):
    """An edit made in this run or an earlier one, and its entity."""

    id: str
    record: StoredEdit


@dataclass(frozen=True)
class RecordedEditor:
    """An editor that stores every image.

    An edit is identified by model, parameters, seed, instruction and image. For an edit that was
    made before, the stored image is returned. A failed edit is retried in at most `MOST_ATTEMPTS`
    runs, so that one image does not hold up the others.

    Attributes:
        failed: the failures of this run, which does not retry them, by key.
    """

    context: RunContext
    dataset: str
    spec: ImageEditorSpec
    failed: dict[str, EditFailure] = field(default_factory=dict)

    @cached_property
    def _editor(self) -> ImageEditor:
        """Load the editor for the first edit; a run without edits does not load it."""
        return build_image_editor(self.spec)

    @cached_property
    def _plan_id(self) -> int:
        model = {"model": self.spec.ref.model_dump(), "parameters": self.spec.parameters}
        return register_plan(self.context.store, _LEDGER_STAGE, _LEDGER_VERSION, model)

    def asked(self, strategy_id: str, request: EditRequest) -> AskedEdit:
        """Return the requested edit with its key."""
        return AskedEdit(strategy_id, request, request.key(self.spec.ref, self.spec.parameters))

    def edit(self, asked: Mapping[int, AskedEdit]) -> dict[int, MadeEdit | EditFailure]:
        """Return the outcome of each edit.

        Raises:
            ModelError: the editor cannot continue; earlier edits are stored.
            SystemExit: the run is being stopped; earlier edits are stored.
        """
        found: dict[int, MadeEdit | EditFailure] = {}
        waiting = pauses()
        with self.context.store.claims.renewed():
            while missing := {place: asked[place] for place in asked if place not in found}:
                found |= self._made_or_known(missing)
                if len(found) < len(asked):  # another run is making the rest
                    self.context.budget.stop.check()
                    time.sleep(next(waiting))
        return found

    def _made_or_known(self, asked: Mapping[int, AskedEdit]) -> dict[int, MadeEdit | EditFailure]:
        """Return the outcomes of the edits that no other run is making."""
        claims = _claim_edits(self.context.store, asked)
        try:
            # A claim ends after its edit is stored, so edits finished before the claim are found
            # here.
            stored = self._stored({one.strategy_id for one in asked.values()})
            known: dict[str, MadeEdit | EditFailure] = {**self.failed, **stored}
            found = {place: known[one.key] for place, one in asked.items() if one.key in known}
            ours = [place for place in claims if place not in found]
            for number, outcome in self._made([asked[place] for place in ours]):
                found[ours[number]] = outcome
                drop_claims(self.context.store, claims.pop(ours[number]))
        finally:
            drop_claims(self.context.store, *claims.values())
        return found

    def _stored(self, strategy_ids: set[str]) -> dict[str, MadeEdit]:
        """Return the edits made for these strategies by their keys; of equal keys the first."""
        found: dict[str, MadeEdit] = {}
        for one in self._below(strategy_ids, Role.EDITED_FOR):
            record = one.record(StoredEdit)
            found.setdefault(record.key, MadeEdit(one.id, record))
        return found

    def _below(self, strategy_ids: set[str], role: Role) -> list[StoredEntity]:
        below = fetch_children(self.context.store, strategy_ids, role)
        return sorted(chain.from_iterable(below.values()), key=lambda one: one.seq)

    def _made(self, asked: Sequence[AskedEdit]) -> Iterator[tuple[int, MadeEdit | EditFailure]]:
        if not asked:
            return
        started_at = datetime.now(UTC)
        for number, outcome in self._editor.edit([one.request for one in asked]):
            if isinstance(outcome, EditFailure):
                yield number, self._counted(asked[number], outcome, started_at)
            else:
                yield number, self._store(asked[number], outcome, started_at)
            self.context.budget.stop.check()
            started_at = datetime.now(UTC)

    def _store(self, asked: AskedEdit, made: EditedPicture, started_at: datetime) -> MadeEdit:
        image = made.image
        record = StoredEdit(
            key=asked.key,
            model=str(self.spec.ref),
            instruction=asked.request.instruction,
            seed=asked.request.seed,
            picture=put_picture(
                self.context.blobs, image.data, image.media_type, (made.width_px, made.height_px)
            ),
            regions=made.regions,
        )
        return MadeEdit(self._commit(record, Role.EDITED_FOR, asked, started_at), record)

    def _counted(self, asked: AskedEdit, failure: EditFailure, started_at: datetime) -> EditFailure:
        """Return the failure, which is final after too many attempts; others are stored."""
        if not failure.retriable:
            return failure
        failed = [
            one.record(FailedEdit) for one in self._below({asked.strategy_id}, Role.FAILED_FOR)
        ]
        attempt = 1 + max((one.attempt for one in failed if one.key == asked.key), default=0)
        record = FailedEdit(
            key=asked.key, attempt=attempt, reason=failure.reason, detail=failure.detail
        )
        self._commit(record, Role.FAILED_FOR, asked, started_at)
        if attempt >= MOST_ATTEMPTS:
            detail = f"{failure.detail} (tried in {attempt} runs)"
            failure = failure.model_copy(update={"detail": detail, "retriable": False})
        self.failed[asked.key] = failure
        return failure

    def _commit(
        self, record: EntityRecord, role: Role, asked: AskedEdit, started_at: datetime
    ) -> str:
        """Store the outcome of an edit, and return the id of its entity."""
        entity = new_entity(record, self.dataset, parents=[(role, asked.strategy_id)])
        editor = AgentRef.of_model(self.spec.ref)
        activity = self.context.activity(self._plan_id, self.dataset, started_at, editor)
        with self.context.store.write() as connection:
            store_activity(connection, activity, [entity])
        return entity.id


@retried
def _claim_edits(store: Store, asked: Mapping[int, AskedEdit]) -> dict[int, str]:
    """Return claims on those edits that no other run has claimed."""
    in_order = sorted(asked.items(), key=lambda item: item[1].key)  # all runs use the same order
    with store.write() as connection:
        taken = {place: store.claims.take(connection, f"edit/{one.key}") for place, one in in_order}
    return {place: claim_id for place, claim_id in taken.items() if claim_id is not None}


# Make contrastive images by editing anchors, and measure what changed (CCD, step 2).

EDITED_IMAGES_STAGE = "edit_images"
_EDITED_IMAGES_VERSION = "2"
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
    edit for now, it is left for later, and the others go on.

    Raises:
        ModelError: the editor or the embedder cannot continue at all.
    """
    run.say(edit_bounds_warning(run.settings))
    context, dataset = run.context, run.dataset
    orders = find(run.store, dataset, ImageRequest.kind, states=("proposed",))
    if all(order.group != "edit" for order in orders):  # no need to look up the editor
        run.add(StageReport(_LABEL))
        return
    spec = pin(context, dataset, run.settings.editor)
    with_settings = edit_settings(run)
    assert with_settings is not None  # noqa: S101 - the editor is pinned
    stage = Stage(
        name=EDITED_IMAGES_STAGE,
        version=_EDITED_IMAGES_VERSION,
        dataset=dataset,
        configuration={"settings": with_settings.id},
        agents=(AgentRef.of_model(spec.ref),),
        chunk_size=8,  # images are kept in memory; each is stored at once
        workers=1,
        independent=True,  # chunks do not grow
        label=_LABEL,
    )
    editing = _Editing(run, with_settings.id, RecordedEditor(context, dataset, spec))

    def work(orders: Sequence[StoredEntity]) -> list[StageResult]:
        strategies = strategies_of_requests(run.store, orders)
        return editing.results(
            [_Order(one, found := strategies[one.id], found.record(Strategy)) for one in orders]
        )

    pending = Pending(dataset, ImageRequest.kind, ("proposed",), "edit")
    edited = run_stage(context, stage, pending, work)
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
    values = {
        "picture": {"model": spec.ref.model_dump(), "parameters": spec.parameters, "seed": seed},
        "check": run.settings.edit_check.model_dump(mode="json"),
        "embedder": str(run.embedder.ref),
    }
    record = StageSettings(stage=EDITED_IMAGES_STAGE, version=_EDITED_IMAGES_VERSION, values=values)
    return get_or_create_entity(run.context, record, run.dataset)


class _Order(NamedTuple):
    """A request and its strategy."""

    entity: StoredEntity
    stored_strategy: StoredEntity
    strategy: Strategy


class _Edited(NamedTuple):
    """An edit that was made, and its verdict."""

    request: EditRequest
    made: MadeEdit
    change: Change
    measurement: EditMeasurement
    verdict: tuple[str, ...] | Rejection


@dataclass(frozen=True)
class _Editing:
    """The edits of a run, whether made in it or before, measured and judged."""

    run: CcdRun
    settings_id: str
    editor: RecordedEditor

    def results(self, orders: Sequence[_Order]) -> list[StageResult]:
        """Return the result of each request."""
        found: dict[int, StageResult] = {}
        open_: dict[int, _Order] = {}
        for place, order in enumerate(orders):
            if (unfit := unfit_for_editing(order.strategy.editing_instruction)) is not None:
                found[place] = WorkResult(order.entity.seq, rejection=unfit)
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
                    found[place] = self._result(open_.pop(place), edited)
        return [found[place] for place in range(len(orders))]

    def _edit(self, orders: Mapping[int, _Order], attempt: int) -> dict[int, _Edited | EditFailure]:
        asked = {
            place: self.editor.asked(order.stored_strategy.id, self._request(order, attempt))
            for place, order in orders.items()
        }
        outcomes = self.editor.edit(asked)
        made = {place: one for place, one in outcomes.items() if isinstance(one, MadeEdit)}
        shifts = self._shifts([(orders[place].strategy, one) for place, one in made.items()])
        found: dict[int, _Edited | EditFailure] = {
            place: one for place, one in outcomes.items() if isinstance(one, EditFailure)
        }
        check = self.run.settings.edit_check
        for (place, one), shift in zip(made.items(), shifts, strict=True):
            request, difference = asked[place].request, orders[place].strategy.difference
            anchor = opened_picture(request.image.data)
            picture = one.record.picture
            edited = opened_picture(self.run.context.blobs.read(picture.sha256, picture.media_type))
            change = change_between(anchor, edited, check)
            measurement = measure_edit(
                change, anchor.size, difference, regions=one.record.regions, shift=shift
            )
            verdict = judge_edit(measurement, difference, check)
            found[place] = _Edited(request, one, change, measurement, verdict)
        return found

    def _request(self, order: _Order, attempt: int) -> EditRequest:
        anchor = order.strategy.anchor
        data = self.run.context.blobs.read(anchor.sha256, anchor.media_type)
        chance = digest_of("edit", str(self.run.build.seed), order.stored_strategy.id, str(attempt))
        return EditRequest(
            image=ChatImage(media_type=anchor.media_type, data=data),
            instruction=order.strategy.editing_instruction,
            seed=int(chance[:8], 16) % _SEEDS,
        )

    def _shifts(self, edits: Sequence[tuple[Strategy, MadeEdit]]) -> list[float]:
        """Return how much better each edit fits the wanted caption than its anchor does."""
        if not edits:
            return []
        strategies = [strategy for strategy, _ in edits]
        anchors = [stored_picture(self.run.context, one.anchor) for one in strategies]
        edited = [stored_picture(self.run.context, made.record.picture) for _, made in edits]
        rows = zip(
            self.run.embedder.embed_images(anchors),
            self.run.embedder.embed_images(edited),
            self.run.embedder.embed_texts([one.caption for one in strategies]),
            self.run.embedder.embed_texts([one.contrastive_caption for one in strategies]),
            strict=True,
        )
        return [caption_shift(*own) for own in rows]

    def _result(self, order: _Order, edited: _Edited | EditFailure) -> StageResult:
        number, strategy = order.entity.seq, order.strategy
        instruction = strategy.editing_instruction
        if isinstance(edited, EditFailure):
            if edited.retriable:
                return Deferred(number, edited.reason, edited.detail)
            rejection = Rejection(
                stage=EDITED_IMAGES_STAGE,
                reason=edited.reason,
                detail=edited.detail,
                context={"instruction": instruction, "anchor": strategy.anchor.sha256},
            )
            return WorkResult(number, rejection=rejection)
        if isinstance(edited.verdict, Rejection):
            context = {**edited.verdict.context, "instruction": instruction}
            rejection = edited.verdict.model_copy(update={"context": context})
            return WorkResult(number, rejection=rejection)
        editor = self.editor.spec
        candidate = candidate_for(
            order.entity,
            order.stored_strategy,
            [(Role.EDITED_AS, edited.made.id), (Role.WRITTEN_WITH, self.settings_id)],
            image=edited.made.record.picture,
            origin=EditedImage(
                model=str(editor.ref),
                instruction=edited.request.instruction,
                seed=edited.request.seed,
                steps=editor.steps,
            ),
            measurement=edited.measurement,
            overlay=self._overlay(edited),
            warnings=edited.verdict,
        )
        return WorkResult(number, (candidate,))

    def _overlay(self, edited: _Edited) -> Picture:
        anchor = opened_picture(edited.request.image.data)
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
