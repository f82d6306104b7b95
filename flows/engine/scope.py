"""What a run says to a step: which entities are its inputs, and how its results are marked."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from loupe.db.entities import AgentRef, StoredEntity, WorkResult, parents_of
from loupe.db.store import Store
from loupe.flows.engine.software import software
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption

ResultT = TypeVar("ResultT")


def is_original(entity: StoredEntity) -> bool:
    """Tell whether a caption is one of a source, which nobody wrote here."""
    return entity.kind == Caption.kind and not json.loads(entity.payload).get("author")


@dataclass(frozen=True)
class Scope:
    """The inputs of a step, and what its results are linked to.

    In the pipelines of papers, every entity of a kind is an input, and results have no links but
    those to their inputs.

    Attributes:
        later: the settings of this step and those after it: what they made is no input.
        skips_originals: whether captions of sources are none.
        links: the settings that results are made with.
        later_links: settings that lead to results as well; they are not part of the results' ids.
        agent: who refuses inputs.
        packages: the packages that add the step, its checks or its models, as agents of its work.
    """

    later: frozenset[str] = frozenset()
    skips_originals: bool = False
    links: tuple[tuple[Role, str], ...] = ()
    later_links: tuple[tuple[Role, str], ...] = ()
    agent: AgentRef = field(default_factory=software)
    packages: tuple[AgentRef, ...] = ()

    def inputs(self, store: Store, entities: Sequence[StoredEntity]) -> set[str]:
        """Return the ids of those entities that are inputs; an edit is if its original is."""
        if not self.later and not self.skips_originals:
            return {one.id for one in entities}
        firsts = {one.id: one.id for one in entities}
        edited = parents_of(store, list(firsts), Role.EDITED_FROM)
        while edited:
            above = {id_: parents[0] for id_, parents in edited.items() if parents}
            firsts = {id_: above.get(first, first) for id_, first in firsts.items()}
            edited = parents_of(store, set(above.values()), Role.EDITED_FROM)
        made_with = parents_of(store, set(firsts.values()), Role.WRITTEN_WITH)
        found = set()
        for one in entities:
            is_later = not self.later.isdisjoint(made_with.get(firsts[one.id], ()))
            if not is_later and not (self.skips_originals and is_original(one)):
                found.add(one.id)
        return found

    def configuration(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the configuration of a stage: its values, and the settings that it links to."""
        settings = [id_ for _, id_ in (*self.links, *self.later_links)]
        return {**values, "made_with": settings} if settings else values

    def passing_over(
        self,
        store: Store,
        entities: Sequence[StoredEntity],
        work: Callable[[Sequence[StoredEntity]], Iterable[ResultT]],
    ) -> Iterator[ResultT | WorkResult]:
        """Yield what `work` returns for the inputs among the entities; the others pass by."""
        wanted = self.inputs(store, entities)
        results = iter(work([one for one in entities if one.id in wanted]))
        for one in entities:
            if one.id in wanted:
                yield next(results)
            else:
                yield WorkResult(one.seq, passed_over=True)


EVERYTHING = Scope()
"""The scope of a step whose inputs are all entities of a kind."""
