"""The check `person`: how a rewrite changes the facts that an English text states of a person."""

import re
from collections.abc import Collection, Iterator, Sequence

from loupe.checks.language import ENGLISH
from loupe.checks.person.description import Description
from loupe.checks.person.differences import find_differences
from loupe.checks.person.lexicon import Tag
from loupe.checks.person.parser import parse_description
from loupe.checks.rewrites import Doubt
from loupe.checks.text import Defect
from loupe.schemas.faithfulness import Finding, RewritePair
from loupe.schemas.profile import FaithfulnessSettings

_WORD = re.compile(r"[^\W\d_]+")
_ENOUGH_FACTS = 3
_BEGINNING = 5  # letters
_LONG_CLAUSE = 3  # content words


class PersonCheck:
    """Compares what two texts say of a person; explains what is said in other words.

    Texts in other languages than English are not read.
    """

    def __call__(
        self, pair: RewritePair, settings: FaithfulnessSettings, doubts: Sequence[Doubt]
    ) -> Sequence[Doubt] | Defect:
        """Return the differences and the doubts that are left, or why the texts are unrelated."""
        if settings.language != ENGLISH:
            return doubts
        source, rewrite = parse_description(pair.source), parse_description(pair.rewrite)
        differences = find_differences(source, rewrite)
        found = [Doubt(finding) for finding in differences]
        count = len(source.facts())
        if count >= _ENOUGH_FACTS and not rewrite.states_anything():
            message = f"The rewrite states none of the {count} facts of its source."
            if _share_few_words(pair):
                return Defect("unrelated", message)
            found.append(Doubt(Finding(change="unsupported", message=message)))
        return [*found, *_unexplained(doubts, source, rewrite, differences)]

    def facts(self, text: str) -> frozenset[tuple[str, str, str]]:
        """Return (subject, attribute, value) of what a text states of a person."""
        facts = parse_description(text).facts()
        return frozenset((fact.subject, fact.attribute, fact.value) for fact in facts)


check_person = PersonCheck()


def _unexplained(
    doubts: Sequence[Doubt],
    source: Description,
    rewrite: Description,
    differences: Sequence[Finding],
) -> Iterator[Doubt]:
    """Yield the doubts that the two descriptions do not explain.

    A part without support may be in other words: all its words are known, or it states a fact that
    the source states as well. In a text that is read, a short clause is a minor matter.
    """
    refused = {
        one.rewrite.span
        for one in differences
        if one.rewrite is not None and one.change != "lost" and not one.minor
    }
    stated = [fact.span[0] for fact in rewrite.facts() if fact.span not in refused]
    unknown = [one.span[0] for one in rewrite.mentions if one.has(Tag.OTHER)]
    is_read = source.states_anything()
    for doubt in doubts:
        part = doubt.part
        if part is None:
            yield doubt
            continue
        span = range(part.start, part.end)
        is_known = is_read and not _any_in(span, unknown)
        if _any_in(span, stated) or (is_known and not (part.is_remark or part.opens)):
            continue
        is_clause = not (part.is_sentence or part.is_remark or part.opens)
        is_minor = is_read and is_clause and part.words < _LONG_CLAUSE
        yield doubt._replace(finding=doubt.finding.model_copy(update={"minor": is_minor}))


def _any_in(span: range, places: Collection[int]) -> bool:
    return any(place in span for place in places)


def _share_few_words(pair: RewritePair) -> bool:
    """Whether fewer than two longer words of one text begin like words of the other."""
    return len(_beginnings(pair.source) & _beginnings(pair.rewrite)) < 2


def _beginnings(text: str) -> set[str]:
    words = _WORD.findall(text.lower())
    return {word[:_BEGINNING] for word in words if len(word) >= _BEGINNING}
