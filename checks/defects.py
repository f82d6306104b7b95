"""What a text is instead of a caption: a refusal, an announcement, an instruction, no grammar."""

import re
from itertools import pairwise

from loupe.checks.form import form_defect
from loupe.checks.language import ENGLISH, LETTERS
from loupe.checks.phrases import find_phrase
from loupe.checks.text import PROSE, Defect, Form, shown
from loupe.schemas.phrases import QUOTED


def text_defect(text: str, form: Form = PROSE, like: str = "") -> Defect | None:
    """Return why `text` cannot be stored, or None.

    Everything that a model writes is judged here, and so is every rewrite that is checked later.

    Args:
        text: a text as it was written.
        form: what is asked of it.
        like: a text that counts as right, such as the source of a rewrite.
    """
    refusal = refusal_in(text)
    if refusal is None and not form.is_shown:
        refusal = find_phrase("refusals", form.language, _own_words(text), like)
    if refusal is not None:
        return Defect("refusal", f"is a refusal: {shown(refusal)}")
    chatter = chatter_in(text)
    if form.sentences and not form.is_shown and (match := _AGREEMENT.search(text)) is not None:
        chatter = match.group()
    if chatter is not None:
        return Defect("chatter", f"begins with what is no part of it: {shown(chatter)}")
    match = None if form.shows_signs else _INSTRUCTION.search(text)
    if match is not None and match.group() not in like:
        return Defect("instruction_echo", f"repeats an instruction: {shown(match.group())}")
    defect = form_defect(text, form, like)
    if defect is not None and not defect.is_doubtful:
        return defect
    if form.language == ENGLISH and form.sentences and _is_degenerate(text):
        return Defect("gibberish", "strings words together without grammar")
    match = None if form.shows_signs else _OF_A_TEXT.search(outside_quotes(text))
    if match is not None and match.group() not in like:
        detail = f"speaks of a text: {shown(match.group())}"
        return Defect("speaks_of_text", detail, is_doubtful=True)
    return defect


_INSTRUCTION = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instructions?|prompts?|rules)\b"
    r"|\bsystem prompt\b|<\|im_(?:start|end)\|>|\[/?INST\]|<</?SYS>>"
    r"|\b(?:reorgani[sz]e|rewrite|rephrase|paraphrase) (?:the|this) (?:description|text)\b"
    r"|\bthe description in (?:your|my|other) (?:own )?words",
    re.IGNORECASE,
)

_OF_A_TEXT = re.compile(
    r"\b(?:the|this) (?:\w+ )?(?:description|caption|passage|rewrite)\b"
    r"|\bthe (?:\w+ )?(?:text|sentence) (?:describes|mentions|states|(?:says|tells|notes) that)\b"
    r"|(?:^|[.;]\s+)(?:please )?note that\b|\bit should be noted\b"
    r"|\b(?:is|are|was|were) (?:not|never) (?:\w+ly )?(?:mentioned|specified|stated|described)\b",
    re.IGNORECASE,
)


def outside_quotes(text: str) -> str:
    """Return `text` with a space for each quotation; the quoted text if there is no other."""
    text = text.strip()
    if (whole := QUOTED.fullmatch(text)) is not None:
        return whole.group()[1:-1].strip()
    return QUOTED.sub(" ", text)


# Find what a model writes instead of an answer: a refusal, or an announcement.
#
# Both are searched as a sentence or clause outside quotation marks, because a caption may well
# state that a card reads “I'm sorry”.

_CANNOT = (
    r"(?:i|we) (?:(?:can(?:no|')t|can not|won't|will not|do not|don't)"
    r"|(?:am|are|'m|'re) (?:not able|unable|not allowed|not permitted))"
)
_TASK = (
    r"help|assist|comply|provide|rewrite|fulfil|do (?:that|this)|create|generate|describe|identify"
    r"|recogni[sz]e|process|continue|share|see|view|write|make|answer|feel comfortable"
)
_CLAUSE = r"(?:^|[.!?;,]\s+|\s[–—-]\s|\b(?:but|so|and|however|unfortunately)\s+)"
_REFUSAL = re.compile(
    rf"{_CLAUSE}(?P<clause>(?:i am|i'm)(?: so| very| really)? sorry\b|sorry, (?:but )?(?:i|we)\b"
    rf"|i apologi[sz]e\b|my apologies\b|{_CANNOT} (?:to )?(?:{_TASK})\b"
    r"|(?:i am |i'm )?unable to (?:assist|help|comply|fulfil)|(?:this|that|it) (?:request )?"
    r"(?:violates|is against) (?:the |our |my )?(?:content polic|guidelines))"
    r"|(?P<own>\bas an ai\b|\bas a (?:large )?language model\b"
    r"|\bagainst (?:my|our) (?:guidelines|policy|programming|content polic))",
    re.IGNORECASE,
)
_CHATTER = re.compile(
    r"^(?:(?:sure|certainly|of course|okay|ok|absolutely|great)\b[,.!]*\s+)?"
    r"here(?:'s| is| are)\b[^:.]{0,80}\b(?:caption|description|version|rewrite|strateg|answer|json)"
    r"[^:.]{0,60}:|^(?:sure|certainly|of course)[,.!]+\s+(?:here|i)\b",
    re.IGNORECASE,
)
_AGREEMENT = re.compile(
    r"^(?:sure(?: thing)?|certainly|of course|absolutely|definitely|okay|ok|al?right|got it"
    r"|no (?:problem|worries)|understood|yes|well|gladly"
    r"|(?:great|good)(?: question)?|here you go|alternatively)\s?[,.!:–—-]+\s"
    r"|^(?:klar|gerne?|natürlich|sicher|selbstverständlich|kein problem|okay|ja)\s?[,.!:–—-]+\s",
    re.IGNORECASE,
)


def refusal_in(text: str) -> str | None:
    """Return the words by which a model refuses, or None if `text` is not a refusal."""
    match = _REFUSAL.search(_own_words(text))
    return (match["clause"] or match["own"]) if match else None


def chatter_in(text: str) -> str | None:
    """Return what a model says before it answers («Sure! Here is the caption:»), or None."""
    match = _CHATTER.search(_own_words(text))
    return match.group() if match else None


def _own_words(text: str) -> str:
    return outside_quotes(text).replace("’", "'")


_DETERMINERS = frozenset(("a", "an", "the", "his", "her", "their", "its", "this", "that", "my"))
_CLOSED = _DETERMINERS | frozenset(
    ("of", "with", "and", "or", "is", "are", "was", "were", "at", "for", "from", "to", "he", "she")
)
_MOST_IMPOSSIBLE = 0.17


def _is_degenerate(text: str) -> bool:
    """Whether words are in impossible places («the of», «a the»)."""
    words = [word.lower() for word in LETTERS.findall(text)]
    pairs = list(pairwise(words))
    if len(pairs) < 3:
        return len(words) < 2
    wrong = [one for one, other in pairs if one in _DETERMINERS and other in _CLOSED]
    varied = len(set(words)) / len(words)
    return len(wrong) / len(pairs) > _MOST_IMPOSSIBLE or (len(words) > 30 and varied < 0.2)
