"""Check that a rewritten description states the same as its source, and nothing else."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

from rapidfuzz import fuzz

from checks.language import SURE, foreign_script, guessed_language
from db.decisions import decided_by_people
from db.entities import (
    LIVE,
    NewDecision,
    StoredEntity,
    WorkResult,
    fetch_children,
    fetch_parents,
    find_in_groups,
    new_entity,
)
from db.store import Store
from db.work import Pending
from flows.answers import control_character, loop_in, refusal_in
from flows.engine.context import RunContext
from flows.engine.programs import Program
from flows.engine.report import StageReport
from flows.engine.runner import Stage, run_stage
from flows.engine.software import software
from flows.ufine3c.description_differences import find_differences
from models.builtin.person.lexicon import KEPT_WORDS, load_lexicon
from models.builtin.person.parser import parse_description
from schemas.faithfulness import FaithfulnessReport, RewritePair
from schemas.profile import FaithfulnessSettings
from schemas.provenance import Role
from schemas.records import Caption, Rejection, Rewrite

# Rewrites that are unusable regardless of what they state: empty, refused, gibberish, a copy.

_ECHO = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instructions?|prompts?|rules)\b"
    r"|\bsystem prompt\b|<\|im_(?:start|end)\|>|\[/?INST\]|<</?SYS>>"
    r"|\b(?:reorgani[sz]e|rewrite|rephrase|paraphrase) (?:the|this) (?:description|text)\b"
    r"|\bthe description in (?:your|my|other) (?:own )?words",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]+")
_ENDINGS = ("", "s", "es", "d", "ed", "ing", "ly")
_DETERMINERS = frozenset(("a", "an", "the", "his", "her", "their", "its", "this", "that", "my"))
_CLOSED = _DETERMINERS | frozenset(
    ("of", "with", "and", "or", "is", "are", "was", "were", "at", "for", "from", "to", "he", "she")
)
_KEPT_TEXTS = 1024  # a text is compared with several rewrites of its image
_KNOWN_SHARE = 0.5
_DEGENERATE_SHARE = 0.34
_LONG_WORD = 14  # letters a word; no language has a higher mean


def _find_defect(
    source: str, rewrite: str, siblings: Sequence[str], settings: FaithfulnessSettings
) -> tuple[str, str] | None:
    """Return (reason, sentence) of the first defect of `rewrite`; None if it can be compared."""
    if not rewrite.strip():
        return "empty", "The rewrite is empty."
    if (control := control_character(rewrite)) is not None:
        return "control_characters", f"The rewrite holds the control character {control!r}."
    if (refusal := refusal_in(rewrite)) is not None:
        return "refusal", f"The model refused: {refusal!r}."
    if (match := _ECHO.search(rewrite)) is not None:
        return "instruction_echo", f"The rewrite repeats an instruction: {match.group()!r}."
    if (loop := loop_in(rewrite)) is not None and loop_in(source) is None:
        return "repetition", f"The rewrite says the same again and again: {loop!r}."
    return _language_defect(source, rewrite, settings.language) or _copy_defect(
        source, rewrite, siblings, settings.near_identical_similarity
    )


def _language_defect(source: str, rewrite: str, language: str) -> tuple[str, str] | None:
    if language != "en":
        return None  # the word lists are English; other languages are left to the reviewers
    words = _words(rewrite)
    known = _known_share(words, source)
    if known >= _KNOWN_SHARE:
        if _degenerate(words):
            return "gibberish", "The rewrite repeats words or strings them without grammar."
        return None
    if (foreign := foreign_script(rewrite)) is not None:
        script = foreign.language
        return "wrong_language", f"The rewrite is in {script} script, wanted {language!r}."
    guess, probability = guessed_language(rewrite)
    share = f"{known:.0%} of its words are known"
    are_words = len(words) >= 3 and sum(map(len, words)) / len(words) < _LONG_WORD
    if guess != language and probability >= SURE and are_words:
        return "wrong_language", f"The rewrite is in {guess!r}, wanted {language!r} ({share})."
    return "gibberish", f"The rewrite is not readable English ({share})."


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _known_share(words: list[str], source: str) -> float:
    if not words:
        return 0.0
    unknown = [word for word in words if not _is_common(word)]
    if unknown:
        own = set(_words(source))
        unknown = [word for word in unknown if not _has_stem(word, own)]
    return (len(words) - len(unknown)) / len(words)


@lru_cache(maxsize=KEPT_WORDS)
def _is_common(word: str) -> bool:
    return _has_stem(word, _vocabulary())


def _has_stem(word: str, vocabulary: AbstractSet[str]) -> bool:
    """Whether `vocabulary` has a word without one of its endings, or with a final «e»."""
    stems = (word.removesuffix(ending) for ending in _ENDINGS)
    return word in vocabulary or any(s in vocabulary or f"{s}e" in vocabulary for s in stems)


@lru_cache(maxsize=1)
def _vocabulary() -> frozenset[str]:
    """Return the most common English words and those of the lexicon, in lower case."""
    common = files("checks").joinpath("common_english.txt").read_text("utf-8").split()
    return frozenset(common).union(*load_lexicon().meanings)


def _degenerate(words: list[str]) -> bool:
    """Whether words are repeated or in impossible places («the of», «a the»)."""
    pairs = list(pairwise(words))
    if len(pairs) < 3:
        return len(words) < 2
    wrong = [
        one for one, other in pairs if one == other or (one in _DETERMINERS and other in _CLOSED)
    ]
    varied = len(set(words)) / len(words)
    return len(wrong) / len(pairs) > _DEGENERATE_SHARE / 2 or (len(words) > 30 and varied < 0.2)


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


VERSION = "8"
STAGE = "check_faithfulness"
_ENOUGH_FACTS = 3
_BEGINNING = 5  # letters


def check_faithfulness(
    pair: RewritePair, settings: FaithfulnessSettings
) -> FaithfulnessReport | Rejection:
    """Return how a rewrite differs from its source, or why it cannot be used."""
    defect = _find_defect(pair.source, pair.rewrite, pair.siblings, settings)
    if defect is not None:
        return _rejected(*defect, pair)
    source, rewrite = parse_description(pair.source), parse_description(pair.rewrite)
    count = len(source.facts())
    says_nothing = count >= _ENOUGH_FACTS and not rewrite.states_anything()
    if says_nothing and _share_few_words(pair):
        detail = f"The rewrite states none of the {count} facts of its source."
        return _rejected("unrelated", detail, pair)
    findings = find_differences(source, rewrite)
    is_suspect = says_nothing or any(
        finding.change != "lost" and (settings.strict or not finding.minor) for finding in findings
    )
    return FaithfulnessReport(verdict="suspect" if is_suspect else "faithful", findings=findings)


def _share_few_words(pair: RewritePair) -> bool:
    """Whether fewer than two longer words of one text begin like words of the other."""
    ours, theirs = (
        {word[:_BEGINNING] for word in _words(text) if len(word) >= _BEGINNING}
        for text in (pair.source, pair.rewrite)
    )
    return len(ours & theirs) < 2


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
        """Load lexicon and word list, which several threads would otherwise load at once."""
        _vocabulary()

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
            NewDecision(one.id, "reject", software(), reason="near_identical_to_sibling")
            for one in alike
        )
        return WorkResult(item.seq, entities=(entity,), decisions=dropped)

    def _is_copy(self, pair: RewritePair, text: str) -> bool:
        limit = self.settings.near_identical_similarity
        return _copy_defect(text, pair.rewrite, (), limit) is not None

    def refused(self, input_: StoredEntity | _Rewritten, rejection: Rejection) -> WorkResult:
        """Reject the rewrite without review."""
        decision = NewDecision(input_.id, "reject", software(), reason=rejection.reason)
        return WorkResult(input_.seq, decisions=(decision,), rejection=rejection)
