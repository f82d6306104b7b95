"""Checks of a text beside the text that it was made from, found by name (`loupe.checks`).

A check takes what earlier checks doubted and returns what is doubtful after it, so that one which
understands the subject may explain a part that shares no word with the source. It returns a
`Defect` if the text cannot be used at all. A package may also name a plain function of a text and
the texts of its source, which returns what is wrong with it, or None.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

from rapidfuzz import fuzz

from loupe.checks.defects import text_defect
from loupe.checks.doubts import doubtful_forms
from loupe.checks.language import ENGLISH
from loupe.checks.support import (
    Part,
    foreign_words,
    is_list_of_words,
    length_share,
    repeated_sentence,
    unsupported_parts,
)
from loupe.checks.text import Defect, Form, shown
from loupe.schemas.faithfulness import FaithfulnessReport, Finding, RewritePair
from loupe.schemas.plugins import load_plugin, plugins
from loupe.schemas.profile import FaithfulnessSettings


class Doubt(NamedTuple):
    """A finding; `part` is the part of the text without support that it is about, if any."""

    finding: Finding
    part: Part | None = None


class Check(Protocol):
    """A check, as entry points of the group `loupe.checks` name it."""

    def __call__(
        self, pair: RewritePair, settings: FaithfulnessSettings, doubts: Sequence[Doubt]
    ) -> Sequence[Doubt] | Defect:
        """Return what is doubtful, the `doubts` of earlier checks included, or why to refuse it."""


@runtime_checkable
class ReadingCheck(Check, Protocol):
    """A check that reads the facts of a text, by which two texts can be compared."""

    def facts(self, text: str) -> frozenset[tuple[str, str, str]]:
        """Return (subject, attribute, value) of each fact."""


TextCheck = Callable[[str, Sequence[str]], str | None]
"""Returns a sentence on what is wrong with a text, given the texts of the source; None if fine."""


@dataclass(frozen=True)
class PlainCheck:
    """A plain function of a text as a check of rewrites."""

    function: TextCheck

    def __call__(
        self,
        pair: RewritePair,
        settings: FaithfulnessSettings,  # noqa: ARG002
        doubts: Sequence[Doubt],
    ) -> Sequence[Doubt]:
        """Return the doubts, and what the function says."""
        wrong = self.function(pair.rewrite, (pair.source,))
        return (*doubts, _unsupported(wrong)) if wrong else doubts


@cache
def load_check(name: str) -> Check:
    """Import a check by its name; a plain function of a text becomes one.

    Raises:
        ConfigurationError: it cannot be imported.
        UsageError: no installed package adds it.
    """
    found = load_plugin("checks", name)
    if len(inspect.signature(found).parameters) > len(("text", "sources")):
        check: Check = found
        return check
    return PlainCheck(found)


def facts_reader(name: str) -> Callable[[str], frozenset[Any]] | None:
    """Return what reads the facts of a text; None if the check of that name reads none."""
    check = load_check(name)
    return check.facts if isinstance(check, ReadingCheck) else None


def described_checks(names: Iterable[str]) -> list[str]:
    """Return the names for provenance; those of other packages with package and version."""
    found = []
    for name in names:
        plugin = plugins("checks").get(name)
        if plugin is None or plugin.is_own:
            found.append(name)
        else:
            found.append(f"{name} ({plugin.package} {plugin.package_version})")
    return found


def reading_checks(names: Iterable[str], settings: FaithfulnessSettings) -> tuple[str, ...]:
    """Return the checks that read what a text in the dataset's language states.

    Form and support are those of characters and words, whatever these mean. Checks of other
    packages are taken to read.
    """
    model, language = settings.entailment, settings.language
    read_by = {
        "form": (),
        "support": (),
        "person": (ENGLISH,),
        "entailment": model.languages if model is not None else (),
    }
    return tuple(one for one in names if language in read_by.get(one.split()[0], (language,)))


def judge_rewrite(
    pair: RewritePair, settings: FaithfulnessSettings, checks: Iterable[str]
) -> FaithfulnessReport | Defect:
    """Return how a rewrite differs from its source, or why it cannot be used."""
    doubts: Sequence[Doubt] = ()
    for name in checks:
        result = load_check(name)(pair, settings, doubts)
        if isinstance(result, Defect):
            return result
        doubts = result
    findings = tuple(doubt.finding for doubt in doubts)
    is_suspect = any(_counts(finding, settings) for finding in findings)
    return FaithfulnessReport(verdict="suspect" if is_suspect else "faithful", findings=findings)


def _counts(finding: Finding, settings: FaithfulnessSettings) -> bool:
    return finding.change != "lost" and (settings.strict or not finding.minor)


# Form: the text is one, and no copy.

_WORD = re.compile(r"[^\W\d_]+")
_KEPT_TEXTS = 1024  # a text is compared with several rewrites of its image


def check_form(
    pair: RewritePair, settings: FaithfulnessSettings, doubts: Sequence[Doubt]
) -> Sequence[Doubt] | Defect:
    """Refuse what is no text in the dataset's language, and copies; doubt what may be style."""
    defect = text_defect(pair.rewrite, Form(settings.language), pair.source)
    if defect is not None and not defect.is_doubtful:
        return Defect(defect.reason, f"The rewrite {defect.detail}.")
    copied = copy_defect(pair, settings.near_identical_similarity)
    if copied is not None:
        return copied
    if defect is None:
        return doubts
    return (*doubts, _unsupported(f"The rewrite {defect.detail}."))


