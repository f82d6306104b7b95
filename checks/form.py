"""What a caption may consist of: characters, words and sentences of its language, and no more.

A text is described by what belongs to it. A rule finds the first thing that does not: markup,
addresses, labels and dialogue are refused because prose has no place for their signs, not because
they are on a list. Words in quotation marks are shown in the image and may be anything.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from loupe.checks.grammar import unknown_share
from loupe.checks.language import (
    ENGLISH,
    LETTERS,
    SURE,
    guessed_language,
    has_capitals,
    is_letter_of,
    is_written_without_spaces,
    scripts_of,
)
from loupe.schemas.phrases import QUOTED


class Defect(NamedTuple):
    """Why a text cannot be used: a stable snake_case word, and a sentence without its subject.

    The sentence goes on after the name of the text: «holds the character '<'». A doubtful defect
    may be a matter of style; where texts are compared with their source, a person decides about it.
    """

    reason: str
    detail: str
    is_doubtful: bool = False


class Form(NamedTuple):
    """What is asked of a text.

    Attributes:
        language: the language of the dataset (ISO 639-1).
        sentences: it begins and ends as sentences do; otherwise it may also be a phrase.
        shows_signs: it may state programs, sums and signs, as captions of such images do.
        is_shown: it is the text of a sign, which need not be a sentence about anything.
    """

    language: str = ENGLISH
    sentences: bool = True
    shows_signs: bool = False
    is_shown: bool = False


PROSE = Form()
CAPTION = Form(sentences=False)
SIGNS = Form(sentences=False, shows_signs=True)


def form_defect(text: str, form: Form = PROSE, like: str = "") -> Defect | None:
    """Return the first thing in `text` that does not belong to a caption, or None.

    Args:
        text: a text as it was written.
        form: what is asked of it.
        like: a text that counts as right, such as the source of a rewrite: what it does (no final
            stop, a word in capitals) the text may do as well.
    """
    if not text.strip():
        return Defect("empty", "holds no text")
    seen = _Text(text, form, like)
    for rule in _RULES[: _OF_SIGNS if form.is_shown else None]:
        if (defect := rule(seen)) is not None:
            return defect
    return None


def one_line(text: str) -> str:
    """Return a text in the form in which it is stored: composed letters and single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).split())


class _Text:
    """A text, with what the rules look at."""

    def __init__(self, raw: str, form: Form, like: str) -> None:
        self.raw = raw
        self.form = form
        self.like = one_line(like)
        self.line = one_line(raw)
        self.plain = _without_shown(self.line, form)
        self.sentences = sentences_of(self.plain)
        self.words = words_of(self.plain)
        self.words_like = frozenset(words_of(self.like))


# What an image shows may be anything: it is hidden from the rules.

_HIDDEN = "Quoted"
_CODE_SPAN = re.compile(r"`[^`]+`")
_CALL = re.compile(
    r"[\w.]+\([^()]*\)|\b\w+_\w+\b|__\w+__|[\w.]*\[[^\[\]]*\]"
    r"|(?<!\w)[-−]?\w*(?:\s?(?:[+*/%<>=×÷−!^]=?|==|(?<=\s)-(?=\s))\s?[-−]?\w+)+"
)


def _without_shown(line: str, form: Form) -> str:
    plain = QUOTED.sub(_HIDDEN, line)
    if form.shows_signs:
        plain = _CALL.sub(_HIDDEN, _CODE_SPAN.sub(_HIDDEN, plain))
    return plain


# Sentences, clauses and words.

_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"”’»)]*\s+(?=[^\sa-zß-öø-ÿ])|(?<=[。！？])")
_CLAUSE_END = re.compile(r"[,;:()（），；：、]+|\s[-–—]+\s|—")
_WORD = re.compile(r"\w+(?:['’.,-]\w+)*")


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text; a stop before a small letter does not end one."""
    parts = [part.strip() for part in _SENTENCE_END.split(text)]
    return [part for part in parts if part]


def clauses_of(sentence: str) -> list[str]:
    """Return the parts of a sentence between commas, semicolons, colons, brackets and dashes."""
    parts = [part.strip() for part in _CLAUSE_END.split(sentence)]
    return [part for part in parts if LETTERS.search(part) or re.search(r"\d", part)]


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are written."""
    return _WORD.findall(text)


