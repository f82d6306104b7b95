"""Makes contrastive images by editing anchors, and measures what changed (CCD, step 2)."""

import io
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple, assert_never

from PIL import Image as Pictures

from db.claims import pauses
from db.entities import AgentRef, NewEntity, StoredEntity, children_of, fetch, find, new_entity
from db.pending import Pending
from db.store import Store, retried
from db.work import ActivityRecord, WorkResult, drop_claims, register_plan, store_activity
from flows.ccd.edit_measures import (
    NO_CHANGE,
    Change,
    caption_shift,
    change_between,
    difference_overlay,
    judge_edit,
    measure_edit,
)
from flows.ccd.image_requests import strategies_of_orders
from flows.engine.context import RunContext
from flows.engine.embedding import CachedEmbedder
from flows.engine.image_reading import stored_picture
from flows.engine.report import Deferred, StageReport, StageResult
from flows.engine.runner import Stage, get_or_create_entity, run_stage
from models.embedding import plain_picture
from models.image_editor import ImageEditor, build_image_editor
from schemas.base import digest_of
from schemas.chat import ChatImage
from schemas.contrast import ImageRequest, StoredEdit
from schemas.image_edit import (
    BuiltinEditor,
    EditedPicture,
    EditFailure,
    EditRequest,
    FailedEdit,
    ImageEditorSpec,
    QwenImageEdit,
)
from schemas.profile import ContrastSettings
from schemas.proposals import Candidate, EditedImage, EditMeasurement, Picture, Strategy
from schemas.provenance import Role
from schemas.records import Rejection
from schemas.requests import MOST_INSTRUCTION_WORDS
from schemas.video import StageSettings

# Whether an instruction can be given to an editing model (CCD, step 2).

EDITING_STAGE = "edit_image"


def unfit_for_editing(
    instruction: str, most_words: int = MOST_INSTRUCTION_WORDS
) -> Rejection | None:
    """Why no image is edited after `instruction`; None where one can be.

    An instruction of more than `most_words` words is dropped; its strategy may still be searched.
    """
    words = len(instruction.split())
    if words <= most_words:
        return None
    return Rejection(
        stage=EDITING_STAGE,
        reason="long_instruction",
        detail=f"The editing instruction has {words} words; wanted {most_words} at most.",
        context={"instruction": instruction},
    )


# The commit of an editor is looked up once for each dataset and then kept: provenance names it, a
# run without an edit asks nobody, and a moved branch does not change the model of a dataset.

EDITOR_PINS_STAGE = "pin_editor"
EDITOR_PINS_VERSION = "1"


def known_pin(context: RunContext, dataset: str, spec: ImageEditorSpec) -> ImageEditorSpec | None:
    """`spec` with the commit that is known to be meant in this dataset; None where none is."""
    if isinstance(spec, BuiltinEditor):
        return spec
    for one in find(context.store, dataset, StageSettings.kind):
        record = one.record(StageSettings)
        if record.stage == EDITOR_PINS_STAGE and record.values["model"] == spec.ref.model_dump():
            return spec.model_copy(update={"revision": record.values["commit"]})
    return None


def pin(context: RunContext, dataset: str, spec: ImageEditorSpec) -> ImageEditorSpec:
    """`spec` with the commit that is meant in this dataset, looked up where it is not known.

    Raises:
        ModelError: the model's repository cannot tell.
    """
    if (known := known_pin(context, dataset, spec)) is not None:
        return known
    match spec:
        case BuiltinEditor():
            return spec
        case QwenImageEdit():
            from models.qwen_image_edit import pinned_editor

            found = pinned_editor(spec)
        case _:
            assert_never(spec)
    values = {"model": spec.ref.model_dump(), "commit": found.revision}
    get_or_create_entity(
        context,
        StageSettings(stage=EDITOR_PINS_STAGE, version=EDITOR_PINS_VERSION, values=values),
        dataset,
    )
    return found


# The ledger of edits: each picture is stored as it comes, and none is made twice.

EDIT_LEDGER_STAGE = "edit_pictures"
EDIT_LEDGER_VERSION = "1"


MOST_ATTEMPTS = 3
"""In so many runs an edit is tried that an editor could not make, such as for lack of memory."""


class AskedEdit(NamedTuple):
    """An edit that is wanted, and the strategy that it is for."""

    strategy_id: str
    request: EditRequest


