"""Find words of a rewrite that its source has nowhere: a safety net for errors of the parser."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, permutations

from models.builtin.person.description import Description, Place
from models.builtin.person.lexicon import INSIDE, Mention, Tag, load_lexicon
from schemas.faithfulness import Attribute, Fact, Finding, Span

LEXICON = load_lexicon()
_KEPT_PHRASES = 8192


def find_stray_words(
    source: Description, rewrite: Description, reported: Collection[Span]
) -> Iterator[Finding]:
    """Find words that the source has nowhere, except at spans that are `reported` already."""
    for find in _SEARCHES:
        yield from find(source, rewrite, reported)


def _strange_colours(
    source: Description, rewrite: Description, reported: Collection[Span]
) -> Iterator[Finding]:
    """Find colours that the source has nowhere, except at spans that are `reported` already.

    Colours of skin are left to the comparison of persons, because they have words of their own.
    """
    known = {colour for colour, _ in source.colours}
    if len(known) > 1:
        known.add("multicoloured")
    elsewhere = {fact.span for fact in rewrite.person.all(Attribute.SKIN)} | set(reported)
    for colour, span in rewrite.colours:
        if has_colour(known, colour):
            continue
        if not any(start <= span[0] < end for start, end in elsewhere):
            yield added(word_fact(Attribute.COLOUR, colour, span))


def _strange_numbers(
    source: Description, rewrite: Description, reported: Collection[Span]
) -> Iterator[Finding]:
    """Find numbers that the source does not have: of things it has one of, or in digits."""
    known = {value for value, _ in source.named[Tag.NUMBER]}
    known |= {"2"} if any(Tag.PAIR in mention.tags for mention in source.mentions) else set()
    nouns = [(_key(mention), mention.phrase.endswith("s")) for mention in source.mentions]
    counted = {
        _counted(source.mentions, place)
        for place, mention in enumerate(source.mentions)
        if Tag.NUMBER in mention.tags
    }
    for place, mention in enumerate(rewrite.mentions[:-1]):
        number = mention.value(Tag.NUMBER)
        if mention.phrase == "one" and Tag.BODY in rewrite.mentions[place + 1].tags:
            number = "" if has_word(rewrite.text, "other") else "1"
        said = number in known or has_word(source.text, mention.phrase)
        if not number or said or mention.span in reported:
            continue
        noun = _counted(rewrite.mentions, place)
        plurals = [plural for key, plural in nouns if LEXICON.is_a(key, noun)]
        if number.isdigit() and len(plurals) >= int(number) > 1:
            continue
        one_or_many = bool(plurals) and all(plural == (number == "1") for plural in plurals)
        if mention.phrase.isdigit() or noun in counted or one_or_many:
            yield added(word_fact(Attribute.COUNT, mention.phrase, mention.span))


def _counted(mentions: Sequence[Mention], place: int) -> str:
    """Return the noun of the number at `place`."""
    through = INSIDE | {Tag.COLOUR, Tag.FILLER}
    return next((_key(one) for one in mentions[place + 1 :] if not one.among(through)), "")


_NOUNS = (*(Tag.ITEM, Tag.PART, Tag.BODY, Tag.LEVEL, Tag.THING, Tag.HAIR_STYLE, Tag.PATTERN_NOUN),)


def _key(mention: Mention) -> str:
    """Return what words of equal meaning share."""
    named = (mention.value(tag) for tag in _NOUNS)
    return next(filter(None, named), mention.phrase)


def _strange_places(
    source: Description, rewrite: Description, reported: Collection[Span]
) -> Iterator[Finding]:
    """Find places of the body that the source has nowhere and that its items do not imply."""
    known = {_place(mention.phrase) for mention in source.mentions}
    known |= {_place(word) for mention in source.mentions for word in mention.phrase.split()}
    for place, mention in enumerate(rewrite.mentions):
        body = _place(mention.phrase)
        before = rewrite.mentions[max(0, place - 3) : place]
        if not body or mention.span in reported or body in known:
            continue
        if body in _implied_places(rewrite.mentions, place):
            continue
        near = any(LEXICON.same_place(body, other) for other in known)
        if not near and any(one.has(*_LEADS_TO_PLACE) for one in before):
            yield added(word_fact(Attribute.PLACE, mention.phrase, mention.span))


_LEADS_TO_PLACE = (Tag.PREPOSITION, Tag.WEAR, Tag.COVERING)


def _implied_places(mentions: Sequence[Mention], place: int) -> set[str]:
    """Return the places of the body where something in the sentence usually is."""
    implied = set(LEXICON.slot_places["person"])
    for step in (mentions[place::-1], mentions[place:]):
        for mention in step:
            if Tag.STOP in mention.tags:
                break
            kind = mention.value(Tag.ITEM)
            slot = "hair" if mention.has(Tag.HAIR, Tag.HAIR_STYLE) else LEXICON.slot(kind)
            implied |= LEXICON.slot_places.get(slot, frozenset()) | LEXICON.all_said(kind)
    return implied


@lru_cache(maxsize=_KEPT_PHRASES)
def _place(phrase: str) -> str:
    """Return the place of the body that a phrase names, "" for other phrases."""
    meaning = LEXICON.meanings.get(tuple(phrase.split()))
    values = meaning.values if meaning is not None else {}
    return values.get(Tag.BODY) or values.get(Tag.LEVEL, "")


def _strange_sides(
    source: Description, rewrite: Description, reported: Collection[Span]
) -> Iterator[Finding]:
    """Find sides that the source names nowhere, or only for another arm, hand or shoulder."""
    spans = {(place.side, _body(place)): span for place, span in source.places}
    sides = {side for side, _ in spans}
    ours, theirs = (
        Counter((place.side, _body(place)) for place, _ in text.places)
        for text in (source, rewrite)
    )
    for place, span in rewrite.places:
        body = _body(place)
        other = {"left": "right", "right": "left"}.get(place.side, "")
        moved = theirs[place.side, body] > ours[place.side, body] and not theirs[other, body]
        if moved and (place.side, body) in spans and (other, body) in spans:
            fact = word_fact(Attribute.SIDE, place.side, span)
            yield contradicted(word_fact(Attribute.SIDE, other, spans[other, body]), fact)
            return
        if span in reported or (place.side, body) in spans:
            continue
        guessed = not rewrite.text[span[1] :].lstrip().startswith(place.body)  # «on his left»
        if guessed and place.side in sides and (other, body) not in spans:
            continue
        if place.side == "both" and _has_both(source, body):
            continue
        fact = word_fact(Attribute.SIDE, place.side, span)
        others = [
            spans[side, other] for side, other in spans if side != place.side and other == body
        ]
        loose = body == "side" or (place.side, "side") in spans
        if loose and place.side in sides and not others:
            continue
        same = [other for side, other in spans if side == place.side]
        if others:
            yield contradicted(word_fact(Attribute.SIDE, "other", others[0]), fact)
        elif not any(LEXICON.same_place(body, other) for other in same):
            yield added(fact)


def _has_both(source: Description, body: str) -> bool:
    """Whether the source names both hands, arms …: in the plural, or each."""
    for before, mention in pairwise(source.mentions):
        paired = mention.phrase.endswith("s") or before.has(Tag.PAIR)
        if mention.value(Tag.BODY) == body and paired:
            return source.text[: mention.span[0]].lower().split()[-3:-1] != ["one", "of"]
    return False


def _body(place: Place) -> str:
    """Return the canonical name of a part of the body."""
    meaning = LEXICON.meanings.get((place.body,))
    return meaning.values.get(Tag.BODY, place.body) if meaning is not None else place.body


def _opposite_details(
    source: Description, rewrite: Description, reported: Collection[Span]
) -> Iterator[Finding]:
    """Find details whose opposite is the only value in the source, for any item."""
    theirs = rewrite.named[Tag.DETAIL]
    ours = [*source.named[Tag.DETAIL], *source.named[Tag.BUILD]]
    known = {value for value, _ in ours}
    kinds = {item.kind for item in rewrite.items}
    ours += [
        (said, item.span)
        for item in source.items
        for said in LEXICON.all_said(item.kind)
        if any(LEXICON.is_a(*pair) for kind in kinds for pair in permutations((kind, item.kind)))
    ]
    said = {value for value, _ in theirs}
    said |= {detail for item in rewrite.items for detail in LEXICON.all_said(item.kind)}
    styles = {mention.value(Tag.HAIR_STYLE) for mention in source.mentions} - {""}
    of_hair = {m.span for m in rewrite.mentions if m.value(Tag.HAIR_STYLE) in styles}
    for value, span in theirs:
        opposed = [
            (other, at)
            for other, at in ours
            if LEXICON.are_opposed(value, other) and other not in said
        ]
        if value not in known and opposed and span not in reported and span not in of_hair:
            other = word_fact(Attribute.DETAIL, *opposed[0])
            yield contradicted(other, word_fact(Attribute.DETAIL, value, span))


_SCALES = {
    Tag.AGE: ("age", Attribute.AGE),
    Tag.BUILD: ("build", Attribute.BUILD),
    Tag.HEIGHT: ("height", Attribute.BUILD),
    Tag.SKIN_TONE: ("skin", Attribute.SKIN),
}


def _strange_traits(
    source: Description, rewrite: Description, reported: Collection[Span]
) -> Iterator[Finding]:
    """Find the sex, age or build of a person that the source does not mention."""
    known = {m.value(tag) for m in source.mentions for tag in (Tag.PERSON, Tag.PRONOUN)}
    known |= {m.value(Tag.POSSESSIVE) for m in source.mentions}
    youth = any(Tag.YOUTH in mention.tags for mention in source.mentions)
    for place, mention in enumerate(rewrite.mentions):
        sex = mention.value(Tag.PERSON)
        if sex in ("male", "female") and known & {"male", "female"} and sex not in known:
            yield added(word_fact(Attribute.SEX, mention.phrase, mention.span))
        if not any(Tag.PERSON in one.tags for one in rewrite.mentions[place : place + 3]):
            continue
        for tag, (scale, attribute) in _SCALES.items():
            value = mention.value(tag)
            if not value or mention.span in reported or (youth and value == "young"):
                continue
            at = LEXICON.place(scale, value)
            ours = [LEXICON.place(scale, other) for other in _values(source, tag)]
            if ours and min(abs(at - other) for other in ours) > 1:
                yield added(word_fact(attribute, mention.phrase, mention.span))


def _values(text: Description, tag: Tag) -> set[str]:
    return {mention.values[tag] for mention in text.mentions if tag in mention.tags}


_SURE_LEVELS = ("thigh", "knee", "calf", "ankle")  # other words for levels mean more than these


def _strange_levels(
    source: Description, rewrite: Description, reported: Collection[Span]
) -> Iterator[Finding]:
    """Find levels of the legs two or more steps from all levels of the source, if it has any."""
    ours, theirs = ([*text.named[Tag.LEVEL], *text.named[Tag.REACH]] for text in (source, rewrite))
    known = [(LEXICON.place("reach", level), level, span) for level, span in ours]
    for level, span in theirs:
        if not known or level not in _SURE_LEVELS or span in reported:
            continue
        place = LEXICON.place("reach", level)
        steps, other, at = min((abs(place - there), name, at) for there, name, at in known)
        if steps > 1:
            fact = word_fact(Attribute.LENGTH, level, span)
            yield contradicted(word_fact(Attribute.LENGTH, other, at), fact)


_STRANGE = (
    (Attribute.PATTERN, (Tag.PATTERN, Tag.PATTERN_NOUN), frozenset(("graphic",))),
    (Attribute.MATERIAL, (Tag.MATERIAL,), frozenset(("lace", "metal", "cloth"))),
)


def _strange_words(
    source: Description, rewrite: Description, reported: Collection[Span]
) -> Iterator[Finding]:
    """Find patterns and materials that the source has nowhere, except ambiguous words."""
    for attribute, tags, loose in _STRANGE:
        ours, theirs = ([pair for tag in tags for pair in t.named[tag]] for t in (source, rewrite))
        known = {value for value, _ in ours}
        known |= {value for thing in source.things() for value in thing.values(attribute)}
        known |= {said for item in source.items for said in LEXICON.all_said(item.kind)}
        for value, span in theirs:
            near = any(LEXICON.same_material(value, other) for other in known)
            if not near and value not in loose and span not in reported:
                yield added(word_fact(attribute, value, span))


def _strange_things(
    source: Description, rewrite: Description, _reported: Collection[Span]
) -> Iterator[Finding]:
    """Find things that the source does not have: a lion on a sweater, a bench."""
    known = {thing for thing, _ in (*source.named[Tag.THING], *source.likened)}
    likened = rewrite.likened if source.likened else ()
    verbs = {
        mention.span
        for before, mention in pairwise(rewrite.mentions)
        if before.has(Tag.PRONOUN, Tag.PERSON, Tag.ITEM)
    }
    for thing, span in (*rewrite.named[Tag.THING], *likened):
        word = rewrite.text[slice(*span)]
        general = thing in {LEXICON.classes.get(other) for other in known}
        if (
            thing not in known
            and not general
            and span not in verbs
            and not has_word(source.text, word[: max(4, len(word) - 2)])
            and not (len(word) > 3 and word in source.text)  # «chair» for «wheelchair»
        ):
            yield added(word_fact(Attribute.DETAIL, word, span))


def _nonsense(
    source: Description, rewrite: Description, _reported: Collection[Span]
) -> Iterator[Finding]:
    """Find statements that make no sense: a jacket with a toe, shoes that hold something."""
    known = {source.text[slice(*span)].lower() for span in source.nonsense}
    spans = [s for s in rewrite.nonsense if rewrite.text[slice(*s)].lower() not in known]
    parts = {(item.kind, part.kind) for item in source.items for part in item.parts}
    for item in rewrite.items:
        for part in item.parts:
            slots = LEXICON.part_slots.get(part.kind)
            odd = slots is not None and LEXICON.slot(item.kind) not in slots
            if odd and item.known and (item.kind, part.kind) not in parts:
                spans.append(part.phrase)
    for span in spans:
        fact = word_fact(Attribute.DETAIL, rewrite.text[slice(*span)], span)
        message = f"The rewrite says {said(fact)}, which makes no sense."
        yield Finding(change="added", message=message, rewrite=fact)


_SEARCHES = (
    _strange_colours,
    _strange_sides,
    _strange_places,
    _strange_numbers,
    _opposite_details,
    _strange_traits,
    _strange_levels,
    _strange_words,
    _strange_things,
    _nonsense,
)


# Findings, each with its sentence for the reviewer.

_NAMES = frozenset((Attribute.GARMENT, Attribute.FOOTWEAR, Attribute.ACCESSORY))


def added(fact: Fact, minor: bool = False) -> Finding:
    """Return the finding that a rewrite states something its source does not."""
    message = f"The rewrite adds {said(fact)}, which the source does not say."
    return Finding(change="added", message=message, rewrite=fact, minor=minor)


def lost(fact: Fact) -> Finding:
    """Return the finding that a rewrite leaves something out."""
    message = f"The rewrite leaves out {said(fact)}."
    return Finding(change="lost", message=message, source=fact, minor=True)


def contradicted(source: Fact, rewrite: Fact, minor: bool = False) -> Finding:
    """Return the finding that a rewrite contradicts its source."""
    message = f"The rewrite says {said(rewrite)}; the source says {said(source)}."
    return Finding(
        change="contradicted", message=message, source=source, rewrite=rewrite, minor=minor
    )


def said(fact: Fact) -> str:
    """Return how a message names a fact."""
    if fact.attribute in _NAMES or fact.subject == "text":
        return f"«{fact.value}»"
    if fact.attribute is Attribute.PLACE:
        return f"that the {fact.subject} is at the {fact.value}"
    if fact.attribute is Attribute.SIDE:
        return f"that the {fact.subject} is on the {fact.value}"
    return f"{fact.attribute} «{fact.value}» of the {fact.subject}"


def word_fact(attribute: Attribute, value: str, span: Span) -> Fact:
    """Whether the text has this word, for any item."""
    return Fact(subject="text", attribute=attribute, value=value, span=span)


def has_colour(colours: Collection[str], colour: str) -> bool:
    """Whether one of `colours` may be another word for `colour`."""
    if colour in colours:
        return True
    return any(LEXICON.same_colour(colour, other) for other in colours)


def has_word(text: str, start: str) -> bool:
    """Whether a word of the text begins with `start`."""
    return bool(re.search(rf"\b{re.escape(start)}", text, re.IGNORECASE))