# The rules, in the order in which they are asked; those of doubtful defects are the last.

_JOINERS = "\u200c\u200d"  # join letters in some scripts
_UNPRINTABLE = ("Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp")


def control_character(text: str) -> str | None:
    """Return the first invalid character: control, format, private use or unassigned."""
    if text.isprintable() and "\ufffd" not in text:
        return None
    for character in text:
        if character in "\n\r\t" or character in _JOINERS:
            continue
        if character == "\ufffd" or unicodedata.category(character) in _UNPRINTABLE:
            return character
    return None


def _characters_print(text: _Text) -> Defect | None:
    if (control := control_character(text.raw)) is None:
        return None
    return Defect("control_characters", f"holds the character U+{ord(control):04X}")


_WESTERN = bytes(range(0x80, 0x100)).decode("cp1252", "ignore")
_WESTERN_RUN = re.compile(f"[{re.escape(_WESTERN)}\x80-\xff]{{2,}}")


def _is_decoded(text: _Text) -> Defect | None:
    """Refuse UTF-8 that was read as a Western encoding («â€”»)."""
    for match in _WESTERN_RUN.finditer(text.raw):
        for encoding in ("cp1252", "latin-1"):
            try:
                match.group().encode(encoding).decode("utf-8")
            except UnicodeError:
                continue
            return Defect("mojibake", f"holds {shown(match.group())}, which was decoded wrongly")
    return None


_LIST_LINE = re.compile(r"^\s*(?:[-*+•·–—>#|]+\s|\(?\d{1,2}[.):]\s)", re.MULTILINE)
_LINE_BREAK = re.compile(r"(?P<before>[^\n]*)\n\s*(?P<next>\S)")


def _is_paragraph(text: _Text) -> Defect | None:
    raw = text.raw.strip()
    if text.form.shows_signs:
        return None
    if (item := _LIST_LINE.search(raw)) is not None:
        return Defect("markup", f"holds a list or a heading: {shown(raw[item.start() :].strip())}")
    for match in _LINE_BREAK.finditer(raw):
        before = match["before"].rstrip()
        ends = not before or before[-1] in ".!?。！？…\"”»')"
        if not ends and not match["next"].islower():
            return Defect("markup", f"holds separate lines: {shown(before)}")
    return None


_EMPHASIS = re.compile(r"(\*\*|__|\*)(?=\S)(?:(?!\1).)+\1")
_OPENED = re.compile(r"<\s*(?:think|thinking|reasoning|thought|analysis|answer|caption)\b")


def _is_not_wrapped(text: _Text) -> Defect | None:
    """Refuse a text inside emphasis, inside JSON or after reasoning, also one that shows signs."""
    line = text.line
    if _EMPHASIS.fullmatch(line) or _OPENED.match(line):
        return Defect("markup", f"is wrapped in markup: {shown(line)}")
    if line[0] in "{[" and _is_json(line):
        return Defect("markup", f"holds JSON again: {shown(line)}")
    return None


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


_SIGNS = frozenset(" .,;:!?'\"’‘“”„‚«»‹›()/&%°+×$€£¥–—-½¼¾²³′″#0123456789")
_WIDE_SIGNS = frozenset("、。，；：！？「」『』（）《》〈〉·～ー々—…“”‘’％")
_IN_PLACE = re.compile(
    r"(?<=\s)&(?=\s)|(?<=[A-Z])&(?=[A-Z](?!\w*;))"
    r"|#(?=\d)|(?<=\d)[%°′″]|°(?=[CF]\b)|[$€£¥](?=\s?\d)|(?<=\d)\s?[$€£¥]"
    r"|(?<=[\d\s])[×+](?=[\d\s])|(?<=\w)\+(?!\w)|(?<=\w)\s?/\s?(?=\w)|(?<=\d)[½¼¾]|[½¼¾]|(?<=m)[²³]"
)
_NEED_A_PLACE = frozenset("&#%°′″$€£¥×+/²³½¼¾")


