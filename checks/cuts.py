"""Whether a text breaks off: its last word asks for another, or is only a part of one."""

import operator
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

from loupe.checks.grammar import unknown_words
from loupe.checks.language import ENGLISH, MARKS, function_words, is_written_without_spaces
from loupe.checks.phrases import ends_with, phrases_of, words_of_kind
from loupe.checks.support import content_words, has_stems
from loupe.checks.text import clauses_of, sentences_of, words_of

_GERMAN = "de"
_ENDS = re.compile(r"[\s.!?。！？।۔؟\"'”’»)」』）]+$")


def cut_end(source: str, text: str, language: str = ENGLISH) -> str | None:
    """Return the end at which a rewrite breaks off, or None.

    A final stop does not matter, because some models write one wherever they end.

    Args:
        source: the text that is right; where it ends so as well, nothing is doubted.
        text: its rewrite, without quotations.
        language: of both (ISO 639-1).
    """
    text, source = _ENDS.sub("", text), _ENDS.sub("", source)
    is_subordinate = language == _GERMAN and _is_subordinate(text)
    last = ends_with("open", language, text)
    is_left = is_subordinate or _is_left_behind(last or "", text)
    if last and not is_left and ends_with("open", language, source) is None:
        return last
    if is_written_without_spaces(language):
        return text[-_CLUSTER:] if _is_inside_cluster(text, source) else None
    words = words_of(text)
    is_open = (
        (not is_subordinate and _is_half_open(words, source, language))
        or (not is_subordinate and _lacks_object(text, language))
        or _lacks_noun(words, language)
        or _is_part_of_word(words, source, language)
    )
    return " ".join(words[-2:]) if is_open else None


# Words that ask for another

_LEFT_BEHIND = frozenset(("at", "for", "from", "to", "with"))
_RELATIVES = frozenset(("that", "which", "who", "what"))
_NEAR = 10  # words («who a man in a suit talks to»)


def _is_left_behind(last: str, text: str) -> bool:
    """Whether an English preposition belongs to a relative word before it."""
    words = words_of(text.casefold())[-_NEAR:]
    return last in _LEFT_BEHIND and not _RELATIVES.isdisjoint(words)


_BEFORE_OPEN = frozenset(("and", "or", "but"))
_OPEN_AFTER = frozenset(("her", "this", "that", "these", "some", "in", "behind", "under", "beside"))
"""What «and» may not be followed by at an end: «and her.»; «up and down» may be one."""


def _is_half_open(words: Sequence[str], source: str, language: str) -> bool:
    """Whether a text ends with «bag on», after which its source goes on."""
    end = [word.casefold() for word in words[-2:]]
    if not end or end[-1] not in words_of_kind("half_open", language):
        return False
    if end[0] in _BEFORE_OPEN and end[-1] in _OPEN_AFTER:
        return True
    if language == ENGLISH and _is_of_verb(words):
        return False
    sought = f" {' '.join(end)} "
    clauses = [f" {' '.join(clause)} " for clause in _clauses(source)]
    is_there = any(sought in clause for clause in clauses)
    return is_there and not any(clause.endswith(sought) for clause in clauses)


def _clauses(text: str) -> Iterator[list[str]]:
    for sentence in sentences_of(text):
        for clause in clauses_of(sentence):
            yield words_of(clause.casefold())


_WITH_PARTICLES = frozenset(("has", "have", "having", "with", "keeps", "that", "which"))
"""Words that go with one at the end («has a black backpack on»)."""


def _is_of_verb(words: Sequence[str]) -> bool:
    """Whether the last word may belong to a verb («zipped up», «clad in», «what she has on»)."""
    if len(words) < 2 or words[-1].casefold() in words_of_kind("determiners", ENGLISH):
        return False
    before = words[-2].casefold()
    if before.endswith(("ed", "en", "ad")) or before in function_words(ENGLISH) - _BEFORE_OPEN:
        return True
    return not _WITH_PARTICLES.isdisjoint(words[-_NEAR:])


def _lacks_noun(words: Sequence[str], language: str) -> bool:
    """Whether a text ends with a determiner and an adjective («behind a wooden»)."""
    last = [word.casefold() for word in words[-2:]]
    kinds = [words_of_kind(kind, language) for kind in ("determiners", "adjectives")]
    return len(last) == len(kinds) and all(map(operator.contains, kinds, last))


def _lacks_object(text: str, language: str) -> bool:
    """Whether a text ends with «and she wears», or «ihr Mantel ist»."""
    if language == ENGLISH:
        return _without_object().search(text) is not None
    words = words_of(text.casefold())
    return bool(words) and words[-1] in words_of_kind("verbs", language)


@cache
def _without_object() -> re.Pattern[str]:
    verbs = "|".join(phrases_of("verbs", ENGLISH))
    subject = (
        r"(?:^|[,;.] |\b(?:and|or|but|while|as) )(?:(?:he|she|it|they) )?|\b(?:that|who|which) "
    )
    return re.compile(rf"(?:{subject})(?:(?:is|are) )?(?:{verbs})$", re.IGNORECASE)


_BEGINNING = 2  # words of a clause («mit der sie»); after «und», an article opens a main clause


def _is_subordinate(text: str) -> bool:
    """Whether the last German clause begins as one that ends with its verb does."""
    clauses = list(_clauses(text))
    begin = clauses[-1][:_BEGINNING] if len(clauses) > 1 else []
    is_joined = begin[:1] == ["und"]
    return not is_joined and not words_of_kind("subordinates", _GERMAN).isdisjoint(begin)


# Parts of words

_SHORT = 3  # letters of an English word that may be a part of another («red car» of «carpet»)
_MOST_LETTERS = 5  # of a part of a word; longer ones may be words in languages without dictionary
_CLUSTER = 4  # characters
_FOLLOWS_LETTER = re.compile(rf"[{MARKS}ะาำๅ]")
"""Vowels and tones that cannot begin a word."""


def _is_part_of_word(words: Sequence[str], source: str, language: str) -> bool:
    """Whether the last word is only the beginning of words of the source."""
    known = [word.casefold() for word in words_of(source)]
    last = words[-1].casefold() if words else ""
    longer = {one for one in known if one.startswith(last)}
    if not last or last in known or not longer or not has_stems(language):
        return False
    before = words[-2].casefold() if len(words) > 1 else ""
    follows = any(one == before and other in longer for one, other in pairwise(known))
    if language == _GERMAN and follows and before in words_of_kind("determiners", language):
        return True
    stems = content_words(last, language)
    if any(stems & content_words(one, language) for one in longer):
        return False
    if language != ENGLISH:
        return len(last) <= _MOST_LETTERS
    if unknown_words(last):
        return True
    return (follows or before in _BEFORE_OPEN) and len(last) <= _SHORT


def _is_inside_cluster(text: str, source: str) -> bool:
    """Whether a text without spaces ends inside a letter of its source with its signs."""
    last = text[-_CLUSTER:]
    following = [source[one.end() :][:1] for one in re.finditer(re.escape(last), source)]
    return bool(following) and all(map(_FOLLOWS_LETTER.match, following))
