"""Check that a rewritten description states the same as its source, and nothing else."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from rapidfuzz import fuzz

from loupe.checks.defects import text_defect
from loupe.checks.form import Form, shown
from loupe.checks.language import ENGLISH
from loupe.checks.support import (
    foreign_words,
    is_list_of_words,
    length_share,
    repeated_sentence,
    unsupported_parts,
)
from loupe.db.decisions import decided_by_people
from loupe.db.entities import (
    LIVE,
    NewDecision,
    StoredEntity,
    WorkResult,
    fetch_children,
    fetch_parents,
    find_in_groups,
    new_entity,
)
from loupe.db.quarantine import REPEATS_SIBLING
from loupe.db.store import Store
from loupe.db.work import Pending
from loupe.flows.answers import UnusableAnswerError, language_of, read_text
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.programs import Program
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, run_stage
from loupe.flows.engine.software import software
from loupe.flows.ufine3c.description_differences import find_differences
from loupe.models.builtin.person.description import Description
from loupe.models.builtin.person.lexicon import Tag, load_lexicon
from loupe.models.builtin.person.parser import parse_description
from loupe.schemas.faithfulness import FaithfulnessReport, Finding, RewritePair
from loupe.schemas.profile import FaithfulnessSettings
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Rejection, Rewrite

_WORD = re.compile(r"[^\W\d_]+")
_KEPT_TEXTS = 1024  # a text is compared with several rewrites of its image


def _find_defect(pair: RewritePair, settings: FaithfulnessSettings) -> tuple[str, str] | None:
    """Return (reason, sentence) of the first defect of a rewrite; None if it can be compared."""
    defect = text_defect(pair.rewrite, Form(settings.language), pair.source)
    if defect is not None and not defect.is_doubtful:
        return defect.reason, f"The rewrite {defect.detail}."
    return _copy_defect(
        pair.source, pair.rewrite, pair.siblings, settings.near_identical_similarity
    )


def _copy_defect(
    source: str, rewrite: str, siblings: Iterable[str], limit: float
) -> tuple[str, str] | None:
    others = [("source", "its source", source)]
    others += [("sibling", "another rewrite of the image", sibling) for sibling in siblings]
    for name, said, text in others:
        likeness = fuzz.ratio(_bare(text), _bare(rewrite)) / 100
        if likeness >= limit:
            message = f"The rewrite is {likeness:.0%} the same as {said}"
            return f"near_identical_to_{name}", f"{message}; the limit is {limit:.0%}."
    return None


@lru_cache(maxsize=_KEPT_TEXTS)
def _bare(text: str) -> str:
    """Return the words alone: case, punctuation and spacing do not matter."""
    return " ".join(_WORD.findall(text.lower()))


VERSION = "10"
STAGE = "check_faithfulness"
_ENOUGH_FACTS = 3
_BEGINNING = 5  # letters
_LONG_CLAUSE = 3  # content words


def check_faithfulness(
    pair: RewritePair, settings: FaithfulnessSettings
) -> FaithfulnessReport | Rejection:
    """Return how a rewrite differs from its source, or why it cannot be used."""
    defect = _find_defect(pair, settings)
    if defect is not None:
        return _rejected(*defect, pair)
    is_read = settings.language == ENGLISH  # people are read in English; others by support alone
    source, rewrite = (
        parse_description(text if is_read else "") for text in (pair.source, pair.rewrite)
    )
    count = len(source.facts())
    says_nothing = count >= _ENOUGH_FACTS and not rewrite.states_anything()
    if says_nothing and _share_few_words(pair):
        detail = f"The rewrite states none of the {count} facts of its source."
        return _rejected("unrelated", detail, pair)
    differences = find_differences(source, rewrite)
    findings = (*differences, *_support_findings(pair, source, rewrite, differences, settings))
    is_suspect = says_nothing or any(
        finding.change != "lost" and (settings.strict or not finding.minor) for finding in findings
    )
    return FaithfulnessReport(verdict="suspect" if is_suspect else "faithful", findings=findings)


def _support_findings(
    pair: RewritePair,
    source: Description,
    rewrite: Description,
    differences: Sequence[Finding],
    settings: FaithfulnessSettings,
) -> Iterator[Finding]:
    """Find what is doubtful, the parts without support, and whether a rewrite is much shorter.

    A part may be in other words if the reading of people knows them all, or finds a fact in it that
    the source states as well. Where that reads the source, short clauses are its matter and minor.
    """
    defect = text_defect(pair.rewrite, Form(settings.language), pair.source)
    if defect is not None:
        yield Finding(change="unsupported", message=f"The rewrite {defect.detail}.")
    refused = {
        one.rewrite.span
        for one in differences
        if one.rewrite is not None and one.change != "lost" and not one.minor
    }
    stated = [fact.span[0] for fact in rewrite.facts() if fact.span not in refused]
    unknown = [one.span[0] for one in rewrite.mentions if one.has(Tag.OTHER)]
    for part in unsupported_parts(pair.source, pair.rewrite, settings.language):
        span = range(part.start, part.end)
        has_fact = any(at in span for at in stated)
        is_known = source.states_anything() and not any(at in span for at in unknown)
        if has_fact or (is_known and not part.is_remark):
            continue
        is_short = not (part.is_sentence or part.is_remark) and part.words < _LONG_CLAUSE
        few = f"{part.known} of its {part.words} words" if part.known else "no word of it"
        yield Finding(
            change="unsupported",
            message=f"The rewrite says {part.text!r}; the source has {few}.",
            minor=is_short and source.states_anything(),
        )
    yield from _form_findings(pair, settings.language)
    share = length_share(pair.source, pair.rewrite, settings.language)
    if share < settings.min_length_share:
        message = (
            f"The rewrite has {share:.0%} as many content words as its source; "
            f"wanted at least {settings.min_length_share:.0%}."
        )
        yield Finding(change="shortened", message=message)


def _form_findings(pair: RewritePair, language: str) -> Iterator[Finding]:
    """Find what is no prose like its source: a list of words, a sentence that repeats another."""
    if is_list_of_words(pair.rewrite, language) and not is_list_of_words(pair.source, language):
        message = "The rewrite strings words together; the source states them in sentences."
        yield Finding(change="unsupported", message=message)
    repeated = repeated_sentence(pair.rewrite, language)
    if repeated is not None and repeated_sentence(pair.source, language) is None:
        message = f"The rewrite says again what it says elsewhere: {shown(repeated)}."
        yield Finding(change="unsupported", message=message)
    if language == ENGLISH and (foreign := foreign_words(pair.source, pair.rewrite)):
        words = ", ".join(foreign)
        message = f"The rewrite has words of another language: {words}."
        yield Finding(change="unsupported", message=message)


def _share_few_words(pair: RewritePair) -> bool:
    """Whether fewer than two longer words of one text begin like words of the other."""
    ours, theirs = (
        {word[:_BEGINNING].lower() for word in _WORD.findall(text) if len(word) >= _BEGINNING}
        for text in (pair.source, pair.rewrite)
    )
    return len(ours & theirs) < 2


def check_written(
    pair: RewritePair, settings: FaithfulnessSettings, max_characters: int
) -> FaithfulnessReport | Rejection:
    """Return how a build would judge a rewrite, as a model wrote it, or why it is not stored."""
    form = Form(language_of(pair.source))
    try:
        line = read_text(pair.rewrite, "The rewrite", max_characters, form, pair.source)
    except UnusableAnswerError as unusable:
        return _rejected(unusable.reason, unusable.detail, pair)
    return check_faithfulness(pair.model_copy(update={"rewrite": line}), settings)


def _rejected(reason: str, detail: str, pair: RewritePair) -> Rejection:
    return Rejection.of(STAGE, reason, detail, source=pair.source, rewrite=pair.rewrite)


def check_rewrites(
    context: RunContext, dataset: str, settings: FaithfulnessSettings, authors: Sequence[str]
) -> StageReport:
    """Give every proposed rewrite of `dataset` a report, or reject it if it is not a rewrite.

    Of near-identical rewrites of one image the first is kept, in the order of `authors` (the models
    of the profile), regardless of which one was returned first.
    """
    stage = Stage(
        STAGE,
        VERSION,
        dataset,
        {"settings": settings.model_dump(mode="json"), "authors": list(authors)},
        label="check faithfulness",
    )
    pending = Pending(dataset, Rewrite.kind, ("proposed",))
    return run_stage(context, stage, pending, RewriteChecks(dataset, settings, tuple(authors)))


class _CheckedSibling(NamedTuple):
    """A rewrite of the same image that was checked before one of an earlier author arrived."""

    id: str
    text: str
    is_decided: bool  # by a person


class _Rewritten(NamedTuple):
    """A rewrite, by its id, number and group, with the texts it is compared with."""

    id: str
    seq: int
    group: str | None
    pair: RewritePair
    checked: tuple[_CheckedSibling, ...] = ()


@dataclass(frozen=True)
class RewriteChecks(Program[_Rewritten]):
    """The check of the rewrites of a dataset; see `check_rewrites`."""

    stage = STAGE
    seconds = 0.003

    dataset: str
    settings: FaithfulnessSettings
    authors: tuple[str, ...]

    def open(self) -> None:
        """Load the lexicon, which several threads would otherwise load at once."""
        load_lexicon()

    def prepare(self, inputs: Sequence[StoredEntity], reader: Store) -> list[_Rewritten]:
        """Load the sources and siblings of these rewrites."""
        sources = fetch_parents(reader, [rewrite.id for rewrite in inputs], Role.REWRITE_OF)
        groups = sorted({str(rewrite.group) for rewrite in inputs})
        rewrites = find_in_groups(reader, self.dataset, Rewrite.kind, groups)
        found = self.paired(inputs, [sources[rewrite.id][0] for rewrite in inputs], rewrites)
        return self._with_checked(found, inputs, rewrites, reader)

    def _with_checked(
        self,
        found: Sequence[_Rewritten],
        inputs: Sequence[StoredEntity],
        rewrites: Sequence[StoredEntity],
        reader: Store,
    ) -> list[_Rewritten]:
        """Add the siblings that an earlier run checked without these, which come before them.

        A rewrite that arrives late, such as after a retry, must not make its image have the same
        text twice, nor may the one that came first stay only because of that.
        """
        waiting = {rewrite.id for rewrite in inputs}
        others = [one for one in rewrites if one.id not in waiting and one.state in LIVE]
        with reader.read() as connection:
            checked = fetch_children(connection, [one.id for one in others], Role.CHECKS)
            decided = decided_by_people(connection, checked)
        siblings: dict[str | None, list[_CheckedSibling]] = defaultdict(list)
        for one in others:
            record = one.record(Rewrite)
            if one.id in checked and record.author in self.authors:
                sibling = _CheckedSibling(one.id, record.text, one.id in decided)
                siblings[one.group].append(sibling)
        return [
            item._replace(
                checked=tuple(
                    one for one in siblings[item.group] if one.text not in item.pair.siblings
                )
            )
            for item in found
        ]

    def paired(
        self,
        inputs: Sequence[StoredEntity],
        sources: Sequence[StoredEntity],
        rewrites: Iterable[StoredEntity],
    ) -> list[_Rewritten]:
        """Return each input with its source and the earlier ones of the `rewrites` of its image."""
        rank = {author: place for place, author in enumerate(self.authors)}
        texts: dict[str | None, list[tuple[tuple[int, str], str]]] = defaultdict(list)  # by image
        records: dict[str, Rewrite] = {}
        for one in rewrites:
            record = records[one.id] = one.record(Rewrite)
            if record.author in rank:
                texts[one.group].append(((rank[record.author], one.id), record.text))
        found = []
        for rewrite, caption in zip(inputs, sources, strict=True):
            record = records.get(rewrite.id) or rewrite.record(Rewrite)
            own = (rank.get(record.author, len(rank)), rewrite.id)
            earlier = tuple(text for order, text in sorted(texts[rewrite.group]) if order < own)
            source = caption.record(Caption).text
            pair = RewritePair(source=source, rewrite=record.text, siblings=earlier)
            found.append(_Rewritten(rewrite.id, rewrite.seq, rewrite.group, pair))
        return found

    def work(self, items: Sequence[_Rewritten]) -> list[WorkResult]:
        """Return a report on each rewrite, or a rejection."""
        return list(map(self._result, items))

    def _result(self, item: _Rewritten) -> WorkResult:
        alike = [one for one in item.checked if self._is_copy(item.pair, one.text)]
        decided = tuple(one.text for one in alike if one.is_decided)
        pair = item.pair.model_copy(update={"siblings": (*item.pair.siblings, *decided)})
        report = check_faithfulness(pair, self.settings)
        if isinstance(report, Rejection):
            return self.refused(item, report)
        parents = [(Role.CHECKS, item.id)]
        entity = new_entity(report, self.dataset, parents=parents, group=item.group)
        dropped = tuple(
            NewDecision(one.id, "reject", software(), reason=REPEATS_SIBLING) for one in alike
        )
        return WorkResult(item.seq, entities=(entity,), decisions=dropped)

    def _is_copy(self, pair: RewritePair, text: str) -> bool:
        limit = self.settings.near_identical_similarity
        return _copy_defect(text, pair.rewrite, (), limit) is not None

    def refused(self, input_: StoredEntity | _Rewritten, rejection: Rejection) -> WorkResult:
        """Reject the rewrite without review."""
        decision = NewDecision(input_.id, "reject", software(), reason=rejection.reason)
        return WorkResult(input_.seq, decisions=(decision,), rejection=rejection)