def _belongs_to_language(text: _Text) -> Defect | None:
    language = text.form.language
    wide = _WIDE_SIGNS if scripts_of(language) & {"CJK", "Hiragana", "Hangul"} else frozenset()
    in_place = {at for match in _IN_PLACE.finditer(text.plain) for at in range(*match.span())}
    for at, character in enumerate(text.plain):
        if is_letter_of(character, language) or character in wide or character in _JOINERS:
            continue
        if unicodedata.category(character) == "Nd" and scripts_of(language):
            continue
        is_fine = character in _SIGNS
        if is_fine and character in _NEED_A_PLACE:
            is_fine = at in in_place or text.form.shows_signs
        if is_fine or (character in text.like and character.isalpha()):
            continue
        if text.form.shows_signs and not _is_picture(character):
            continue
        return _foreign_character(text.plain, at)
    return None


def _is_picture(character: str) -> bool:
    return not character.isascii() and unicodedata.category(character) in ("So", "Sk")


def _foreign_character(plain: str, at: int) -> Defect:
    character = plain[at]
    around = shown(plain[max(0, at - 10) : at + 10].strip())
    if character.isalpha():
        name = unicodedata.name(character, "an unnamed letter").lower()
        return Defect("wrong_language", f"holds a letter of another script ({name}): {around}")
    return Defect("markup", f"holds {character!r}, which has no place in a sentence: {around}")


_TOO_CLOSE = re.compile(
    r"[^\W\d_]{2,}[.!?;:](?=[^\W\d_]{2})|[,;:!?]{2,}|\.{2,}|…|--+(?!\s)|(?<!\s)--+|-{3,}|\w\((?!s\))"
    r"|,(?=[^\W\d_])|//|(?:^|\s)/|\d:\d+:\d|\s[.,](?=\s|$)"
    r"|[^\W\d_]-\s(?!(?:and|or|to|und|oder|bis|et|ou|e|o|y|en|of)\b)[^\W\d_]"
)


def _is_spaced(text: _Text) -> Defect | None:
    """Refuse signs that run into each other or into words, as in addresses and programs."""
    match = None if text.form.shows_signs else _TOO_CLOSE.search(text.plain)
    if match is None or match.group() in text.like:
        return None
    return Defect("markup", f"is not spaced as prose is: {_around(text.plain, match)}")


_PAIRS = (
    ("(", ")"),
    ("“", "”"),
    ("«", "»"),
    ("「", "」"),
    ("『", "』"),
    ("《", "》"),
    ("（", "）"),
)
_INCHES = re.compile(r"(?<=\d)[\"”]")


def _is_balanced(text: _Text) -> Defect | None:
    if text.form.shows_signs:
        return None
    for opening, closing in _PAIRS:
        if text.line.count(opening) != text.line.count(closing) and not (
            opening == "“" and "„" in text.line
        ):
            return Defect("markup", f"opens or closes {opening}{closing} only once")
    if text.line.count('"') % 2 and _INCHES.sub("", text.line).count('"') % 2:
        return Defect("markup", "holds a quotation mark without its other half")
    return None


_MOST_QUOTED = 0.6


def _is_not_a_quotation(text: _Text) -> Defect | None:
    if text.form.shows_signs:
        return None
    quoted = sum(len(match.group()) for match in QUOTED.finditer(text.line))
    if quoted <= _MOST_QUOTED * len(text.line):
        return None
    return Defect("markup", "is in quotation marks as a whole")


_FEWEST_BEFORE_COLON = 3
_FEWEST_LETTERS_BEFORE_COLON = 6  # of a script without spaces
_COLON = re.compile(r"(?P<before>[^:：.;；。!?]*)(?P<colon>[:：])\s*(?P<next>\S?)")
_STEM = 5  # letters
_TIME = re.compile(r"\d[:：]\d")