class MadeEdit(NamedTuple):
    """An edit that was made, in this run or an earlier one, and its entity."""

    id: str
    record: StoredEdit


class RecordedEditor:
    """An editor whose every picture is stored.

    Model, parameters, seed, instruction and image are an edit's identity: with equal ones, the
    picture that is stored is given. An edit that failed is tried again, in at most
    `MOST_ATTEMPTS` runs, so that one picture does not keep the others waiting.
    """

    def __init__(self, context: RunContext, dataset: str, spec: ImageEditorSpec) -> None:
        self._context = context
        self._dataset = dataset
        self._spec = spec
        self._failed: dict[str, EditFailure] = {}  # in this run, in which none is tried again

    @cached_property
    def _editor(self) -> ImageEditor:
        """Loaded when the first edit is to be made: a run without one does not pay for it."""
        return build_image_editor(self._spec)

    @cached_property
    def _plan_id(self) -> int:
        configuration = {
            "model": self._spec.ref.model_dump(),
            "parameters": self._spec.parameters,
        }
        return register_plan(
            self._context.store, EDIT_LEDGER_STAGE, EDIT_LEDGER_VERSION, configuration
        )

    def edit(self, asked: Mapping[int, AskedEdit]) -> dict[int, MadeEdit | EditFailure]:
        """The outcome of each edit.

        Raises:
            ModelError: the editor cannot go on; what it made before is stored.
            SystemExit: the run is to stop; so is what it made before.
        """
        found: dict[int, MadeEdit | EditFailure] = {}
        waiting = pauses()
        with self._context.store.claims.renewed():
            while missing := {place: asked[place] for place in asked if place not in found}:
                found |= self._made_or_known(missing)
                if len(found) < len(asked):  # another run is making the rest
                    self._context.budget.stop.check()
                    time.sleep(next(waiting))
        return found

    def _made_or_known(self, asked: Mapping[int, AskedEdit]) -> dict[int, MadeEdit | EditFailure]:
        """The outcomes of the edits that no other run is making."""
        keys = {place: self._key(one.request) for place, one in asked.items()}
        claims = _claim_edits(self._context.store, keys)
        try:
            # A claim ends after its edit was stored: what others made before ours began is found.
            found = self._known(asked)
            ours = [place for place in claims if place not in found]
            for number, outcome in self._made([asked[place] for place in ours]):
                found[ours[number]] = outcome
                drop_claims(self._context.store, claims.pop(ours[number]))
        finally:
            drop_claims(self._context.store, *claims.values())
        return found

    def _known(self, asked: Mapping[int, AskedEdit]) -> dict[int, MadeEdit | EditFailure]:
        """What was made before, and what failed in this run."""
        stored = self._stored({one.strategy_id for one in asked.values()})
        known: dict[str, MadeEdit | EditFailure] = {**self._failed, **stored}
        keys = {place: self._key(one.request) for place, one in asked.items()}
        return {place: known[key] for place, key in keys.items() if key in known}

    def _key(self, request: EditRequest) -> str:
        return request.key(self._spec.ref, self._spec.parameters)

    def _stored(self, strategy_ids: set[str]) -> dict[str, MadeEdit]:
        """The edits that were made for these strategies, by their keys; of equal ones the first."""
        store = self._context.store
        below = children_of(store, strategy_ids, Role.EDITED_FOR)
        entities = fetch(store, {one for many in below.values() for one in many})
        found: dict[str, MadeEdit] = {}
        for one in sorted(entities.values(), key=lambda one: one.seq):
            record = one.record(StoredEdit)
            found.setdefault(record.key, MadeEdit(one.id, record))
        return found

    def _made(self, asked: Sequence[AskedEdit]) -> Iterator[tuple[int, MadeEdit | EditFailure]]:
        if not asked:
            return
        started_at = datetime.now(UTC)
        stop = self._context.budget.stop
        for number, outcome in self._editor.edit([one.request for one in asked]):
            if isinstance(outcome, EditFailure):
                yield number, self._counted(asked[number], outcome, started_at)
            else:
                yield number, self._store(asked[number], outcome, started_at)
            stop.check()
            started_at = datetime.now(UTC)

    def _store(self, asked: AskedEdit, made: EditedPicture, started_at: datetime) -> MadeEdit:
        image = made.image
        record = StoredEdit(
            key=self._key(asked.request),
            model=str(self._spec.ref),
            instruction=asked.request.instruction,
            seed=asked.request.seed,
            picture=Picture(
                sha256=self._context.blobs.put(image.data, image.media_type),
                media_type=image.media_type,
                width_px=made.width_px,
                height_px=made.height_px,
            ),
            regions=made.regions,
        )
        entity = new_entity(record, self._dataset, parents=[(Role.EDITED_FOR, asked.strategy_id)])
        self._commit(entity, started_at)
        return MadeEdit(entity.id, record)

    def _counted(self, asked: AskedEdit, failure: EditFailure, started_at: datetime) -> EditFailure:
        """The failure, final where the edit failed too often; each is stored that may be tried."""
        if not failure.retriable:
            return failure
        self._failed[key := self._key(asked.request)] = failure
        attempt = 1 + self._attempts(asked.strategy_id, key)
        record = FailedEdit(key=key, attempt=attempt, reason=failure.reason, detail=failure.detail)
        parents = [(Role.FAILED_FOR, asked.strategy_id)]
        self._commit(new_entity(record, self._dataset, parents=parents), started_at)
        if attempt < MOST_ATTEMPTS:
            return failure
        detail = f"{failure.detail} (tried in {attempt} runs)"
        self._failed[key] = failure.model_copy(update={"detail": detail, "retriable": False})
        return self._failed[key]

    def _attempts(self, strategy_id: str, key: str) -> int:
        """How often the edit failed before."""
        store = self._context.store
        below = children_of(store, {strategy_id}, Role.FAILED_FOR)
        entities = fetch(store, {one for many in below.values() for one in many})
        failed = [one.record(FailedEdit) for one in entities.values()]
        return max((one.attempt for one in failed if one.key == key), default=0)

    def _commit(self, entity: NewEntity, started_at: datetime) -> None:
        activity = ActivityRecord(
            plan_id=self._plan_id,
            dataset=self._dataset,
            code_revision=self._context.code_revision,
            flow_run=self._context.flow_run,
            started_at=started_at,
            agents=(self._context.software, AgentRef.of_model(self._spec.ref)),
        )
        with self._context.store.write() as connection:
            store_activity(connection, activity, [entity])


