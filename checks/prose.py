"""The words and sentences of a text: words of its language, in sentences that state something."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from loupe.checks.grammar import unknown_share
from loupe.checks.language import (
    ENGLISH,
    LETTERS,
    MARKS,
    SURE,
    function_words,
    guessed_language,
    has_capitals,
    is_written_without_spaces,
    scripts_of,
)
from loupe.checks.text import (
    HIDDEN,
    Defect,
    Text,
    clauses_of,
    sentences_of,
    shown,
    shown_around,
    words_of,
)

# Words

_MIXED = re.compile(r"[^\W\d_]\d+[^\W\d_]|\d[^\W\d_]+\d")
_THRICE = re.compile(r"([^\W\d_A-Z])\1\1")
_LONGEST_WORD = 45  # characters; German compounds and chains of hyphens stay below it
_ODD_CASE = re.compile(r"[a-z]+[A-Z]+[a-z]+[A-Z]|[A-Z]+[a-z]+[A-Z]+[a-z]+[A-Z]|[a-z]{2,}[A-Z]{2,}")
_SPELLED_OUT = re.compile(r"(?:(?<!\w)[^\W\d_] ){4}")
_MOST_HYPHENS = 4  # of a word («black-and-white-checked»)
_SPELLED_OUT_ENGLISH = re.compile(r"(?:(?<![\w'’])[^\W\d_] ){2}[^\W\d_](?!\w)")


def has_words(text: Text) -> Defect | None:
    """Refuse letters that are no words: l33t, stretched words, letters of odd case or spaced."""
    language = text.form.language
    spelled_out = _SPELLED_OUT_ENGLISH if language == ENGLISH else _SPELLED_OUT
    match = spelled_out.search(text.plain)
    if match is not None and match.group() not in text.like:
        return Defect("gibberish", "spells its words letter by letter")
    if is_written_without_spaces(language):
        return None
    for word in text.words:
        if word in text.words_like:
            continue
        is_chain = word.count("-") > _MOST_HYPHENS or len(word) > _LONGEST_WORD
        if is_chain or _MIXED.search(word) or _THRICE.search(word):
            return Defect("gibberish", f"holds {shown(word)}, which is no word")
        if _ODD_CASE.search(word):
            return Defect("gibberish", f"holds {shown(word)}, in letters of odd case")
    return None


_MOST_CAPITALS = 0.5
_MOST_TITLED = 0.8
_FEWEST_TITLED = 5
_SHORT_WORD = 3  # letters; titles may leave such words small
_CAPITAL_NOUNS = "de"
_FEWEST_SMALL = 3


def has_small_letters(text: Text) -> Defect | None:
    """Refuse sentences in capital letters, or set like a title."""
    form = text.form
    if not has_capitals(form.language):
        return None
    for sentence in text.sentences:
        words = [word for word in _letters_of(sentence) if word not in text.like]
        if _is_in_capitals("".join(words)):
            return Defect("all_capitals", f"is in capital letters: {shown(sentence)}")
        if form.sentences and _is_titled(words[1:], form.language):
            return Defect("all_capitals", f"is set like a title: {shown(sentence)}")
    return None


def _letters_of(sentence: str) -> list[str]:
    return LETTERS.findall(sentence.replace(HIDDEN, ""))


def _is_in_capitals(letters: str) -> bool:
    capitals = sum(map(str.isupper, letters))
    return len(letters) > 1 and capitals > _MOST_CAPITALS * len(letters)


def _is_titled(words: Iterable[str], language: str) -> bool:
    """Whether words inside a sentence begin with capitals; in German only function words count."""
    if language == _CAPITAL_NOUNS:
        small = function_words(language)
        counted, fewest = [word for word in words if word.casefold() in small], _FEWEST_SMALL
    else:
        counted, fewest = [word for word in words if len(word) > _SHORT_WORD], _FEWEST_TITLED
    titled = sum(word[0].isupper() for word in counted)
    return len(counted) >= fewest and titled >= _MOST_TITLED * len(counted)


# Repetition

_LETTER, _BETWEEN = rf"[\w{MARKS}]", rf"[^\w{MARKS}]+"
_LOOP = re.compile(
    rf"(?<!{_LETTER})({_LETTER}+(?:{_BETWEEN}{_LETTER}+){{0,3}})(?:{_BETWEEN}\1(?!{_LETTER})){{2}}",
    re.IGNORECASE,
)
"""One to four words that are said three times in a row."""
_FEWEST_REPEATED = 4
_REPEATED_RUN = 12  # words; shorter runs are the same in captions that set two things beside
_LOOPED_TIMES = 3


def says_it_once(text: Text) -> Defect | None:
    """Refuse a text that repeats itself, unless the text that it is made from does."""
    if (found := repetition_in(text.line)) is None or repetition_in(text.like) is not None:
        return None
    return Defect("repetition", f"says the same again: {shown(found)}")


def repetition_in(text: str) -> str | None:
    """Return words that a text repeats: a sentence, a long run, a clause or a few words thrice."""
    for match in _LOOP.finditer(text):
        if not re.search(r"[\d_]", match[1]):
            return match.group()
    sentences = sentences_of(text)
    clauses = [clause for sentence in sentences for clause in clauses_of(sentence)]
    return (
        _repeated(sentences, 2) or _repeated(clauses, _LOOPED_TIMES) or _repeated_run(_folded(text))
    )


def _repeated(parts: Iterable[str], least_times: int) -> str | None:
    """Return the words of the first longer part that is there so many times."""
    counts = Counter(tuple(_folded(part)) for part in parts)
    for words, times in counts.items():
        if times >= least_times and len(words) >= _FEWEST_REPEATED:
            return " ".join(words)
    return None


def _repeated_run(words: list[str]) -> str | None:
    for run, times in Counter(_runs(words)).items():
        if times > 1:
            return " ".join(run)
    return None


def _runs(words: list[str]) -> Iterator[tuple[str, ...]]:
    for start in range(len(words) - _REPEATED_RUN + 1):
        yield tuple(words[start : start + _REPEATED_RUN])


def _folded(text: str) -> list[str]:
    """Return the words of a text in small letters; each character where words have no spaces."""
    words = [word.casefold() for word in words_of(text)]
    if any(len(word) >= _REPEATED_RUN and not word.isascii() for word in words):
        return [*"".join(words)]
    return words


# Language

_LATIN_WORDS = re.compile(r"(?:(?<![A-Za-z])[a-z]{2,}\W+){2}[a-z]{2,}(?![A-Za-z])")
"""Words in small Latin letters, which are no names; one or two may be."""
_VERY_SURE = 0.95
_FEWEST_WORDS = 3
_FEWEST_TO_GUESS = 5
_MOST_UNKNOWN = 0.45


def is_in_language(text: Text) -> Defect | None:
    """Refuse a sentence in another language than that of the dataset."""
    language = text.form.language
    for sentence in text.sentences:
        letters = "".join(_letters_of(sentence))
        if not letters or sentence in text.like:
            continue
        if scripts_of(language):
            is_latin = sum(one.isascii() for one in letters) > len(letters) / 2
            is_other = is_latin or _LATIN_WORDS.search(sentence) is not None
            found = _wrong_language(sentence, ENGLISH, language) if is_other else None
        elif len(LETTERS.findall(sentence)) < _FEWEST_WORDS:
            continue
        elif language == ENGLISH:
            found = _other_than_english(sentence, text.words_like)
        else:
            found = _other_than(language, sentence)
        if found is not None:
            return found
    return None


def _other_than_english(sentence: str, known: frozenset[str]) -> Defect | None:
    if unknown_share(sentence, known) < _MOST_UNKNOWN:
        return None
    guess, probability = guessed_language(sentence)
    if guess == ENGLISH or probability < SURE:
        return Defect("gibberish", f"is not readable English: {shown(sentence)}")
    return _wrong_language(sentence, guess, ENGLISH)


def _other_than(language: str, sentence: str) -> Defect | None:
    guess, probability = guessed_language(sentence)
    is_sure = probability >= _VERY_SURE and len(LETTERS.findall(sentence)) >= _FEWEST_TO_GUESS
    return _wrong_language(sentence, guess, language) if guess != language and is_sure else None


def _wrong_language(sentence: str, found: str, wanted: str) -> Defect:
    detail = f"is in the language {found!r}, wanted {wanted!r}: {shown(sentence)}"
    return Defect("wrong_language", detail)


# Sentences

_FINAL_STOP = re.compile(r"[.!。！।۔؟][\"'”’»)」』）]*$")
_LEFT_OPEN = re.compile(
    r"(?:[,;:–—-]|(?<!\w)(?:a|an|the|and|or|of|with|der|die|das|ein|eine|und|mit))[.]?$"
)


def begins_and_ends(text: Text) -> Defect | None:
    """Refuse a text that breaks off, or does not begin and end as the text it is made from does."""
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


_QUESTION = re.compile(r"[?？؟]")


def states(text: Text) -> Defect | None:
    """Refuse questions."""
    for sentence in text.sentences:
        if _QUESTION.search(sentence) is not None:
            detail = f"asks instead of stating: {shown(sentence)}"
            return Defect("question", detail, is_doubtful=True)
    return None


_AFTER_COMMA = re.compile(r",\s+([^\W\d_]+)")


def goes_on_after_commas(text: Text) -> Defect | None:
    """Refuse a sentence that begins after a comma, as in an answer («Hey there, The man …»)."""
    if not text.form.sentences:
        return None
    small = function_words(text.form.language)
    for match in _AFTER_COMMA.finditer(text.plain):
        word = match[1]
        is_capital = word[0].isupper() and word != "I" and word not in text.words_like
        if is_capital and word.casefold() in small:
            around = shown_around(text.plain, *match.span())
            return Defect("markup", f"begins again after a comma: {around}", is_doubtful=True)
    return None


_SPEAKERS = {
    "en": "i i'm i've i'll i'd me my mine we we're we've our us you your yours you're you'd let's",
    "de": "ich mir mich mein meine meinen wir uns unser unsere du dein deine dir dich euch",
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


def is_in_third_person(text: Text) -> Defect | None:
    """Refuse a text that speaks of its writer or reader, unless the one it is made from does."""
    language = text.form.language
    speakers = frozenset(_SPEAKERS.get(language, "").split())
    if speakers & set(text.like.casefold().split()):
        return None
    for sentence in text.sentences:
        for clause in clauses_of(sentence):
            if _names_speaker(clause, speakers, language):
                detail = f"speaks of its writer or reader: {shown(clause)}"
                return Defect("addresses_reader", detail, is_doubtful=True)
    return None


def _names_speaker(clause: str, speakers: frozenset[str], language: str) -> bool:
    if is_written_without_spaces(language):
        return any(one in clause for one in speakers)
    words = _SEEING.sub("", clause.casefold().replace("’", "'")).split()
    return any(word.strip(".!?") in speakers for word in words[:_SUBJECT_WORDS])
