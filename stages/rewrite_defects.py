"""Finds what makes a rewrite unusable whatever it says: empty, refused, gibberish, a copy."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

from rapidfuzz import fuzz

from models.builtin.person.lexicon import load_lexicon
from schemas.profile import FaithfulnessSettings
from stages.refusals import refusal_in

_ECHO = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instructions?|prompts?|rules)\b"
    r"|\bsystem prompt\b|<\|im_(?:start|end)\|>|\[/?INST\]|<</?SYS>>"
    r"|\bplease reorgani[sz]e the description",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]+")
_ENDINGS = ("", "s", "es", "d", "ed", "ing", "ly")
_DETERMINERS = frozenset(("a", "an", "the", "his", "her", "their", "its", "this", "that", "my"))
_CLOSED = _DETERMINERS | frozenset(
    ("of", "with", "and", "or", "is", "are", "was", "were", "at", "for", "from", "to", "he", "she")
)
_KEPT_WORDS = 65536
_KEPT_TEXTS = 1024  # a text is compared with several rewrites of its image
_KNOWN_SHARE = 0.5
_DEGENERATE_SHARE = 0.34
_SURE = 0.8
_ONE_SCRIPT_SHARE = 0.9


def find_defect(
    source: str, rewrite: str, siblings: Sequence[str], settings: FaithfulnessSettings
) -> tuple[str, str] | None:
    """(reason, sentence) of the first defect of `rewrite`, or None when it can be compared."""
    if not rewrite.strip():
        return "empty", "The rewrite is empty."
    if (control := _control_character(rewrite)) is not None:
        return "control_characters", f"The rewrite holds the control character {control!r}."
    if (refusal := refusal_in(rewrite)) is not None:
        return "refusal", f"The model refused: {refusal!r}."
    if (match := _ECHO.search(rewrite)) is not None:
        return "instruction_echo", f"The rewrite repeats an instruction: {match.group()!r}."
    return _language_defect(source, rewrite, settings.language) or _copy_defect(
        source, rewrite, siblings, settings.near_identical_similarity
    )


def _control_character(text: str) -> str | None:
    """The first control, private-use, unassigned or replacement character, if any."""
    if text.isprintable() and "�" not in text:
        return None  # the usual case, at once
    for character in dict.fromkeys(text):  # each once, in order
        if character in "\n\r\t":
            continue
        if unicodedata.category(character) in ("Cc", "Co", "Cn", "Cs") or character == "�":
            return character
    return None


def _language_defect(source: str, rewrite: str, language: str) -> tuple[str, str] | None:
    if language != "en":
        return None  # the word lists are English; other languages are left to the reviewers
    words = _words(rewrite)
    known = _known_share(words, source)
    if known >= _KNOWN_SHARE:
        if _degenerate(words):
            return "gibberish", "The rewrite repeats words or strings them without grammar."
        return None
    if (script := _foreign_script(rewrite)) is not None:
        return "wrong_language", f"The rewrite is in {script} script, wanted {language!r}."
    guess, probability = _guess_language(rewrite)
    share = f"{known:.0%} of its words are known"
    if guess != language and probability >= _SURE and _looks_like_language(words):
        return "wrong_language", f"The rewrite is in {guess!r}, wanted {language!r} ({share})."
    return "gibberish", f"The rewrite is not readable English ({share})."


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _looks_like_language(words: list[str]) -> bool:
    return len(words) >= 3 and sum(map(len, words)) / len(words) < 14


def _foreign_script(text: str) -> str | None:
    """The script, other than Latin, that nearly all letters are of (Han and kana count as one)."""
    letters = [
        unicodedata.name(character, "?").split()[0] for character in text if character.isalpha()
    ]
    scripts = ["CJK" if name in ("HIRAGANA", "KATAKANA") else name for name in letters]
    if not scripts:
        return None
    script, count = Counter(scripts).most_common(1)[0]
    return script if script != "LATIN" and count / len(scripts) >= _ONE_SCRIPT_SHARE else None


def _known_share(words: list[str], source: str) -> float:
    if not words:
        return 0.0
    unknown = [word for word in words if not _is_common(word)]
    if unknown:
        own = set(_words(source))
        unknown = [word for word in unknown if not _has_stem(word, own)]
    return (len(words) - len(unknown)) / len(words)


@lru_cache(maxsize=_KEPT_WORDS)
def _is_common(word: str) -> bool:
    return _has_stem(word, _vocabulary())


def _has_stem(word: str, vocabulary: AbstractSet[str]) -> bool:
    """Whether `vocabulary` has a word without one of its endings, or with a final «e»."""
    stems = (word.removesuffix(ending) for ending in _ENDINGS)
    return word in vocabulary or any(s in vocabulary or f"{s}e" in vocabulary for s in stems)


@lru_cache(maxsize=1)
def _vocabulary() -> frozenset[str]:
    """The commonest English words and those of the lexicon, in lower case."""
    common = files("stages").joinpath("common_english.txt").read_text("utf-8").split()
    return frozenset(common).union(*load_lexicon().meanings)


def _guess_language(text: str) -> tuple[str, float]:
    """(ISO 639-1 code, probability in [0, 1]) of the language that `text` most looks like."""
    guess, probability = _identifier().classify(text)
    return str(guess), float(probability)


@lru_cache(maxsize=1)
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _degenerate(words: list[str]) -> bool:
    """Whether words repeat each other or stand where no sentence has them («the of», «a the»)."""
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
    if (likeness := _similarity(source, rewrite)) >= limit:
        return (
            "near_identical_to_source",
            f"The rewrite is {likeness:.0%} the same as its source; the limit is {limit:.0%}.",
        )
    for sibling in siblings:
        if (likeness := _similarity(sibling, rewrite)) >= limit:
            return (
                "near_identical_to_sibling",
                (
                    f"The rewrite is {likeness:.0%} the same as another rewrite of the image; "
                    f"the limit is {limit:.0%}."
                ),
            )
    return None


def _similarity(one: str, other: str) -> float:
    """Normalised edit similarity in [0, 1], blind to case, punctuation and spacing."""
    return fuzz.ratio(_bare(one), _bare(other)) / 100


@lru_cache(maxsize=_KEPT_TEXTS)
def _bare(text: str) -> str:
    return " ".join(_WORD.findall(text.lower()))