@retried
def _claim_edits(store: Store, keys: Mapping[int, str]) -> dict[int, str]:
    """The claims on those edits that no other run has claimed."""
    with store.write() as connection:
        taken = {
            place: store.claims.take(connection, f"edit/{key}")
            for place, key in sorted(keys.items(), key=itemgetter(1))  # in one order by all runs
        }
    return {place: claim_id for place, claim_id in taken.items() if claim_id is not None}


# Makes contrastive images by editing anchors, and measures what changed (CCD, step 2).

EDITED_IMAGES_STAGE = "edit_images"
EDITED_IMAGES_VERSION = "2"


_LABEL = "edit images"
_SEEDS = 2**32
_PNG = "image/png"
_ATTEMPTS = 2
_AGAIN = (NO_CHANGE, "bad_values")
"""The reasons for which an edit is tried again with another seed."""


def edit_images(
    context: RunContext,
    dataset: str,
    settings: ContrastSettings,
    embedder: CachedEmbedder,
    seed: int,
) -> StageReport:
    """Serves every request for an edit; each gives a candidate, or the reason why not.

    Where nothing changed an edit is tried once more with another seed. What was edited once is
    measured and judged again where the settings for that change, and not edited again. What the
    editor could not make for now is left for later and counted in the report; the rest is done.

    Raises:
        ModelError: the editor or the embedder cannot go on at all.
    """
    if not _is_ordered(context, dataset):  # an editor is not looked up for nothing
        return StageReport(_LABEL)
    spec = pin(context, dataset, settings.editor)
    settings = settings.model_copy(update={"editor": spec})
    with_settings = _settings_of(context, dataset, settings, embedder, seed)
    stage = Stage(
        name=EDITED_IMAGES_STAGE,
        version=EDITED_IMAGES_VERSION,
        dataset=dataset,
        configuration={"settings": with_settings.id},
        agents=(AgentRef.of_model(spec.ref),),
        chunk_size=8,  # of pictures, which are held; each is stored as it comes
        workers=1,
        independent=True,  # chunks do not grow
        label=_LABEL,
    )
    editing = _Editing(context, dataset, settings, embedder, seed, with_settings)

    def work(orders: Sequence[StoredEntity]) -> list[StageResult]:
        strategies = strategies_of_orders(context.store, orders)
        return editing.results([_Order(order, strategies[order.id]) for order in orders])

    pending = Pending(dataset, ImageRequest.kind, ("proposed",), "edit")
    return run_stage(context, stage, pending, work)


