"""Inside a noun phrase: articles, and the commas and conjunctions between modifiers."""

from models.builtin.person.lexicon import Tag
from models.builtin.person.mentions import Mention
from models.builtin.person.parser.attributes import state_sex
from models.builtin.person.parser.items import take_other
from models.builtin.person.parser.predicates import end_predicate
from models.builtin.person.parser.reading import MODIFIERS, Reading

_PREDICATE_GOES_ON = MODIFIERS | {Tag.AND}


def take_article(reading: Reading, mention: Mention) -> None:
    """«A», «the»; «one» is an article or, after modifiers, a noun."""
    if mention.phrase == "one" and (
        reading.phrase.modifiers or Tag.DEFINITE in reading.at(-1).tags
    ):
        take_other(reading, mention)
        return
    _begin(reading, definite=Tag.DEFINITE in mention.tags)


def take_possessive(reading: Reading, mention: Mention) -> None:
    """«His», «her»: an article that tells the sex."""
    _begin(reading, definite=True)
    state_sex(reading, mention.value(Tag.POSSESSIVE), mention.span)


def take_conjunction(reading: Reading, mention: Mention) -> None:
    """A comma, «and», «or»: inside a noun phrase, at its end, or between two."""
    is_comma = Tag.COMMA in mention.tags
    if not reading.phrase.modifiers:
        if Tag.AND in mention.tags and reading.at(-1).has(Tag.ITEM, Tag.PART):
            reading.and_after_head = True
    elif _ends_phrase(reading, mention):
        end_predicate(reading)
    else:
        reading.joining.add(reading.position)
    if is_comma and not reading.phrase.modifiers:
        reading.carrying = reading.after_with = False
    if reading.negated and mention.phrase != "or":
        reading.negated = mention.phrase == "nor"


def _begin(reading: Reading, *, definite: bool) -> None:
    end_predicate(reading)
    reading.phrase.definite, reading.phrase.indefinite = definite, not definite
    reading.and_after_head = False


def _ends_phrase(reading: Reading, mention: Mention) -> bool:
    """Whether a comma or conjunction after modifiers ends them: no head follows, nor colour."""
    follows, before = reading.at(1), reading.phrase.before
    is_comma, head_ahead = Tag.COMMA in mention.tags, reading.head_ahead()
    if Tag.AND in mention.tags and follows.has(Tag.COLOUR, Tag.SHADE) and not head_ahead:
        return False
    if before.phrase == "in" and reading.last is not None and (is_comma or _is_list(reading)):
        return Tag.AND not in follows.tags
    if is_comma and Tag.OF in before.tags:
        return True
    if Tag.MATERIAL in reading.phrase.modifiers[-1].tags and before.has(Tag.WITH, Tag.OF):
        return True
    predicate_ends = reading.copula and is_comma
    return not head_ahead or (predicate_ends and not follows.among(_PREDICATE_GOES_ON))


def _is_list(reading: Reading) -> bool:
    """Whether the modifiers so far were joined: «in red, white and …»."""
    start = reading.mentions.index(reading.phrase.modifiers[0])
    return any(start <= position < reading.position for position in reading.joining)
