"""The characters and signs of a text: only those of prose in its language, in their places.

Markup, addresses, labels and lists are refused because prose has no place for their signs, not
because they are on a list.
"""

import json
import re
import unicodedata

from loupe.checks.language import (
    ENGLISH,
    LETTERS,
    is_letter_of,
    is_written_without_spaces,
    scripts_of,
)
from loupe.checks.text import HIDDEN, Defect, Form, Text, shown, shown_around, words_of
from loupe.schemas.phrases import QUOTED

# Characters

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


def characters_print(text: Text) -> Defect | None:
    """Refuse invisible and invalid characters."""
    if (control := control_character(text.raw)) is None:
        return None
    return Defect("control_characters", f"holds the character U+{ord(control):04X}")


_WESTERN = bytes(range(0x80, 0x100)).decode("cp1252", "ignore")
_WESTERN_RUN = re.compile(f"[{re.escape(_WESTERN)}]{{2,}}")


_OF_TOKENS = re.compile("[ĠĊ]")
_MALTESE = "mt"


def is_decoded(text: Text) -> Defect | None:
    """Refuse UTF-8 that was read as a Western encoding («â€”»), and tokens («Ġred»)."""
    token = _OF_TOKENS.search(text.raw)
    if token is not None and text.form.language != _MALTESE and token.group() not in text.like:
        return Defect("mojibake", f"holds {token.group()!r}, which stands for a space in tokens")
    for match in _WESTERN_RUN.finditer(text.raw):
        try:
            match.group().encode("cp1252").decode("utf-8")
        except UnicodeError:
            continue
        return Defect("mojibake", f"holds {shown(match.group())}, which was decoded wrongly")
    return None


_SIGNS = frozenset(" .,;:!?'\"’‘“”„‚«»‹›()/&%°+×$€£¥–—-½¼¾²³′″#0123456789")
_WIDE_SIGNS = frozenset("、。，；：！？「」『』（）《》〈〉·～ー々—…“”‘’％")
_NEED_A_PLACE = frozenset("&#%°′″$€£¥×+/²³½¼¾")
_IN_PLACE = re.compile(
    r"""
    (?<=\s)&(?=\s) | (?<=[A-Z])&(?=[A-Z](?!\w*;))    # salt & pepper, B&W
    | \#(?=\d) | (?<=\d)[%°′″] | °(?=[CF]\b)         # #1, 50%, 30°, °C
    | [$€£¥](?=\s?\d) | (?<=\d)\s?[$€£¥]             # $5, 5 €
    | (?<=[\d\s])[×+](?=[\d\s]) | (?<=\w)\+(?!\w)    # 3 × 4, 18+
    | (?<=\w)\s?/\s?(?=\w)                           # and/or
    | (?<=\d)[½¼¾] | [½¼¾] | (?<=m)[²³]              # 1½, 12 m²
    """,
    re.VERBOSE,
)


def belongs_to_language(text: Text) -> Defect | None:
    """Refuse letters of other scripts, and signs that prose has no place for."""
    places = set[int]()
    for match in _IN_PLACE.finditer(text.plain):
        places.update(range(*match.span()))
    for at, character in enumerate(text.plain):
        if _is_of_script(character, text.form.language):
            continue
        if character.isalpha() and character in text.like:
            continue
        if not _is_sign(character, text.form, is_in_place=at in places):
            return _foreign_character(text.plain, at)
    return None


def _is_of_script(character: str, language: str) -> bool:
    if is_letter_of(character, language) or character in _JOINERS:
        return True
    scripts = scripts_of(language)
    if scripts & {"CJK", "Hiragana", "Hangul"} and character in _WIDE_SIGNS:
        return True
    return bool(scripts) and unicodedata.category(character) == "Nd"


def _is_sign(character: str, form: Form, *, is_in_place: bool) -> bool:
    if form.shows_signs:
        return character in _SIGNS or not _is_picture(character)
    return character in _SIGNS and (is_in_place or character not in _NEED_A_PLACE)


def _is_picture(character: str) -> bool:
    return not character.isascii() and unicodedata.category(character) in ("So", "Sk")


def _foreign_character(plain: str, at: int) -> Defect:
    character = plain[at]
    around = shown_around(plain, at, at)
    if character.isalpha():
        name = unicodedata.name(character, "an unnamed letter").lower()
        return Defect("wrong_language", f"holds a letter of another script ({name}): {around}")
    return Defect("markup", f"holds {character!r}, which has no place in a sentence: {around}")


def says_something(text: Text) -> Defect | None:
    """Refuse a text without letters, unless it shows signs."""
    if LETTERS.search(text.line) is not None or (text.form.shows_signs and text.words):
        return None
    return Defect("no_words", f"holds no words: {shown(text.line)}")


# Lines, and what a whole text is wrapped in

_LIST_LINE = re.compile(r"^\s*(?:[-*+•·–—>#|]+\s|\(?\d{1,2}[.):]\s)", re.MULTILINE)
_LINE_BREAK = re.compile(r"(?P<before>[^\n]*)\n\s*(?P<next>\S)")
_ENDS_OF_LINES = ".!?。！？…\"”»')"


