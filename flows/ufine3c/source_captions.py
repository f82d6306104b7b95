"""Check the captions of the sources before models rewrite them: a caption describes one person."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

from loupe.annotate.queues import flag_reasons
from loupe.checks.defects import outside_quotes, refusal_in
from loupe.checks.form import Defect, Form, form_defect, shown, words_of
from loupe.checks.language import ENGLISH, is_written_without_spaces
from loupe.checks.support import content_words
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
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, run_each, run_stage
from loupe.schemas.base import digest_of, sha256_of
from loupe.schemas.provenance import Role
from loupe.schemas.quality import SHARED_CAPTION, CaptionCheck
from loupe.schemas.records import Caption, Image

VERSION = "2"
STAGE = "check_source_captions"
FORM_STAGE = "check_caption_form"
_SHOWN = 3


def check_source_captions(
    context: RunContext, dataset: str, language: str
) -> tuple[StageReport, ...]:
    """Flag the captions of a dataset that do not describe one person, for the gate `originals`.

    They are texts that captions of several identities have (as a query such a text has several
    right answers, and one counts), and texts that are no description in `language`.
    """
    reports = (_check_forms(context, dataset, language), _check_shared(context, dataset))
    counts = Counter(chain.from_iterable(flag_reasons(context.store, dataset).values()))
    if counts:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items()))
        context.progress.say(f"captions of sources that a check flagged: {reasons}")
    return reports


def _check_forms(context: RunContext, dataset: str, language: str) -> StageReport:
    """Flag captions that are no description."""
    stage = Stage(
        name=FORM_STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={"dataset": dataset, "language": language},
        label="check captions of sources",
    )

    def work(captions: Sequence[StoredEntity]) -> list[WorkResult]:
        return [
            WorkResult(one.seq, entities=_form_checks(dataset, one, language)) for one in captions
        ]

    return run_stage(context, stage, Pending(dataset, Caption.kind, ("proposed",)), work)


def _form_checks(dataset: str, entity: StoredEntity, language: str) -> tuple[NewEntity, ...]:
    caption = entity.record(Caption)
    defect = source_defect(caption.text, language) if caption.author is None else None
    return () if defect is None else (_check(dataset, entity, defect),)


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


def _check(dataset: str, entity: StoredEntity, defect: Defect) -> NewEntity:
    record = CaptionCheck(warnings=(f"it {defect.detail}",), reasons=(defect.reason,))
    parents = [(Role.EXAMINES, entity.id)]
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


# What people write is less tidy than what a model must write: missing spaces and stops, capitals.

_FOREIGN_TO_DESCRIPTIONS = frozenset(
    (
        "addresses_reader",
        "control_characters",
        "gibberish",
        "markup",
        "mojibake",
        "no_words",
        "question",
        "repetition",
        "truncated_answer",
        "wrong_language",
    )
)
_FEWEST_WORDS = 2
_FEWEST_LETTERS = 4
_WIDE = str.maketrans("，。；：！？（）、", ",.;:!?(),")
_MENDED = (
    (re.compile(r"[\"“”„«»]"), ""),
    (re.compile(r"\s+(?=[,.;:!?])"), ""),
    (re.compile(r"[,.;:!?…]*([,.;:!?…])"), r"\1"),
    (re.compile(r"…"), "."),
    (re.compile(r"(?<=[^\W\d_])([,;:!?])(?=[^\W\d_])"), r"\1 "),
    (re.compile(r"(?<=[^\W\d_])\.(?=[A-Z])|(?<=[^\W\d_]{3})\.(?=[a-z]+ )"), ". "),
    (re.compile(r"(?<=\w)\((?=\w+ \w)"), " ("),
    (re.compile(r"(?<=\w)\s*[-–—]{2,}\s*(?=\w)"), " - "),
    (re.compile(r"(?<=\w)-\s+(?=\w)"), "-"),
    (re.compile(r"\b(?:i|you) (?:can )?see\b", re.IGNORECASE), "there is"),
    (re.compile(r"[\s,;:(–—-]+$"), ""),
)
"""Slips of people, with what they stand for."""


_OPEN_TASK = re.compile(r"\b(?:TODO|FIXME|TBD|XXX)\b")
_OF_CAPTIONS = content_words(
    "caption description text title label name photo photograph picture image figure file number "
    "example sample test placeholder template dummy content information data detail "
    "add insert enter write written put fill goes come follow load find found open show display "
    "provide give given available missing unavailable unknown untitled none null empty blank new "
    "later soon todo tbd please sorry error occurred n na img"
)
"""How people speak of captions and images themselves, whatever the image shows."""


def source_defect(text: str, language: str = ENGLISH) -> Defect | None:
    """Return why a caption of a source is no description: a program, a placeholder, a language."""
    if (refusal := refusal_in(text)) is not None:
        return Defect("refusal", f"is a refusal: {shown(refusal)}")
    if (task := _OPEN_TASK.search(outside_quotes(text))) is not None:
        return Defect("placeholder", f"holds an open task: {shown(text[task.start() :])}")
    plain = text.translate(_WIDE)
    for slip, meant in _MENDED:
        plain = slip.sub(meant, plain)
    if plain.isupper():
        plain = plain.lower()
    if plain.count("(") != plain.count(")"):
        plain = plain.replace("(", " ").replace(")", " ")
    defect = form_defect(plain, Form(language, sentences=False))
    if defect and defect.reason in _FOREIGN_TO_DESCRIPTIONS:
        return defect
    words = words_of(text)
    is_one_word = len(words) < _FEWEST_WORDS and not is_written_without_spaces(language)
    if is_one_word or len("".join(words)) < _FEWEST_LETTERS:
        return Defect("too_short", f"is no description: {text!r:.60}")
    if all(word.isdigit() for word in content_words(plain, language) - _OF_CAPTIONS):
        return Defect("placeholder", f"says nothing about an image: {shown(text)}")
    return None
