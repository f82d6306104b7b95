"""Find words of a rewrite that its source has nowhere: a safety net for errors of the parser."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain, islice, pairwise

from loupe.checks.person.description import Description, Place
from loupe.checks.person.lexicon import INSIDE, KEPT_WORDS, Mention, Tag, load_lexicon
from loupe.schemas.faithfulness import Attribute, Fact, Finding, Span

LEXICON = load_lexicon()
has_colour = partial(LEXICON.has_near, "colours")
"""Whether one of some colours may be another word for a colour."""

_KEPT_TEXTS = 1024  # a text is compared with several rewrites of its image


def find_stray_words(
    source: Description, rewrite: Description, reported: Collection[Span]
) -> Iterator[Finding]:
    """Find words that the source has nowhere, except at spans that are `reported` already."""
    seen = list(reported)
    for find in _SEARCHES:
        for finding in find(source, rewrite):
            first, last = finding.rewrite.span if finding.rewrite is not None else (0, 0)
            if any(start < last and first < end for start, end in seen):
                continue
            other = find not in _SURE and is_other_word(finding, source, rewrite)
            if other or is_other_side(finding, source):
                yield finding.model_copy(update={"minor": True})
            else:
                seen.append((first, last))
                yield finding


def _strange_colours(source: Description, rewrite: Description) -> Iterator[Finding]:
    """Find colours that the source has nowhere.

    Colours of skin are left to the comparison of persons, because they have words of their own.
    """
    known = {colour for colour, _ in source.colours}
    if len(known) > 1:
        known.add("multicoloured")
    of_skin = [fact.span for fact in rewrite.person.all(Attribute.SKIN)]
    for colour, span in rewrite.colours:
        if has_colour(known, colour):
            continue
        if not any(start <= span[0] < end for start, end in of_skin):
            yield added(word_fact(Attribute.COLOUR, colour, span))


def _strange_numbers(source: Description, rewrite: Description) -> Iterator[Finding]:
    """Find numbers that the source does not have: of things it counts, or in digits."""
    theirs = list(_numbers(rewrite))
    if not theirs:
        return
    known = {value for value, _ in source.named[Tag.NUMBER]}
    known |= {"2"} if source.tagged(Tag.PAIR) else set()
    counts = {(noun, number) for noun, number, _ in _numbers(source)}
    for noun, number, mention in theirs:
        same = {
            value for key, value in counts if LEXICON.is_a(key, noun) or LEXICON.is_a(noun, key)
        }
        if same and number not in same and number.isdigit():
            yield added(word_fact(Attribute.COUNT, mention.phrase, mention.span))
        elif number not in known and not has_word(source.text, mention.phrase):
            same_nouns = (one for one in source.mentions if LEXICON.is_a(_key(one), noun))
            plurals = [one.phrase.endswith("s") for one in same_nouns]
            if number.isdigit() and len(plurals) >= int(number) > 1:
                continue
            one_or_many = bool(plurals) and all(plural == (number == "1") for plural in plurals)
            if mention.phrase.isdigit() or one_or_many:
                yield added(word_fact(Attribute.COUNT, mention.phrase, mention.span))


def _numbers(text: Description) -> Iterator[tuple[str, str, Mention]]:
    """Yield (noun, number, word) of each number; «each hand» and «both hands» are two."""
    for place, mention in enumerate(text.mentions[:-1]):
        number = mention.values.get(Tag.NUMBER, "")
        if mention.phrase == "one":
            follows = text.mentions[place + 1]
            single = len(re.findall(r"\bones?\b", text.text)) == 1
            alone = (single or Tag.BODY in follows.tags) and not has_word(text.text, "other")
            number = "1" if alone and Tag.OF not in follows.tags else ""
        elif mention.phrase in _EACH and text.mentions[place + 1].has(*_COUNTABLE):
            number = "2"
        if number:
            yield _counted(text.mentions, place), number, mention


_EACH = ("both", "each", "either")
_COUNTABLE = (Tag.BODY, Tag.LEVEL, Tag.ITEM, Tag.PART, Tag.POSSESSIVE, Tag.DEFINITE, Tag.THING)


def _counted(mentions: Sequence[Mention], place: int) -> str:
    """Return the noun of the number at `place`."""
    return next((_key(one) for one in mentions[place + 1 :] if not one.among(_COUNTED_OVER)), "")


_COUNTED_OVER = INSIDE | {Tag.COLOUR, Tag.FILLER}
_NOUNS = (Tag.ITEM, Tag.PART, Tag.BODY, Tag.LEVEL, Tag.THING, Tag.HAIR_STYLE, Tag.PATTERN_NOUN)


def _key(mention: Mention) -> str:
    """Return what words of equal meaning share."""
    return _key_of(mention.phrase)


@lru_cache(maxsize=KEPT_WORDS)
def _key_of(phrase: str) -> str:
    named = map(LEXICON.mention(phrase).value, _NOUNS)
    return next(filter(None, named), phrase.removesuffix("s"))


def _strange_sides(source: Description, rewrite: Description) -> Iterator[Finding]:
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
        if (place.side, body) in spans:
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
        elif not any(LEXICON.are_near("places", body, other) for other in same):
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


def _opposite_details(source: Description, rewrite: Description) -> Iterator[Finding]:
    """Find details whose opposite is the only value in the source, for any item."""
    theirs = rewrite.named[Tag.DETAIL]
    of_person = {fact.span for fact in source.person.all(Attribute.BUILD)}
    ours = [*source.named[Tag.DETAIL], *source.named[Tag.BUILD]]
    ours = [(value, span) for value, span in ours if span not in of_person]
    known, repeated = ({value for value, _ in pairs} for pairs in (ours, theirs))
    styles = source.values(Tag.HAIR_STYLE) - {""}
    of_hair = {
        rewrite.mentions[place].span
        for place in rewrite.tagged(Tag.HAIR_STYLE)
        if rewrite.mentions[place].values[Tag.HAIR_STYLE] in styles
    }
    for value, span in theirs:
        opposed = [
            (other, at)
            for other, at in ours
            if LEXICON.are_opposed(value, other) and other not in repeated
        ]
        if value not in known and opposed and span not in of_hair:
            other = word_fact(Attribute.DETAIL, *opposed[0])
            yield contradicted(other, word_fact(Attribute.DETAIL, value, span))


_SCALES = {
    Tag.AGE: ("age", Attribute.AGE),
    Tag.BUILD: ("build", Attribute.BUILD),
    Tag.HEIGHT: ("height", Attribute.BUILD),
    Tag.SKIN_TONE: ("skin", Attribute.SKIN),
}


def _strange_traits(source: Description, rewrite: Description) -> Iterator[Finding]:
    """Find the sex, age or build of a person that the source does not mention."""
    known = source.values(Tag.PERSON, Tag.PRONOUN, Tag.POSSESSIVE)
    youth = bool(source.tagged(Tag.YOUTH))
    for place in rewrite.tagged(Tag.PERSON, *_SCALES):
        mention = rewrite.mentions[place]
        sex = mention.value(Tag.PERSON)
        if sex in ("male", "female") and known & {"male", "female"} and sex not in known:
            yield added(word_fact(Attribute.SEX, mention.phrase, mention.span))
        if not any(Tag.PERSON in one.tags for one in rewrite.mentions[place : place + 3]):
            continue
        for tag, (scale, attribute) in _SCALES.items():
            value = mention.value(tag)
            if not value or (youth and value == "young"):
                continue
            at = LEXICON.place(scale, value)
            ours = [LEXICON.place(scale, other) for other in source.values(tag)]
            if ours and min(abs(at - other) for other in ours) > 1:
                yield added(word_fact(attribute, mention.phrase, mention.span))


_SURE_LEVELS = ("thigh", "knee", "calf", "ankle")  # other words for levels mean more than these


def _strange_levels(source: Description, rewrite: Description) -> Iterator[Finding]:
    """Find levels of the legs two or more steps from all levels of the source, if it has any."""
    ours, theirs = ([*text.named[Tag.LEVEL], *text.named[Tag.REACH]] for text in (source, rewrite))
    known = [(LEXICON.place("reach", level), level, span) for level, span in ours]
    for level, span in theirs:
        if not known or level not in _SURE_LEVELS:
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


def _strange_words(source: Description, rewrite: Description) -> Iterator[Finding]:
    """Find patterns and materials that the source has nowhere, except ambiguous words."""
    for attribute, tags, loose in _STRANGE:
        ours, theirs = ([pair for tag in tags for pair in t.named[tag]] for t in (source, rewrite))
        known = {value for value, _ in ours}
        known |= {value for thing in source.things() for value in thing.values(attribute)}
        known |= {said for item in source.items for said in LEXICON.all_said(item.kind)}
        for value, span in theirs:
            near = any(LEXICON.are_near("materials", value, other) for other in known)
            near = near or says_otherwise(source, value)
            if not near and value not in loose:
                yield added(word_fact(attribute, value, span))


def _strange_things(source: Description, rewrite: Description) -> Iterator[Finding]:
    """Find things that the source does not have: a lion on a sweater, a bench."""
    known = {thing for thing, _ in (*source.named[Tag.THING], *source.likened)}
    likened = rewrite.likened if source.likened else ()
    verbs = {
        rewrite.mentions[at].span
        for at in rewrite.tagged(Tag.THING, Tag.ITEM)
        if at > 0
        and rewrite.mentions[at].phrase.endswith("s")
        and rewrite.mentions[at - 1].has(Tag.PRONOUN, Tag.PERSON, Tag.ITEM)
    }
    for thing, span in (*rewrite.named[Tag.THING], *likened):
        word = rewrite.text[slice(*span)]
        general = thing in {LEXICON.classes.get(other) for other in known}
        if (
            thing not in known
            and not general
            and not says_otherwise(source, thing)
            and span not in verbs
            and not has_word(source.text, word[: max(4, len(word) - 2)])
            and not (len(word) > 3 and word in source.text)  # «chair» for «wheelchair»
        ):
            yield added(word_fact(Attribute.DETAIL, word, span))


def says_otherwise(source: Description, noun: str) -> bool:
    """Whether the source has a synonym, a closer or more general word, or one that suggests it."""
    if is_suggested(noun, source):
        return True
    related = LEXICON.related.get(noun, frozenset())
    return any(
        other in related or noun in LEXICON.related.get(other, ()) for other in _nouns(source.text)
    )


def is_suggested(value: str, source: Description) -> bool:
    """Whether a word of the source says it in another way: «jogger» for running."""
    return any(has_word(source.text, word) for word in LEXICON.suggested.get(value, ()))


@lru_cache(maxsize=_KEPT_TEXTS)
def _nouns(text: str) -> frozenset[str]:
    """Return the words of a text, and without a plural ending."""
    words = set(_PLAIN.findall(text.lower()))
    words |= {word[: -len(end)] for word in words for end in ("s", "es") if word.endswith(end)}
    return frozenset(word for word in words if word in LEXICON.related)


def is_other_side(finding: Finding, source: Description) -> bool:
    """Whether a side follows from «the other hand» in the source."""
    fact = finding.rewrite
    if fact is None or finding.change != "added" or fact.attribute is not Attribute.SIDE:
        return False
    return has_word(source.text, "other") and fact.value != "both"


def is_other_word(finding: Finding, source: Description, rewrite: Description) -> bool:
    """Whether the rewrite only uses another word than the source: «steps» for «stairs»."""
    fact = finding.rewrite
    if fact is None or finding.change == "lost" or fact.attribute in _EXACT:
        return False
    if finding.change == "contradicted" and fact.subject != "text" and fact.attribute in _STATED:
        return False
    ours, theirs = _phrases(source.text), _phrases(rewrite.text)
    word = " ".join(_PLAIN.findall(rewrite.text[slice(*fact.span)].lower()))
    words = {word, word.rpartition(" ")[2], word.partition(" ")[0]}
    alike = {other for one in words for other in LEXICON.alike.get(one, ())}
    repeated = finding.change == "added" and fact.attribute in _LOOSE and word in ours
    repeated = repeated and word not in _denied(source.text)
    return repeated or not alike.isdisjoint(ours - theirs)


_STATED = (Attribute.DETAIL, Attribute.BUILD, Attribute.PATTERN, Attribute.MATERIAL)
_LOOSE = (Attribute.ACTION, Attribute.HAIR, Attribute.ACCESSORY, Attribute.GARMENT)
_EXACT = (
    *(Attribute.COLOUR, Attribute.AGE, Attribute.SEX, Attribute.SIDE, Attribute.COUNT),
    *(Attribute.LENGTH, Attribute.SKIN),
)
_PLAIN = re.compile(r"[a-z]+")
_LONGEST = 4  # words a phrase


@lru_cache(maxsize=_KEPT_TEXTS)
def _phrases(text: str) -> frozenset[str]:
    """Return all phrases of a text, in lower case and without punctuation."""
    words = _PLAIN.findall(text.lower())
    runs = [words[start:] for start in range(_LONGEST)]
    longer = (map(" ".join, zip(*runs[:length])) for length in range(2, _LONGEST + 1))  # noqa: B905
    return frozenset(chain(words, *longer))


def _nonsense(source: Description, rewrite: Description) -> Iterator[Finding]:
    """Find statements that make no sense: a jacket with a toe, shoes that hold something."""
    spans = list(rewrite.nonsense)
    if spans:
        known = {source.text[slice(*span)].lower() for span in source.nonsense}
        spans = [s for s in spans if rewrite.text[slice(*s)].lower() not in known]
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


def _denied_things(source: Description, rewrite: Description) -> Iterator[Finding]:
    """Find things, parts and patterns that one text has and the other denies: «no tattoos»."""
    ours, theirs = _affirmed(source), _affirmed(rewrite)
    for noun in ours.keys() & theirs.keys():
        (has, span), (still, other) = ours[noun], theirs[noun]
        if has != still:
            yield contradicted(
                word_fact(Attribute.DETAIL, ("" if has else "no ") + noun, span),
                word_fact(Attribute.DETAIL, ("" if still else "no ") + noun, other),
            )


_DENIABLE = (Tag.THING, Tag.PART, Tag.PATTERN, Tag.HAIR_STYLE)


def _affirmed(text: Description) -> dict[str, tuple[bool, Span]]:
    """Return whether the text has, or denies, each thing, part or pattern that it names."""
    found = dict[str, tuple[bool, Span]]()
    for place in text.tagged(*_DENIABLE):
        noun, back = _key(text.mentions[place]), place - 1
        if noun:
            while back > 0 and text.mentions[back].among(_AFTER_DENIAL):
                back -= 1
            denied = back >= 0 and Tag.NEGATION in text.mentions[back].tags
            still = not denied or found.get(noun, (False,))[0]
            found[noun] = (still, text.mentions[place].span)
    return found


_AFTER_DENIAL = INSIDE | {Tag.COLOUR, Tag.INDEFINITE}


_CAPITALS = re.compile(r"\b[A-Z]{3,}\b|\b\d{3,}\b|\b(?<=letter )[A-Z]\b|\b(?<=letters )[A-Z]+\b")


def _strange_texts(source: Description, rewrite: Description) -> Iterator[Finding]:
    """Find words in capitals, such as a text on a shirt, that the source does not have."""
    for match in _CAPITALS.finditer(rewrite.text):
        same = re.search(rf"\b{match[0]}\b", source.text, re.IGNORECASE)
        known = (match[0].lower(),) in LEXICON.meanings and len(match[0]) > 1
        if same is None and not known and not rewrite.text.isupper():
            yield added(word_fact(Attribute.DETAIL, match[0], match.span()))


def _moved_things(source: Description, rewrite: Description) -> Iterator[Finding]:
    """Find pictures and parts at another place of the clothes, and things in the other hand."""
    for find_places, attribute in ((_pictures, Attribute.PLACE), (_held, Attribute.SIDE)):
        ours = list(find_places(source))
        for noun, place, span in find_places(rewrite):
            known = [(other, at) for name, other, at in ours if name == noun]
            if known and not any(LEXICON.are_near("places", place, other) for other, _ in known):
                fact = word_fact(attribute, place, span)
                yield contradicted(word_fact(attribute, *known[0]), fact)


_AROUND = ("front", "back")
_ON_CLOTHES = ("chest", "front", "back", "shoulder", "sleeve", "collar", "waist", "knee", "calf")
_NEAR = 5  # mentions from a picture to its place


def _pictures(text: Description) -> Iterator[tuple[str, str, Span]]:
    """Yield each thing, part or item with the place on clothes that follows it."""
    for at in text.tagged(Tag.THING, Tag.PART, Tag.ITEM, Tag.PATTERN_NOUN):
        mention = text.mentions[at]
        for follows in text.mentions[at + 1 : at + 1 + _NEAR]:
            if follows.has(Tag.STOP, Tag.ITEM, Tag.AND):
                break
            place = follows.value(Tag.BODY) or follows.value(Tag.LEVEL) or follows.value(Tag.PART)
            if place in (_AROUND if Tag.ITEM in mention.tags else _ON_CLOTHES):
                yield _key(mention), place, follows.span
                break


def _contraries(source: Description, rewrite: Description) -> Iterator[Finding]:
    """Find new words that exclude words of the source which the rewrite does not repeat."""
    ours, theirs = (_contrary_in(text.text) for text in (source, rewrite))
    if ours <= theirs or theirs <= ours:
        return
    new, gone = theirs - ours - _denied(rewrite.text), ours - theirs - _denied(source.text)
    for one, other in LEXICON.contrary:
        if one.isdisjoint(new) or other.isdisjoint(gone):
            continue
        if one.isdisjoint(ours):
            word, instead = min(one & new), min(other & gone)
            yield contradicted(
                word_fact(Attribute.DETAIL, instead, _span_of(instead, source.text)),
                word_fact(Attribute.DETAIL, word, _span_of(word, rewrite.text)),
            )


_CONTRARY = frozenset(word for pair in LEXICON.contrary for words in pair for word in words)
_CONTRARY_PHRASES = tuple(f" {phrase} " for phrase in sorted(_CONTRARY) if " " in phrase)


@lru_cache(maxsize=_KEPT_TEXTS)
def _contrary_in(text: str) -> frozenset[str]:
    """Return the words and phrases of a text that exclude others."""
    words = _PLAIN.findall(text.lower())
    plain = f" {' '.join(words)} "
    return _CONTRARY.intersection(words) | {
        phrase.strip() for phrase in _CONTRARY_PHRASES if phrase in plain
    }


@lru_cache(maxsize=_KEPT_TEXTS)
def _denied(text: str) -> frozenset[str]:
    """Return the words after «not», «neither» and the like."""
    return frozenset(match[1] for match in _DENIED.finditer(text.lower()))


_DENIED = re.compile(
    r"\b(?:not|no|neither|nor|no longer|without|rather than)[^a-z]+(?:\w+ )?([a-z]+)"
)


def _span_of(phrase: str, text: str) -> Span:
    match = re.search(r"\b" + phrase.replace(" ", r"[^a-z]+") + r"\b", text, re.IGNORECASE)
    return match.span() if match is not None else (0, 0)


def _opposite_modifiers(source: Description, rewrite: Description) -> Iterator[Finding]:
    """Find opposite adjectives of one noun that is no item: a long train and a short one."""
    ours = _modifiers(source)
    for noun, value, span in _modifiers(rewrite):
        mine = {other: at for name, other, at in ours if name == noun}
        opposed = [at for other, at in mine.items() if _excludes(other, value)]
        if opposed and value not in mine:
            other = word_fact(Attribute.DETAIL, source.text[slice(*opposed[0])], opposed[0])
            yield contradicted(other, word_fact(Attribute.DETAIL, value, span))


def _excludes(one: str, other: str) -> bool:
    return LEXICON.are_opposed(one, other) or {one, other} == {"long", "short"}


_DEGREES = (Tag.SIZE, Tag.DETAIL, Tag.BUILD, Tag.HEIGHT)


def _modifiers(text: Description) -> list[tuple[str, str, Span]]:
    """Return (noun, value, place) of each adjective directly before a noun that is no item."""
    found = list[tuple[str, str, Span]]()
    for at in text.tagged(*_DEGREES):
        mention = text.mentions[at]
        value = next(filter(None, map(mention.value, _DEGREES)), "")
        if value:
            ahead = islice(text.mentions, at + 1, None)
            noun = next((one for one in ahead if not one.among(_PASSED)), None)
            if noun is not None and noun.has(Tag.OTHER, Tag.PART, Tag.THING, Tag.BODY):
                found.append((_key(noun), value, mention.span))
    return found


_PASSED = INSIDE | {Tag.COLOUR, Tag.NUMBER}


def _new_side(source: Description, rewrite: Description) -> Iterator[Finding]:
    """Find «left» if the source only says «right», or the reverse."""
    ours = source.values(Tag.SIDE) & _SIDES
    if not ours or has_word(source.text, "other") or has_word(source.text, "opposite"):
        return
    for place in rewrite.tagged(Tag.SIDE):
        before, mention = rewrite.mentions[max(0, place - 1)], rewrite.mentions[place]
        side = mention.values[Tag.SIDE]
        owned = place > 0 and before.has(Tag.POSSESSIVE, Tag.DEFINITE, Tag.PREPOSITION, Tag.WEAR)
        if side in _SIDES - ours and owned:
            yield added(word_fact(Attribute.SIDE, side, mention.span))


_SIDES = frozenset(("left", "right"))


def _held(text: Description) -> Iterator[tuple[str, str, Span]]:
    """Yield each noun directly before «in her left hand», or soon after it, with the side."""
    mentions = text.mentions
    for at in text.tagged(Tag.SIDE):
        found = mentions[at].values[Tag.SIDE], mentions[at].span
        if found[0] not in _SIDES:
            continue
        back = at - 1
        while back > 0 and mentions[back].has(Tag.POSSESSIVE, Tag.DEFINITE):
            back -= 1
        if back > 0 and mentions[back].has(Tag.PREPOSITION, Tag.WEAR):
            before = mentions[back - 1]
            if before.has(*_OBJECTS):
                yield _key(before), *found
                continue
        for follows in mentions[at + 1 : at + 1 + _NEAR]:
            if follows.has(Tag.SIDE, Tag.STOP, Tag.AND):
                break
            if follows.has(*_OBJECTS) and Tag.BODY not in follows.tags:
                yield _key(follows), *found
                break


_OBJECTS = (Tag.ITEM, Tag.THING)
_SURE = (_nonsense, _denied_things)
_SEARCHES = (
    _new_side,
    _moved_things,
    _opposite_modifiers,
    _contraries,
    _denied_things,
    _strange_texts,
    _strange_colours,
    _strange_sides,
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
    """Return the fact that a text has a word, whatever it is said of."""
    return Fact(subject="text", attribute=attribute, value=value, span=span)


def has_word(text: str, start: str) -> bool:
    """Whether a word of the text begins with `start`."""
    return _beginning(start).search(text) is not None


@lru_cache(maxsize=KEPT_WORDS)
def _beginning(start: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(start)}", re.IGNORECASE)