def is_paragraph(text: Text) -> Defect | None:
    """Refuse lists, headings, and lines that do not go on in the next one."""
    raw = text.raw.strip()
    if (item := _LIST_LINE.search(raw)) is not None:
        return Defect("markup", f"holds a list or a heading: {shown(raw[item.start() :].strip())}")
    for match in _LINE_BREAK.finditer(raw):
        before = match["before"].rstrip()
        ends = not before or before[-1] in _ENDS_OF_LINES
        if not ends and not match["next"].islower():
            return Defect("markup", f"holds separate lines: {shown(before)}")
    return None


_EMPHASIS = re.compile(r"(\*\*|__|\*)(?=\S)(?:(?!\1).)+\1")
_OPENED = re.compile(r"<\s*(?:think|thinking|reasoning|thought|analysis|answer|caption)\b")


def is_not_wrapped(text: Text) -> Defect | None:
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


_MOST_QUOTED = 0.6


def is_not_a_quotation(text: Text) -> Defect | None:
    """Refuse a text that is in quotation marks as a whole, or nearly."""
    quoted = sum(len(match.group()) for match in QUOTED.finditer(text.line))
    if quoted <= _MOST_QUOTED * len(text.line):
        return None
    return Defect("markup", "is in quotation marks as a whole")


# Signs that belong together, and those that set a part apart

_TOO_CLOSE = re.compile(
    r"""
    [^\W\d_]{2,}[.!?;:](?=[^\W\d_]{2})    # example.com
    | [,;:!?]{2,} | \.{2,} | …            # ??, ...
    | --+(?!\s) | (?<!\s)--+ | -{3,}      # --option
    | \w\((?!s\)) | ,(?=[^\W\d_])         # call(, red,blue
    | [A-Za-z]'(?=[\u0370-\uffff])        # f'…' around letters of another script
    | // | (?:^|\s)/ | \d:\d+:\d          # /data, 00:00:01
    | \s[.,](?=\s|$)
    | [^\W\d_]-\s(?!(?:and|or|to|und|oder|bis|et|ou|e|o|y|en|of)\b)[^\W\d_]
    """,
    re.VERBOSE,
)


def is_spaced(text: Text) -> Defect | None:
    """Refuse signs that run into each other or into words, as in addresses and programs."""
    match = _TOO_CLOSE.search(text.plain)
    if match is None or match.group() in text.like:
        return None
    return Defect("markup", f"is not spaced as prose is: {shown_around(text.plain, *match.span())}")


_PAIRS = ("()", "“”", "«»", "「」", "『』", "《》", "（）")
_INCHES = re.compile(r"(?<=\d)[\"”]")


def is_balanced(text: Text) -> Defect | None:
    """Refuse a bracket or a quotation mark without its other half."""
    line = text.line
    for pair in _PAIRS:
        opening, closing = pair[0], pair[1]
        is_german = opening == "“" and "„" in line  # which “ closes
        if line.count(opening) != line.count(closing) and not is_german:
            return Defect("markup", f"opens or closes {opening}{closing} only once")
    if line.count('"') % 2 and _INCHES.sub("", line).count('"') % 2:
        return Defect("markup", "holds a quotation mark without its other half")
    return None


_ENUMERATED = re.compile(
    r"(?:^|[.;:!?,]\s+)\(?(?:\d{1,2}|[a-z]|[ivx]{1,4})[.)]\s+(?=\S)|\([a-z\d]\)"
)


def is_no_list(text: Text) -> Defect | None:
    """Refuse items that are numbered inside a line."""
    if (match := _ENUMERATED.search(text.plain)) is None:
        return None
    return Defect("markup", f"is a list: {shown_around(text.plain, *match.span())}")


_FEWEST_BEFORE_COLON = 3
_FEWEST_LETTERS_BEFORE_COLON = 6  # of a script without spaces
_COLON = re.compile(r"(?P<before>[^:：.;；。!?]*)(?P<colon>[:：])\s*(?P<next>\S?)")
_TIME = re.compile(r"\d[:：]\d")
_STEM = 5  # letters


def has_no_labels(text: Text) -> Defect | None:
    """Refuse what stands before a colon unless it is a clause that goes on after it."""
    plain = _TIME.sub("00", text.plain)
    for match in _COLON.finditer(plain):
        before = match["before"].strip()
        is_label = _is_short(before, text.form.language)
        if text.form.language == ENGLISH and match["next"].isupper():
            is_label = is_label or not plain.startswith(HIDDEN, match.end() - 1)
        if is_label and _is_said(before, text):
            continue
        if is_label or not match["next"]:
            said = shown(before + match["colon"])
            return Defect("markup", f"holds a label: {said}", is_doubtful=True)
    return None


def _is_short(before: str, language: str) -> bool:
    if not is_written_without_spaces(language):
        return len(before.split()) < _FEWEST_BEFORE_COLON
    letters = sum(one.isalpha() and not one.isascii() for one in before)
    return letters < _FEWEST_LETTERS_BEFORE_COLON


def _is_said(words: str, text: Text) -> bool:
    """Whether the source has these words, in any of their forms."""
    said = {word.casefold()[:_STEM] for word in text.words_like}
    return bool(words) and all(word.casefold()[:_STEM] in said for word in words_of(words))
