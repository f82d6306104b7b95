"""Check the captions of the sources before models rewrite them: a caption describes one person."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from db.entities import LIVE, NewEntity, StoredEntity, WorkResult, find, new_entity
from flows.engine.context import RunContext
from flows.engine.report import StageReport
from flows.engine.runner import Stage, run_each
from schemas.base import digest_of, sha256_of
from schemas.provenance import Role
from schemas.quality import SHARED_CAPTION, CaptionCheck
from schemas.records import Caption, Image

VERSION = "1"
STAGE = "check_source_captions"
_SHOWN = 3


class FlaggedCaption(NamedTuple):
    """A caption and what speaks against it."""

    entity: StoredEntity
    check: CaptionCheck


def check_source_captions(context: RunContext, dataset: str) -> StageReport:
    """Flag the captions of a dataset that do not describe one person, for the gate `originals`.

    They are texts that captions of several identities have: as a query such a text has several
    right answers, and one counts.
    """
    flagged = list(flagged_captions(context, dataset))
    counts = Counter(reason for one in flagged for reason in one.check.reasons)
    if flagged:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items()))
        context.progress.say(f"captions of sources: {len(flagged):,} flagged ({reasons})")
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={
            "dataset": dataset,
            "flagged": digest_of(*(f"{one.entity.id} {one.check.warnings}" for one in flagged)),
        },
    )

    def result(number: int, one: FlaggedCaption) -> WorkResult:
        return WorkResult(number, entities=(_entity(dataset, one),))

    return run_each(context, stage, [(one.entity.seq, one) for one in flagged], result)


def _entity(dataset: str, one: FlaggedCaption) -> NewEntity:
    parents = [(Role.EXAMINES, one.entity.id)]
    return new_entity(one.check, dataset, parents=parents, group=one.entity.group)


def flagged_captions(context: RunContext, dataset: str) -> Iterator[FlaggedCaption]:
    """Yield the captions of sources against which something speaks, oldest first."""
    persons = {
        image.id: f"{record.source}/{record.identity}"
        for image in find(context.store, dataset, Image.kind, states=LIVE)
        for record in [image.record(Image)]
    }
    sharing: defaultdict[str, set[str]] = defaultdict(set)
    for entity, caption in _of_sources(context, dataset):
        if entity.group in persons:
            sharing[_key(caption)].add(persons[entity.group])
    for entity, caption in _of_sources(context, dataset):
        others = sorted(sharing[_key(caption)] - {persons.get(str(entity.group), "")})
        if others:
            shown = ", ".join(others[:_SHOWN]) + (" …" if len(others) > _SHOWN else "")
            warning = f"it is also the caption of {len(others):,} others: {shown}"
            yield FlaggedCaption(
                entity, CaptionCheck(warnings=(warning,), reasons=(SHARED_CAPTION,))
            )


def _of_sources(context: RunContext, dataset: str) -> Iterator[tuple[StoredEntity, Caption]]:
    """Yield the captions that no one here wrote, whatever was decided on them."""
    for entity in find(context.store, dataset, Caption.kind):
        caption = entity.record(Caption)
        if caption.author is None and entity.state != "withdrawn":
            yield entity, caption


def _key(caption: Caption) -> str:
    return sha256_of(" ".join(caption.text.casefold().split()).encode())