def copy_defect(pair: RewritePair, limit: float) -> Defect | None:
    """Return which text the rewrite copies: its source, or another rewrite of its image.

    Args:
        pair: the rewrite, with the texts that it is compared with.
        limit: the similarity in [0, 1] from which a text is a copy.
    """
    if (likeness := _likeness(pair.source, pair.rewrite)) >= limit:
        return _copy("source", "its source", likeness, limit)
    for sibling in pair.siblings:
        if (likeness := _likeness(sibling, pair.rewrite)) >= limit:
            return _copy("sibling", "another rewrite of the image", likeness, limit)
    return None


def _likeness(one: str, other: str) -> float:
    return fuzz.ratio(_bare(one), _bare(other)) / 100


def _copy(name: str, said: str, likeness: float, limit: float) -> Defect:
    message = f"The rewrite is {likeness:.0%} the same as {said}; the limit is {limit:.0%}."
    return Defect(f"near_identical_to_{name}", message)


@lru_cache(maxsize=_KEPT_TEXTS)
def _bare(text: str) -> str:
    """Return the words alone: case, punctuation and spacing do not matter."""
    return " ".join(_WORD.findall(text.lower()))


# Support: the source has what the text says, and the text says most of it, as prose.


def check_support(
    pair: RewritePair, settings: FaithfulnessSettings, doubts: Sequence[Doubt]
) -> Sequence[Doubt]:
    """Doubt parts without support, what is no prose, and a text much shorter than its source."""
    language = settings.language
    found = [*doubts]
    for part in unsupported_parts(pair.source, pair.rewrite, language):
        few = f"{part.known} of its {part.words} words" if part.known else "no word of it"
        doubt = _unsupported(f"The rewrite says {part.text!r}; the source has {few}.")
        found.append(doubt._replace(part=part))
    found += map(_unsupported, _other_than_prose(pair, language))
    share = length_share(pair.source, pair.rewrite, language)
    if share < settings.min_length_share:
        message = (
            f"The rewrite has {share:.0%} as many content words as its source; "
            f"wanted at least {settings.min_length_share:.0%}."
        )
        found.append(Doubt(Finding(change="shortened", message=message)))
    return found


def _other_than_prose(pair: RewritePair, language: str) -> Iterator[str]:
    """Yield what is no prose like its source: a list of words, a repetition, another language."""
    if is_list_of_words(pair.rewrite, language) and not is_list_of_words(pair.source, language):
        yield "The rewrite strings words together; the source states them in sentences."
    repeated = repeated_sentence(pair.rewrite, language)
    if repeated is not None and repeated_sentence(pair.source, language) is None:
        yield f"The rewrite says again what it says elsewhere: {shown(repeated)}."
    if foreign := foreign_words(pair.source, pair.rewrite, language):
        yield f"The rewrite has words of another language: {', '.join(foreign)}."
    yield from doubtful_forms(pair.source, pair.rewrite, language)


def _unsupported(message: str) -> Doubt:
    return Doubt(Finding(change="unsupported", message=message))