def edit_settings(
    context: RunContext,
    dataset: str,
    settings: ContrastSettings,
    embedder: CachedEmbedder,
    seed: int,
) -> NewEntity | None:
    """What edits are made, measured and judged with now, as an entity.

    None where the editor's commit is not known yet, so that nothing was edited with it.
    """
    spec = known_pin(context, dataset, settings.editor)
    if spec is None:
        return None
    pinned = settings.model_copy(update={"editor": spec})
    return _settings_of(context, dataset, pinned, embedder, seed)


def _is_ordered(context: RunContext, dataset: str) -> bool:
    orders = find(context.store, dataset, ImageRequest.kind, states=("proposed",))
    return any(order.group == "edit" for order in orders)


def _settings_of(
    context: RunContext,
    dataset: str,
    settings: ContrastSettings,
    embedder: CachedEmbedder,
    seed: int,
) -> NewEntity:
    """`picture` is what determines a picture; the rest is how it is measured and judged."""
    spec = settings.editor
    values = {
        "picture": {"model": spec.ref.model_dump(), "parameters": spec.parameters, "seed": seed},
        "check": settings.edit_check.model_dump(mode="json"),
        "embedder": str(embedder.ref),
    }
    record = StageSettings(stage=EDITED_IMAGES_STAGE, version=EDITED_IMAGES_VERSION, values=values)
    return get_or_create_entity(context, record, dataset)


class _Order(NamedTuple):
    """An order, and the strategy that it is for."""

    entity: StoredEntity
    strategy: StoredEntity


class _Edited(NamedTuple):
    """An edit that was made, and its verdict."""

    request: EditRequest
    made: MadeEdit
    change: Change
    measurement: EditMeasurement
    verdict: tuple[str, ...] | Rejection


