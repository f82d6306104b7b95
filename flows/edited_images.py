"""Makes contrastive images by editing anchors, and measures what changed (CCD, step 2)."""

import io
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image as Pictures

from db.agents import AgentRef
from db.entities import NewEntity, StoredEntity, find, new_entity
from db.work import Pending, WorkResult
from flows.captioning import WRITTEN_WITH
from flows.context import RunContext
from flows.edit_ledger import AskedEdit, MadeEdit, RecordedEditor
from flows.editor_pins import known_pin, pin
from flows.embedding import CachedEmbedder
from flows.image_orders import MADE_FOR, ORDERED_BY, strategies_of_orders
from flows.report import Deferred, StageReport, StageResult
from flows.runner import Stage, run_stage
from flows.single import store_entity
from flows.task_images import stored_picture
from models.embedding import plain_picture
from schemas.base import digest_of
from schemas.chat import ChatImage
from schemas.contrast_records import ImageOrder
from schemas.image_edit import EditFailure, EditRequest, ImageEditorSpec
from schemas.profile import ContrastSettings
from schemas.proposals import Candidate, EditedImage, EditMeasurement, Picture, Strategy
from schemas.records import Rejection
from schemas.tracked_video import StageSettings
from stages.contrast_strategies.editing import unfit_for_editing
from stages.image_edits.judgement import NO_CHANGE, judge_edit
from stages.image_edits.measurement import caption_shift, measure_edit
from stages.image_edits.overlay import difference_overlay

STAGE = "edit_images"
VERSION = "2"

EDITED_AS = "edited_as"
"""The role of the picture, as an editor made it, that a candidate shows."""

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
    """Carries out every order for an edit; each gives a candidate, or the reason why not.

    Where nothing changed an edit is tried once more with another seed. What was edited once is
    measured and judged anew where the settings for that change, and not edited again. What the
    editor could not make for now is left for later, as the report tells; the rest is done.

    Raises:
        ModelError: the editor or the embedder cannot go on at all.
    """
    if not _is_ordered(context, dataset):  # an editor is not looked up for nothing
        return StageReport(_LABEL)
    spec = pin(context, dataset, settings.editor)
    settings = settings.model_copy(update={"editor": spec})
    with_settings = _settings_of(context, dataset, settings, embedder, seed)
    stage = Stage(
        name=STAGE,
        version=VERSION,
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

    pending = Pending(dataset, ImageOrder.kind, ("proposed",), "edit")
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
    orders = find(context.store, dataset, ImageOrder.kind, states=("proposed",))
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
    record = StageSettings(stage=STAGE, version=VERSION, values=values)
    return store_entity(context, record, dataset)


class _Order(NamedTuple):
    """An order, and the strategy that it is for."""

    entity: StoredEntity
    strategy: StoredEntity


class _Edited(NamedTuple):
    """An edit that was made, and what it came to."""

    request: EditRequest
    made: MadeEdit
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
        """What became of each order."""
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
            check = self._settings.edit_check
            measurement = measure_edit(
                _opened(request.image.data),
                _opened(self._read(outcome.record.picture)),
                strategy.difference,
                check,
                regions=outcome.record.regions,
                shift=shifts[place],
            )
            verdict = judge_edit(measurement, strategy.difference, check)
            found[place] = _Edited(request, outcome, measurement, verdict)
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
            told = {**edited.verdict.context, "instruction": strategy.editing_instruction}
            return WorkResult(number, rejection=edited.verdict.model_copy(update={"context": told}))
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
                (MADE_FOR, order.strategy.id),
                (ORDERED_BY, order.entity.id),
                (EDITED_AS, edited.made.id),
                (WRITTEN_WITH, self._with_settings.id),
            ],
            group=strategy.anchor.image_id,
        )
        return WorkResult(number, (entity,))

    def _read(self, picture: Picture) -> bytes:
        return self._context.blobs.read(picture.sha256, picture.media_type)

    def _overlay(self, edited: _Edited) -> Picture:
        anchor = _opened(edited.request.image.data)
        drawn = difference_overlay(
            anchor, _opened(self._read(edited.made.record.picture)), self._settings.edit_check
        )
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
    told = {"instruction": strategy.editing_instruction, "anchor": strategy.anchor.sha256}
    return Rejection(stage=STAGE, reason=failure.reason, detail=failure.detail, context=told)
