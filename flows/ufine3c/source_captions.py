"""Check the captions of the sources before models rewrite them."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from loupe.annotate.queues import flag_reasons
from loupe.checks.source_captions import source_defect
from loupe.checks.text import Defect
from loupe.db.entities import (
    LIVE,
    NewEntity,
    StoredEntity,
    WorkResult,
    find,
    new_entity,
)
from loupe.db.store import Store
from loupe.db.work import Pending
from loupe.flows.engine.asked import Asked, ask
from loupe.flows.engine.context import RunContext, sync_active
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, run_each, run_stage
from loupe.flows.engine.scope import Scope
from loupe.schemas.base import digest_of, sha256_of
from loupe.schemas.provenance import Role
from loupe.schemas.quality import SHARED_CAPTION, CaptionCheck
from loupe.schemas.records import Caption, Image

VERSION = "2"
STAGE = "check_source_captions"
FORM_STAGE = "check_caption_form"
_SHOWN = 3


def ask_about_captions(context: RunContext, dataset: str, language: str) -> Asked:
    """Store in which language the captions are read."""
    values = {"step": FORM_STAGE, "language": language}
    return ask(context, dataset, FORM_STAGE, VERSION, values)


def check_source_captions(
    context: RunContext, dataset: str, language: str, asked: Asked
) -> tuple[StageReport, ...]:
    """Flag the captions of a dataset that do not describe one image, for the gate `originals`.

    They are texts that captions of several identities have (as a query such a text has several
    right answers, and one counts), and texts that are no description in `language`.
    """
    reports = (_check_forms(asked, language), _check_shared(context, dataset))
    counts = Counter(chain.from_iterable(flag_reasons(context.store, dataset).values()))
    if counts:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items()))
        context.progress.say(f"captions of sources that a check flagged: {reasons}")
    return reports


def _check_forms(asked: Asked, language: str) -> StageReport:
    """Flag captions that are no description; what was flagged in another language is not."""
    context, dataset = asked.context, asked.dataset
    scope = Scope(links=asked.links)
    stage = Stage(
        name=FORM_STAGE,
        version=VERSION,
        dataset=dataset,
        configuration=scope.configuration({"dataset": dataset, "language": language}),
        label="check captions of sources",
    )

    def checks(entity: StoredEntity) -> tuple[NewEntity, ...]:
        caption = entity.record(Caption)
        defect = source_defect(caption.text, language) if caption.author is None else None
        return () if defect is None else (_check(dataset, entity, defect, scope.links),)

    def work(captions: Sequence[StoredEntity]) -> list[WorkResult]:
        return [WorkResult(one.seq, entities=checks(one)) for one in captions]

    report = run_stage(context, stage, Pending(dataset, Caption.kind, ("proposed",)), work)
    if asked.others:
        flags = list(find(context.store, dataset, CaptionCheck.kind))
        made = asked.led_to(flags)
        sync_active(context, dataset, CaptionCheck.kind, lambda one: _counts(one, made))
    return report


def _counts(check: StoredEntity, made: Collection[str]) -> bool | None:
    """Tell whether a check of a caption's form counts; None for other checks."""
    reasons = check.record(CaptionCheck).reasons
    return check.id in made if reasons and SHARED_CAPTION not in reasons else None


def _check_shared(context: RunContext, dataset: str) -> StageReport:
    """Flag captions whose text captions of several identities have."""
    shared = list(_shared_captions(context.store, dataset))
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={
            "dataset": dataset,
            "flagged": digest_of(*(f"{entity.id} {defect.detail}" for entity, defect in shared)),
        },
        label="compare captions of sources",
    )
    items = {entity.seq: (entity, defect) for entity, defect in shared}

    def result(number: int, one: tuple[StoredEntity, Defect]) -> WorkResult:
        return WorkResult(number, entities=(_check(dataset, *one),))

    return run_each(context, stage, list(items.items()), result)


def _check(
    dataset: str, entity: StoredEntity, defect: Defect, links: Sequence[tuple[Role, str]] = ()
) -> NewEntity:
    record = CaptionCheck(warnings=(f"it {defect.detail}",), reasons=(defect.reason,))
    parents = [(Role.EXAMINES, entity.id), *links]
    return new_entity(record, dataset, parents=parents, group=entity.group)


def _shared_captions(store: Store, dataset: str) -> Iterator[tuple[StoredEntity, Defect]]:
    """Yield captions of sources whose text other identities have as well, oldest first."""
    persons: dict[str, str] = {}
    for image in find(store, dataset, Image.kind, states=LIVE):
        record = image.record(Image)
        persons[image.id] = f"{record.source}/{record.identity}"
    sharing: defaultdict[str, set[str]] = defaultdict(set)
    for entity, caption in _of_sources(store, dataset):
        if person := persons.get(str(entity.group)):
            sharing[_key(caption)].add(person)
    for entity, caption in _of_sources(store, dataset):
        others = sorted(sharing[_key(caption)] - {persons.get(str(entity.group), "")})
        if others:
            shown = ", ".join(others[:_SHOWN]) + (" …" if len(others) > _SHOWN else "")
            detail = f"is also the caption of {len(others):,} others: {shown}"
            yield entity, Defect(SHARED_CAPTION, detail)


def _of_sources(store: Store, dataset: str) -> Iterator[tuple[StoredEntity, Caption]]:
    """Yield the captions that no one here wrote, whatever was decided on them."""
    for entity in find(store, dataset, Caption.kind):
        caption = entity.record(Caption)
        if caption.author is None and entity.state != "withdrawn":
            yield entity, caption


def _key(caption: Caption) -> str:
    return sha256_of(" ".join(caption.text.casefold().split()).encode())