def _has_no_labels(text: _Text) -> Defect | None:
    """Refuse what stands before a colon unless it is a clause that goes on after it."""
    if text.form.shows_signs:
        return None
    plain = _TIME.sub("00", text.plain)
    for match in _COLON.finditer(plain):
        before = match["before"].strip()
        if is_written_without_spaces(text.form.language):
            letters = sum(one.isalpha() and not one.isascii() for one in before)
            is_label = letters < _FEWEST_LETTERS_BEFORE_COLON
        else:
            is_label = len(before.split()) < _FEWEST_BEFORE_COLON
        if text.form.language == ENGLISH and match["next"].isupper():
            is_label = is_label or not plain.startswith(_HIDDEN, match.end() - 1)
        if is_label and _is_said(before, text):
            continue
        if is_label or not match["next"]:
            said = shown(before + match["colon"])
            return Defect("markup", f"holds a label: {said}", is_doubtful=True)
    return None


def _is_said(words: str, text: _Text) -> bool:
    """Whether the source has these words, in any of their forms."""
    said = {word[:_STEM] for word in map(str.casefold, text.words_like)}
    return bool(words) and all(word.casefold()[:_STEM] in said for word in words_of(words))


_ENUMERATED = re.compile(
    r"(?:^|[.;:!?,]\s+)\(?(?:\d{1,2}|[a-z]|[ivx]{1,4})[.)]\s+(?=\S)|\([a-z\d]\)"
)


def _is_no_list(text: _Text) -> Defect | None:
    if text.form.shows_signs or (match := _ENUMERATED.search(text.plain)) is None:
        return None
    return Defect("markup", f"is a list: {_around(text.plain, match)}")


def _says_something(text: _Text) -> Defect | None:
    if LETTERS.search(text.line) is not None or (text.form.shows_signs and text.words):
        return None
    return Defect("no_words", f"holds no words: {shown(text.line)}")


_MIXED = re.compile(r"[^\W\d_]\d+[^\W\d_]|\d[^\W\d_]+\d")
_THRICE = re.compile(r"([^\W\d_A-Z])\1\1")
_LONGEST_WORD = 45  # characters; German compounds and chains of hyphens stay below it
_ODD_CASE = re.compile(r"[a-z]+[A-Z]+[a-z]+[A-Z]|[A-Z]+[a-z]+[A-Z]+[a-z]+[A-Z]|[a-z]{2,}[A-Z]{2,}")
_SPELLED_OUT = re.compile(r"(?:(?<!\w)[^\W\d_] ){4}")
_SPELLED_OUT_ENGLISH = re.compile(r"(?:(?<![\w'’])[^\W\d_] ){2}[^\W\d_](?!\w)")


def _has_words(text: _Text) -> Defect | None:
    language = text.form.language
    if is_written_without_spaces(language) or text.form.shows_signs:
        return None
    spelled_out = _SPELLED_OUT_ENGLISH if language == ENGLISH else _SPELLED_OUT
    match = spelled_out.search(text.plain)
    if match is not None and match.group() not in text.like:
        return Defect("gibberish", "spells its words letter by letter")
    for word in text.words:
        if word in text.words_like:
            continue
        if _MIXED.search(word) or _THRICE.search(word) or len(word) > _LONGEST_WORD:
            return Defect("gibberish", f"holds {shown(word)}, which is no word")
        if _ODD_CASE.search(word):
            return Defect("gibberish", f"holds {shown(word)}, in letters of odd case")
    return None


_MOST_CAPITALS = 0.5
_MOST_TITLED = 0.8
_FEWEST_TITLED = 5


def _has_small_letters(text: _Text) -> Defect | None:
    if not has_capitals(text.form.language) or text.form.shows_signs:
        return None
    for sentence in text.sentences:
        words = [w for w in LETTERS.findall(sentence.replace(_HIDDEN, "")) if w not in text.like]
        letters = "".join(words)
        capitals = sum(map(str.isupper, letters))
        if len(letters) > 1 and capitals > _MOST_CAPITALS * len(letters):
            return Defect("all_capitals", f"is in capital letters: {shown(sentence)}")
        longer = [word for word in words[1:] if len(word) > 3]
        titled = sum(word[0].isupper() for word in longer)
        if (
            text.form.sentences
            and text.form.language == ENGLISH
            and len(longer) >= _FEWEST_TITLED
            and titled >= _MOST_TITLED * len(longer)
        ):
            return Defect("all_capitals", f"is set like a title: {shown(sentence)}")
    return None