class _Editing:
    """The edits of a run: made or made before, measured and judged."""

    def __init__(
        self,
        context: RunContext,
        dataset: str,
        settings: ContrastSettings,
        embedder: CachedEmbedder,
        seed: int,
        with_settings: NewEntity,
    ) -> None:
        self._context = context
        self._settings = settings
        self._embedder = embedder
        self._seed = seed
        self._with_settings = with_settings
        self._editor = RecordedEditor(context, dataset, settings.editor)

    def results(self, orders: Sequence[_Order]) -> list[StageResult]:
        """The result of each request."""
        found: dict[int, StageResult] = {}
        open_: dict[int, Strategy] = {}
        for place, order in enumerate(orders):
            strategy = order.strategy.record(Strategy)
            if (unfit := unfit_for_editing(strategy.editing_instruction)) is not None:
                found[place] = WorkResult(order.entity.seq, rejection=unfit)
            else:
                open_[place] = strategy
        for attempt in range(_ATTEMPTS):
            is_last = attempt + 1 == _ATTEMPTS
            requests = {
                place: AskedEdit(
                    orders[place].strategy.id, self._request(orders[place], strategy, attempt)
                )
                for place, strategy in open_.items()
            }
            for place, edited in self._edit(requests, open_).items():
                again = isinstance(edited, _Edited) and isinstance(edited.verdict, Rejection)
                again = again or (isinstance(edited, EditFailure) and edited.reason in _AGAIN)
                if not again or is_last:
                    found[place] = self._result(orders[place], open_.pop(place), edited)
        return [found[place] for place in range(len(orders))]

    def _request(self, order: _Order, strategy: Strategy, attempt: int) -> EditRequest:
        anchor = strategy.anchor
        data = self._context.blobs.read(anchor.sha256, anchor.media_type)
        chance = digest_of("edit", str(self._seed), order.strategy.id, str(attempt))
        return EditRequest(
            image=ChatImage(media_type=anchor.media_type, data=data),
            instruction=strategy.editing_instruction,
            seed=int(chance[:8], 16) % _SEEDS,
        )

    def _edit(
        self, asked: dict[int, AskedEdit], strategies: dict[int, Strategy]
    ) -> dict[int, _Edited | EditFailure]:
        outcomes = self._editor.edit(asked)
        made = {
            place: outcome.record.picture
            for place, outcome in outcomes.items()
            if isinstance(outcome, MadeEdit)
        }
        shifts = self._shifts(made, strategies)
        found: dict[int, _Edited | EditFailure] = {}
        for place, outcome in outcomes.items():
            if isinstance(outcome, EditFailure):
                found[place] = outcome
                continue
            request, strategy = asked[place].request, strategies[place]
            check, anchor = self._settings.edit_check, _opened(request.image.data)
            change = change_between(anchor, _opened(self._read(outcome.record.picture)), check)
            measurement = measure_edit(
                change,
                anchor.size,
                strategy.difference,
                regions=outcome.record.regions,
                shift=shifts[place],
            )
            verdict = judge_edit(measurement, strategy.difference, check)
            found[place] = _Edited(request, outcome, change, measurement, verdict)
        return found

    def _shifts(
        self, pictures: dict[int, Picture], strategies: dict[int, Strategy]
    ) -> dict[int, float]:
        if not pictures:
            return {}
        places = list(pictures)
        asked = [strategies[place] for place in places]
        anchors = self._embedder.embed_images(
            [stored_picture(self._context, one.anchor) for one in asked]
        )
        edited = self._embedder.embed_images(
            [stored_picture(self._context, pictures[place]) for place in places]
        )
        captions = self._embedder.embed_texts([one.caption for one in asked])
        wanted = self._embedder.embed_texts([one.contrastive_caption for one in asked])
        return {
            place: caption_shift(anchors[row], edited[row], captions[row], wanted[row])
            for row, place in enumerate(places)
        }

    def _result(
        self, order: _Order, strategy: Strategy, edited: _Edited | EditFailure
    ) -> StageResult:
        number = order.entity.seq
        if isinstance(edited, EditFailure):
            if edited.retriable:
                return Deferred(number, edited.reason, edited.detail)
            return WorkResult(number, rejection=_failed(strategy, edited))
        if isinstance(edited.verdict, Rejection):
            context = {**edited.verdict.context, "instruction": strategy.editing_instruction}
            return WorkResult(
                number, rejection=edited.verdict.model_copy(update={"context": context})
            )
        candidate = Candidate(
            source=strategy.source,
            anchor=strategy.anchor,
            caption=strategy.caption,
            strategy_id=order.strategy.id,
            detail=strategy.detail,
            difference=strategy.difference,
            plan=strategy.plan,
            contrastive_caption=strategy.contrastive_caption,
            image=edited.made.record.picture,
            origin=_origin(self._settings.editor, edited.request),
            measurement=edited.measurement,
            overlay=self._overlay(edited),
            doubts=edited.verdict,
        )
        entity = new_entity(
            candidate,
            order.entity.dataset,
            parents=[
                (Role.MADE_FOR, order.strategy.id),
                (Role.ORDERED_BY, order.entity.id),
                (Role.EDITED_AS, edited.made.id),
                (Role.WRITTEN_WITH, self._with_settings.id),
            ],
            group=strategy.anchor.image_id,
        )
        return WorkResult(number, (entity,))

    def _read(self, picture: Picture) -> bytes:
        return self._context.blobs.read(picture.sha256, picture.media_type)

    def _overlay(self, edited: _Edited) -> Picture:
        anchor = _opened(edited.request.image.data)
        drawn = difference_overlay(anchor, edited.change)
        return Picture(
            sha256=self._context.blobs.put(drawn, _PNG),
            media_type=_PNG,
            width_px=anchor.width,
            height_px=anchor.height,
        )


def _origin(spec: ImageEditorSpec, request: EditRequest) -> EditedImage:
    return EditedImage(
        model=str(spec.ref), instruction=request.instruction, seed=request.seed, steps=spec.steps
    )


def _opened(data: bytes) -> Pictures.Image:
    with Pictures.open(io.BytesIO(data)) as picture:
        return plain_picture(picture)


def _failed(strategy: Strategy, failure: EditFailure) -> Rejection:
    context = {"instruction": strategy.editing_instruction, "anchor": strategy.anchor.sha256}
    return Rejection(
        stage=EDITED_IMAGES_STAGE, reason=failure.reason, detail=failure.detail, context=context
    )
