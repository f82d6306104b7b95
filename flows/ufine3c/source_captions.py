"""Check the captions of the sources before models rewrite them: a caption describes one person."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from checks.form import CAPTION, Defect, form_defect, words_of
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

    They are texts that captions of several identities have (as a query such a text has several
    right answers, and one counts), and texts that are no description in English.
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
        found = list(_defects(caption.text, others))
        if found:
            reasons = tuple(one.reason for one in found)
            warnings = tuple(one.detail for one in found)
            yield FlaggedCaption(entity, CaptionCheck(warnings=warnings, reasons=reasons))


def _defects(text: str, others: list[str]) -> Iterator[Defect]:
    if others:
        shown = ", ".join(others[:_SHOWN]) + (" …" if len(others) > _SHOWN else "")
        yield Defect(SHARED_CAPTION, f"it is also the caption of {len(others):,} others: {shown}")
    if (defect := source_defect(text)) is not None:
        yield Defect(defect.reason, f"it {defect.detail}")


# What people write is less tidy than what a model must write: missing spaces and stops, capitals.

_FOREIGN_TO_DESCRIPTIONS = frozenset(
    ("control_characters", "gibberish", "markup", "mojibake", "no_words", "wrong_language")
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
    (re.compile(r"[\s,;:(–—-]+$"), ""),
)
"""Slips of people, with what they stand for."""


def source_defect(text: str) -> Defect | None:
    """Return why a caption of a source is no description: a program, a placeholder, a language."""
    plain = text.translate(_WIDE)
    for slip, meant in _MENDED:
        plain = slip.sub(meant, plain)
    if plain.isupper():
        plain = plain.lower()
    if plain.count("(") != plain.count(")"):
        plain = plain.replace("(", " ").replace(")", " ")
    defect = form_defect(plain, CAPTION)
    if defect and defect.reason in _FOREIGN_TO_DESCRIPTIONS:
        return defect
    words = words_of(text)
    if len(words) < _FEWEST_WORDS or len("".join(words)) < _FEWEST_LETTERS:
        return Defect("too_short", f"is no description: {text!r:.60}")
    return None


def _of_sources(context: RunContext, dataset: str) -> Iterator[tuple[StoredEntity, Caption]]:
    """Yield the captions that no one here wrote, whatever was decided on them."""
    for entity in find(context.store, dataset, Caption.kind):
        caption = entity.record(Caption)
        if caption.author is None and entity.state != "withdrawn":
            yield entity, caption


def _key(caption: Caption) -> str:
    return sha256_of(" ".join(caption.text.casefold().split()).encode())
