"""Edits as they are made: each picture is stored as it comes, and none is made twice.

What an edit comes to is measured and judged elsewhere, as often as the settings for that change.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

from db.agents import AgentRef
from db.claims import pauses
from db.entities import NewEntity, children_of, fetch, new_entity
from db.store import Store, retried
from db.work import ActivityRecord, drop_claims, register_plan, store_activity
from flows.context import RunContext
from models.image_editor import ImageEditor, build_image_editor
from schemas.contrast_records import StoredEdit
from schemas.image_edit import (
    EditedPicture,
    EditFailure,
    EditRequest,
    FailedEdit,
    ImageEditorSpec,
)
from schemas.proposals import Picture

STAGE = "edit_pictures"
VERSION = "1"

EDITED_FOR = "edited_for"
"""The role of the strategy that a picture was edited for."""
FAILED_FOR = "failed_for"
"""The role of the strategy that an edit failed for."""

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
    picture that is stored is given. An edit that failed is tried anew; what may be tried again for
    ever is tried in `MOST_ATTEMPTS` runs, so that one picture does not keep the others waiting.
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
        return register_plan(self._context.store, STAGE, VERSION, configuration)

    def edit(self, asked: Mapping[int, AskedEdit]) -> dict[int, MadeEdit | EditFailure]:
        """What came of each edit.

        Raises:
            ModelError: the editor cannot go on; what it made before is stored.
            SystemExit: the run is to stop; so is what it made before.
        """
        found: dict[int, MadeEdit | EditFailure] = {}
        waiting = pauses()
        with self._context.store.claims.renewed():
            while missing := {place: asked[place] for place in asked if place not in found}:
                found |= self._made_or_known(missing)
                if len(found) < len(asked):  # somebody else is making the rest
                    self._context.budget.stop.check()
                    time.sleep(next(waiting))
        return found

    def _made_or_known(self, asked: Mapping[int, AskedEdit]) -> dict[int, MadeEdit | EditFailure]:
        """What came of the edits that nobody else is making."""
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
        below = children_of(store, strategy_ids, EDITED_FOR)
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
        entity = new_entity(record, self._dataset, parents=[(EDITED_FOR, asked.strategy_id)])
        self._commit(entity, started_at)
        return MadeEdit(entity.id, record)

    def _counted(self, asked: AskedEdit, failure: EditFailure, started_at: datetime) -> EditFailure:
        """The failure, final where the edit failed too often; each is stored that may be tried."""
        if not failure.retriable:
            return failure
        self._failed[key := self._key(asked.request)] = failure
        attempt = 1 + self._attempts(asked.strategy_id, key)
        record = FailedEdit(key=key, attempt=attempt, reason=failure.reason, detail=failure.detail)
        parents = [(FAILED_FOR, asked.strategy_id)]
        self._commit(new_entity(record, self._dataset, parents=parents), started_at)
        if attempt < MOST_ATTEMPTS:
            return failure
        detail = f"{failure.detail} (tried in {attempt} runs)"
        self._failed[key] = failure.model_copy(update={"detail": detail, "retriable": False})
        return self._failed[key]

    def _attempts(self, strategy_id: str, key: str) -> int:
        """How often the edit failed before."""
        store = self._context.store
        below = children_of(store, {strategy_id}, FAILED_FOR)
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
    """The claims on those edits that nobody else has claimed."""
    with store.write() as connection:
        taken = {
            place: store.claims.take(connection, f"edit/{key}")
            for place, key in sorted(keys.items(), key=itemgetter(1))  # in one order by all runs
        }
    return {place: claim_id for place, claim_id in taken.items() if claim_id is not None}
