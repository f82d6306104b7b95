"""Between noun phrases: verbs, prepositions, «with», «is», «it», and the ends of sentences."""

from models.builtin.person.description import Role
from models.builtin.person.lexicon import Tag
from models.builtin.person.mentions import Mention
from models.builtin.person.parser.predicates import end_predicate
from models.builtin.person.parser.reading import Reading

_HAVE = ("has", "have", "had", "having")
_HOLDING = ("hold", "held", "carr", "grip", "clutch", "grasp", "tot")


def take_stop(reading: Reading, _mention: Mention) -> None:
    """The end of a sentence."""
    end_predicate(reading)
    reading.end_sentence()


def take_boundary(reading: Reading, mention: Mention) -> None:
    """A verb, a preposition: the noun phrase before is over, and something new is said."""
    end_predicate(reading)
    if Tag.WITH in mention.tags:
        _take_with(reading, mention)
    if Tag.CARRY in mention.tags:
        reading.carrying = mention.phrase.startswith(_HOLDING)
    if mention.phrase != "in" and mention.has(Tag.WEAR, Tag.CARRY):
        reading.after_with = reading.copula = False
    reading.and_after_head = False


def take_of(reading: Reading, _mention: Mention) -> None:
    """«Of» ends a noun phrase, and leaves open what it belongs to."""
    end_predicate(reading)


def take_negation(reading: Reading, _mention: Mention) -> None:
    """«No», «without»: of the next head."""
    end_predicate(reading)
    reading.negated = True


def take_it(reading: Reading, _mention: Mention) -> None:
    """«It», «which»: the item in focus."""
    end_predicate(reading)
    reading.subject = [reading.focus] if reading.focus else []
    if reading.focus:
        reading.owner = reading.focus
    reading.copula = False


def take_copula(reading: Reading, _mention: Mention) -> None:
    """«Is»: the next modifiers are said of the subject."""
    end_predicate(reading)
    reading.copula = True
    reading.after_with = False


def take_nothing(_reading: Reading, _mention: Mention) -> None:
    """Words that change nothing: «very», «colour», «pair»."""


def _take_with(reading: Reading, mention: Mention) -> None:
    """«With» goes on about the thing before; «has» about its subject, often the person."""
    subject = reading.subject[0] if reading.subject else None
    has = mention.phrase in _HAVE
    of_person = subject is None or subject.role is not Role.ITEM
    reading.after_with = not (has and of_person)
    if has and not of_person:
        reading.owner = subject
