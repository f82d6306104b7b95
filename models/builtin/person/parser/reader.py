"""Reads a description from left to right and notes what it states of the person."""

from collections.abc import Callable
from functools import cache, lru_cache

from models.builtin.person.description import Description, Role, Thing
from models.builtin.person.lexicon import Tag
from models.builtin.person.lexicon_file import load_lexicon
from models.builtin.person.mentions import Mention, find_mentions
from models.builtin.person.parser.clauses import (
    take_boundary,
    take_copula,
    take_it,
    take_negation,
    take_nothing,
    take_of,
    take_stop,
)
from models.builtin.person.parser.items import take_item, take_other
from models.builtin.person.parser.noun_phrases import (
    take_article,
    take_conjunction,
    take_possessive,
)
from models.builtin.person.parser.parts import take_part, take_pattern_noun
from models.builtin.person.parser.people import (
    take_action,
    take_figure,
    take_hair,
    take_hair_style,
    take_person,
    take_pronoun,
    take_skin,
)
from models.builtin.person.parser.postmodifiers import take_level, take_sleeve
from models.builtin.person.parser.predicates import end_predicate
from models.builtin.person.parser.reading import MODIFIERS, Reading
from models.builtin.person.parser.sides import take_body, take_side
from schemas.faithfulness import Fact

_KEPT = 2048  # descriptions: a few megabytes, and more than a chunk of work repeats
_Handler = Callable[[Reading, Mention], None]

# A word of several meanings is taken as the first of them.
_HANDLERS: tuple[tuple[frozenset[Tag], _Handler], ...] = (
    (frozenset((Tag.STOP,)), take_stop),
    (frozenset((Tag.SIDE,)), take_side),
    (frozenset((Tag.ITEM,)), take_item),
    (frozenset((Tag.PART,)), take_part),
    (frozenset((Tag.PATTERN_NOUN,)), take_pattern_noun),
    (frozenset((Tag.SLEEVE,)), take_sleeve),
    (frozenset((Tag.HAIR,)), take_hair),
    (frozenset((Tag.SKIN,)), take_skin),
    (frozenset((Tag.FIGURE,)), take_figure),
    (frozenset((Tag.PERSON,)), take_person),
    (MODIFIERS, Reading.take_modifier),
    (frozenset((Tag.HAIR_STYLE,)), take_hair_style),
    (frozenset((Tag.ACTION,)), take_action),
    (frozenset((Tag.LEVEL,)), take_level),
    (frozenset((Tag.PRONOUN,)), take_pronoun),
    (frozenset((Tag.POSSESSIVE,)), take_possessive),
    (frozenset((Tag.INDEFINITE, Tag.DEFINITE)), take_article),
    (frozenset((Tag.IT,)), take_it),
    (frozenset((Tag.BE,)), take_copula),
    (frozenset((Tag.AND, Tag.COMMA)), take_conjunction),
    (frozenset((Tag.FILLER, Tag.COLOUR_NOUN)), take_nothing),
    (frozenset((Tag.OF,)), take_of),
    (frozenset((Tag.NEGATION,)), take_negation),
    (frozenset((Tag.BODY,)), take_body),
    (frozenset((Tag.OTHER,)), take_other),
)


@lru_cache(maxsize=_KEPT)
def parse_description(text: str) -> Description:
    """What `text` states of the person that it describes; empty for a text about something else.

    The same text gives the same object, which callers share and do not change.
    """
    lexicon = load_lexicon()
    mentions = find_mentions(text, lexicon)
    description = Description(text, Thing(Role.PERSON, "person"), Thing(Role.HAIR, "hair"))
    colours = (mention for mention in mentions if Tag.COLOUR in mention.tags)
    description.colours = [(mention.values[Tag.COLOUR], mention.span) for mention in colours]
    unknown = [mention for mention in mentions if Tag.OTHER in mention.tags]
    description.unknown_share = len(unknown) / max(1, len(mentions))
    reading = Reading(lexicon, mentions, description)
    for reading.position, mention in enumerate(mentions):
        _handler_of(mention.tags)(reading, mention)
    end_predicate(reading)
    return description


def extract_facts(text: str) -> tuple[Fact, ...]:
    """The facts that `text` states of a person, in order of appearance."""
    return parse_description(text).facts()


@cache
def _handler_of(tags: frozenset[Tag]) -> _Handler:
    """What takes a word of these meanings."""
    chosen = (handler for wanted, handler in _HANDLERS if not tags.isdisjoint(wanted))
    return next(chosen, take_boundary)