_FINAL_STOP = re.compile(r"[.!。！।۔؟][\"'”’»)」』）]*$")
_LEFT_OPEN = re.compile(
    r"(?:[,;:–—-]|(?<!\w)(?:a|an|the|and|or|of|with|der|die|das|ein|eine|und|mit))[.]?$"
)


def _begins_and_ends(text: _Text) -> Defect | None:
    if text.form.shows_signs:
        return None
    last = shown(text.line[-30:])
    if _LEFT_OPEN.search(text.plain) is not None:
        return Defect("truncated_answer", f"ends inside a sentence: {last}")
    if not text.form.sentences:
        return None
    must_end = not text.like or _FINAL_STOP.search(text.like) is not None
    must_begin = must_end and has_capitals(text.form.language) and not text.like[:1].islower()
    begins = not text.plain[0].islower()
    ends = _FINAL_STOP.search(text.line) is not None or text.line.endswith(("?", "？"))
    if text.like and must_begin and not begins and not ends:
        detail = f"is a note, which neither begins nor ends as a sentence: {shown(text.line)}"
        return Defect("note", detail, is_doubtful=True)
    if must_end and not ends:
        return Defect("truncated_answer", f"has no end of a sentence: {last}")
    for sentence in [text.plain, *text.sentences]:
        first = sentence[0]
        if not (first.isalnum() or first in "'‘“«"):
            return Defect("markup", f"has a sentence that begins with {first!r}")
    if must_begin and not begins:
        return Defect("truncated_answer", f"begins inside a sentence: {shown(text.line)}")
    return None


def _states(text: _Text) -> Defect | None:
    if text.form.shows_signs:
        return None
    for sentence in text.sentences:
        if re.search(r"[?？؟]", sentence) is not None:
            return Defect(
                "question", f"asks instead of stating: {shown(sentence)}", is_doubtful=True
            )
    return None


_SPEAKERS = {
    "en": "i i'm i've i'll i'd me my mine we we're we've our us you your yours you're you'd let's",
    "de": "ich mir mich mein meine meinen wir uns unser unsere du dein deine dir dich ihnen euch",
    "fr": "je j'ai moi mon ma nous notre nos tu toi ton vous votre vos",
    "es": "yo me mi mí nosotros nuestra nuestro tú usted ustedes vosotros",
    "it": "io mi mio mia noi nostro nostra tu tuo tua voi vostro",
    "pt": "eu me meu minha nós nosso nossa você vocês",
    "nl": "ik mij mijn wij we ons onze jij je jouw u uw",
    "zh": "我 我们 你 您 你们",
}
"""The first and the second person: a caption is in the third."""
_SEEING = re.compile(r"\b(?:we|you) (?:can |could |may |would )?(?:see|notice)\b", re.IGNORECASE)
"""How a text says that something is visible, which addresses nobody."""
_SUBJECT_WORDS = 5  # where the subject of a clause is; «a shirt that reads I can» is no address


def _is_in_third_person(text: _Text) -> Defect | None:
    language = text.form.language
    if text.form.shows_signs:
        return None
    speakers = frozenset(_SPEAKERS.get(language, "").split())
    for sentence in text.sentences:
        for clause in clauses_of(sentence):
            if is_written_without_spaces(language):
                said = [one for one in speakers if one in clause]
            else:
                words = _SEEING.sub("", clause.casefold().replace("’", "'")).split()
                said = [word for word in words[:_SUBJECT_WORDS] if word.strip(".!?") in speakers]
            if said and not speakers & set(text.like.casefold().split()):
                detail = f"speaks of its writer or reader: {shown(clause)}"
                return Defect("addresses_reader", detail, is_doubtful=True)
    return None


_SAME_WORDS_IN_A_ROW = re.compile(r"\b(\w+)(?:\W+\1\b){2}", re.IGNORECASE)
_FEWEST_REPEATED = 4
_REPEATED_RUN = 12  # words; shorter runs are the same in captions that set two things beside
_LOOPED_TIMES = 3


