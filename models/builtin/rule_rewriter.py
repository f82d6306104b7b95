"""The built-in rewriter: rewrites a description of a person by rules, offline."""

import json
import re
from random import Random

from models.builtin.chat import BuiltinChatModel
from models.builtin.person.composer import Composer
from models.builtin.person.description import Description
from models.builtin.person.parser import parse_description
from schemas.base import digest_of
from schemas.chat import ChatRequest
from schemas.faithfulness import Attribute
from schemas.profile import BuiltinRewriter

_LAST_PLACE = re.compile(
    r"^(?P<what>.+?) "
    r"(?P<where>(?:on|in|at|near|next to|under|behind) (?:an?|the)(?: (?!of\b)\w+){1,3})$"
)
_ENOUGH_FACTS = 3
_TOO_MUCH_UNKNOWN = 0.34
_SOME_PLACE = re.compile(r"\b(?:on|in|at|near|next|under|behind|by|that|of|and)$")
_COMMON_STARTS = frozenset((
    "a", "an", "the", "this", "these", "some", "there", "several", "many", "one", "two", "three",
    "four", "people", "men", "women", "kids", "children", "man", "woman", "view", "group",
))  # fmt: skip


class RuleRewriter(BuiltinChatModel[BuiltinRewriter]):
    """Rewrites the subject of each request and answers `{"rewrite": …}`.

    It parses the facts of the description and composes them again, in another order and other
    sentences. It leaves out what it did not parse, and adds nothing.
    """

    def text_for(self, request: ChatRequest) -> str:
        """Return the rewrite as JSON."""
        return json.dumps({"rewrite": self.rewrite(request.subject)}, ensure_ascii=False)

    def rewrite(self, description: str) -> str:
        """Rewrite `description` in other words."""
        specification = self._specification
        draw = Random(digest_of(str(specification.seed), specification.style, description))  # noqa: S311 - a choice of words
        parsed = parse_description(description)
        if _is_of_a_person(parsed):
            return Composer(parsed, specification.style, draw).compose()
        return _turned_around(description, draw)


def _is_of_a_person(parsed: Description) -> bool:
    """Whether the parsed facts cover enough of the text."""
    facts = parsed.facts()
    if len(facts) < _ENOUGH_FACTS or parsed.unknown_share >= _TOO_MUCH_UNKNOWN:
        return False
    return any(fact.attribute in (Attribute.GARMENT, Attribute.FOOTWEAR) for fact in facts)


def _turned_around(text: str, draw: Random) -> str:
    """Rewrite any other caption: its place first, or introduced as an image."""
    sentence = " ".join(text.split()).rstrip(".")
    place = _LAST_PLACE.match(sentence)
    if place is not None and not _SOME_PLACE.search(place["what"]) and draw.random() < 0.5:
        return f"{_capital(place['where'])}, {_lower(place['what'])}."
    opening = draw.choice(("In the image,", "In the picture,", "As the picture shows,"))
    return f"{opening} {_lower(sentence)}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lower(text: str) -> str:
    """Lower-case the first word if it is a common one; names keep their capital."""
    common = text.split(" ", 1)[0].lower() in _COMMON_STARTS
    return text[:1].lower() + text[1:] if common else text
