"""Changes to a store after a release was built: decisions, edits, imports and runs."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import cast

from sqlalchemy import insert, select

from loupe.db.entities import (
    ActivityRecord,
    AgentRef,
    NewDecision,
    NewEntity,
    Verdict,
    WorkResult,
    new_entity,
    register_agents,
)
from loupe.db.tables import Entity, ModelCall, Withdrawal, WithdrawalNotice, WithdrawnEntity
from loupe.db.work import commit_chunk, register_plan
from loupe.release.format.manifest import read_manifest
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Rewrite
from loupe.schemas.withdrawal import Ground
from loupe.schemas.withdrawal import WithdrawalNotice as Notice
from tests.release.notice_samples import withdrawn_rows
from tests.release.worlds import LLAMA, Composer, World, model_call, picture, source

REVIEWER = AgentRef("person", "reviewer-9")
_VERDICTS: tuple[Verdict, ...] = ("accept", "reject", "edit", "reopen")
_DECIDED = ("caption", "rewrite", "tracklet")


class Later:
    """Simulate further work on a dataset, reproducibly for a seed."""

    def __init__(self, world: World, dataset: str, seed: int = 0) -> None:
        self.world = world
        self.dataset = dataset
        self._chance = random.Random(seed)
        self._numbers = count(1_000_000 * (seed + 1))

    def work_on(self, steps: int = 12) -> None:
        """Apply random changes of all kinds."""
        changes = [self.decide, self.edit, self.add_caption, self.run_again, self.decide_image]
        for change in self._chance.choices(changes, k=steps):
            change()

    def commit(
        self, entities: Sequence[NewEntity] = (), decisions: Sequence[NewDecision] = ()
    ) -> None:
        """Store entities and decisions of one activity."""
        number = next(self._numbers)
        plan = register_plan(self.world.store, "later", str(number), {})
        activity = ActivityRecord(plan, self.dataset, "newer", "later run", datetime.now(UTC))
        result = WorkResult(number, tuple(entities), tuple(decisions))
        commit_chunk(self.world.store, activity, [result])

    def ids(self, *kinds: str) -> list[str]:
        query = select(Entity.id).where(Entity.dataset == self.dataset, Entity.kind.in_(kinds))
        with self.world.store.read() as connection:
            return sorted(connection.execute(query).scalars())

    def decide(self) -> None:
        """Store new decisions on some texts."""
        known = self.ids(*_DECIDED)
        chosen = self._chance.sample(known, min(3, len(known)))
        decided = [(one, self._chance.choice(_VERDICTS)) for one in chosen]
        self.commit(decisions=[NewDecision(one, what, REVIEWER) for one, what in decided])

    def decide_image(self) -> None:
        """Reject, accept or reopen an image."""
        verdict = self._chance.choice(("accept", "reject", "reopen"))
        self.verdict(self._chance.choice(self.ids("image")), verdict)

    def verdict(self, entity: str, verdict: str) -> None:
        """Store one decision."""
        self.commit(decisions=[NewDecision(entity, cast("Verdict", verdict), REVIEWER)])

    def edit(self) -> None:
        """Let a person replace a text by an edited one."""
        known = self.ids("rewrite") or self.ids("caption")
        shown, number = self._chance.choice(known), next(self._numbers)
        record = Rewrite(source="x", text=f"Put otherwise, {number}.", author=REVIEWER.name)
        edited = new_entity(record, self.dataset, parents=[(Role.EDITED_FROM, shown)])
        decisions = [
            NewDecision(shown, "edit", REVIEWER, successor_id=edited.id),
            NewDecision(edited.id, "accept", REVIEWER),
        ]
        self.commit([edited], decisions)

    def add_caption(self) -> None:
        """Add a caption that a model wrote in a separate call."""
        image, number = self._chance.choice(self.ids("image")), next(self._numbers)
        key = f"{number:032x}"
        self._call(key)
        record = Caption(source="x", text=f"Seen later, {number}.", position=7, author=str(LLAMA))
        caption = new_entity(
            record, self.dataset, parents=[(Role.DESCRIBES, image)], group=image, model_call=key
        )
        self.commit([caption], [NewDecision(caption.id, "accept", REVIEWER)])

    def run_again(self) -> None:
        """Import one more image of a new source, as a newer version of the import does."""
        number = next(self._numbers)
        composer = Composer(self.dataset)
        of = source(f"Later-{number}", None)
        image = composer.image(of, str(number), f"{number}.jpg", data=picture(number % 5000))
        composer.caption(image, of, f"A text of source {number}.")
        for data in composer.pictures:
            self.world.blobs.put(data, "image/jpeg")
        for entity in composer.entities.values():
            self.commit([entity])

    def withdraw(
        self, entities: Sequence[str], ground: Ground = "privacy", details: Sequence[Path] = ()
    ) -> int:
        """Withdraw entities with notices for these releases; return the id of the withdrawal."""
        row = {
            "key": f"{next(self._numbers):032x}",
            "target": {"sort": "entity", "name": entities[0]},
            "ground": ground,
            "reason": "asked",
            "erases": False,
            "agent_id": REVIEWER.id,
            "state": "finished",
            "confirmed_at": datetime.now(UTC),
        }
        with self.world.store.write() as connection:
            register_agents(connection, [REVIEWER])
            made = connection.execute(insert(Withdrawal).returning(Withdrawal.id), row).scalar_one()
            taken = [{"withdrawal_id": made, "entity_id": entity} for entity in entities]
            connection.execute(insert(WithdrawnEntity), taken)
            for folder in details:
                connection.execute(
                    insert(WithdrawalNotice), _notice(folder, made, entities, ground)
                )
        self.commit(decisions=[NewDecision(one, "withdraw", REVIEWER) for one in entities])
        return made

    def _call(self, key: str) -> None:
        row = {**model_call(key, LLAMA), "called_at": datetime.now(UTC), "seconds": 1.0}
        with self.world.store.write() as connection:
            register_agents(connection, [AgentRef.of_model(LLAMA)])
            connection.execute(insert(ModelCall), row)


def _notice(
    folder: Path, withdrawal: int, entities: Sequence[str], ground: Ground
) -> dict[str, object]:
    manifest = read_manifest(folder)
    notice = Notice(
        withdrawal=f"{withdrawal:032x}",
        ground=ground,
        release=manifest.id,
        dataset=manifest.dataset,
        version=manifest.version,
        rows=withdrawn_rows(folder, frozenset(entities)),
        superseded_by=None,
    )
    details = notice.model_dump(mode="json")
    return {"withdrawal_id": withdrawal, "release_id": manifest.id, "notice": details}


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Contents of all files of a release, by relative path."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