def _says_it_once(text: _Text) -> Defect | None:
    if (found := repetition_in(text.line)) is None or repetition_in(text.like) is not None:
        return None
    return Defect("repetition", f"says the same again: {shown(found)}")


def repetition_in(text: str) -> str | None:
    """Return words that a text repeats: a sentence, a long run, a clause or a word three times."""
    if (match := _SAME_WORDS_IN_A_ROW.search(text)) is not None and match[1].isalpha():
        return match.group()
    said = Counter(tuple(_folded(sentence)) for sentence in sentences_of(text))
    for words, times in said.items():
        if times > 1 and len(words) >= _FEWEST_REPEATED:
            return " ".join(words)
    clauses = Counter(tuple(_folded(clause)) for clause in _clauses(text))
    for words, times in clauses.items():
        if times >= _LOOPED_TIMES and len(words) >= _FEWEST_REPEATED:
            return " ".join(words)
    runs = Counter(_runs(_folded(text)))
    return next((" ".join(run) for run, times in runs.items() if times > 1), None)


def _clauses(text: str) -> Iterator[str]:
    for sentence in sentences_of(text):
        yield from clauses_of(sentence)


def _folded(text: str) -> list[str]:
    """Return the words of a text in small letters; each character where words have no spaces."""
    words = [word.casefold() for word in words_of(text)]
    if any(len(word) >= _REPEATED_RUN and not word.isascii() for word in words):
        return [character for word in words for character in word]
    return words


def _runs(words: list[str]) -> Iterator[tuple[str, ...]]:
    for start in range(len(words) - _REPEATED_RUN + 1):
        yield tuple(words[start : start + _REPEATED_RUN])


_VERY_SURE = 0.95
_FEWEST_WORDS = 3
_FEWEST_TO_GUESS = 5
_MOST_UNKNOWN = 0.45


def _is_in_language(text: _Text) -> Defect | None:
    language = text.form.language
    scripts = scripts_of(language)
    if text.form.shows_signs:
        return None
    for sentence in text.sentences:
        letters = "".join(LETTERS.findall(sentence.replace(_HIDDEN, "")))
        if not letters or sentence in text.like:
            continue
        if scripts:
            latin = sum(one.isascii() for one in letters)
            if latin > len(letters) / 2:
                return _wrong_language(sentence, "en", language)
            continue
        words = LETTERS.findall(sentence)
        if len(words) < _FEWEST_WORDS:
            continue
        guess, probability = guessed_language(sentence)
        if language == ENGLISH:
            if unknown_share(sentence, text.words_like) < _MOST_UNKNOWN:
                continue
            if guess == ENGLISH or probability < SURE:
                return Defect("gibberish", f"is not readable English: {shown(sentence)}")
            return _wrong_language(sentence, guess, language)
        if guess != language and probability >= _VERY_SURE and len(words) >= _FEWEST_TO_GUESS:
            return _wrong_language(sentence, guess, language)
    return None


def _wrong_language(sentence: str, found: str, wanted: str) -> Defect:
    detail = f"is in the language {found!r}, wanted {wanted!r}: {shown(sentence)}"
    return Defect("wrong_language", detail)


_RULES: tuple[Callable[[_Text], Defect | None], ...] = (
    _characters_print,
    _is_decoded,
    _is_paragraph,
    _is_not_wrapped,
    _says_something,
    _belongs_to_language,
    _is_spaced,
    _is_balanced,
    _is_not_a_quotation,
    _has_words,
    _is_no_list,
    _has_small_letters,
    _says_it_once,
    _is_in_language,
    _begins_and_ends,
    _has_no_labels,
    _states,
    _is_in_third_person,
)
_OF_SIGNS = _RULES.index(_is_spaced)

_MOST_SHOWN = 60


def shown(text: str) -> str:
    """Quote the beginning of a text for messages."""
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")


def _around(text: str, match: re.Match[str]) -> str:
    return shown(text[max(0, match.start() - 10) : match.end() + 10].strip())
