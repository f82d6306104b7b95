"""Number agreement, as rules in Weir, Harper's own rule language.

Harper has no rule for "a man are riding" or "two dog". These are made for captions: they know the
subjects that captions begin with, and what captions say of them. A rule holds where its subject
opens the sentence (see `opens_sentence`): Weir cannot look back, and in "two men in a boat are" the
verb is right.
"""

import io
import json
import re
import zipfile
from collections.abc import Iterator
from functools import cache

PREFIX = "Agreement"
"""What the names of these rules begin with."""

_NOUNS = (
    "man men,woman women,child children,person people,tooth teeth,mouse mice,goose geese,"
    "knife knives,shelf shelves,baby babies,lady ladies,box boxes,bus buses,bench benches,"
    "sandwich sandwiches"
)
_REGULAR = (
    "airplane animal apple bag ball banana bear bed bicycle bike bird boat book bottle bowl boy "
    "building cake candle car carrot cat chair circle clock cow cup dog donut door elephant figure "
    "flag flower fork giraffe girl hat horse house image kid kite lamp laptop letter motorcycle "
    "orange phone picture pizza plane plant plate player program shirt shoe sign skateboarder "
    "skier slice soldier sofa spoon square suitcase surfboard surfer table toy train tree triangle "
    "truck umbrella vase wall window word worker zebra"
)
_VERBS = (
    "are is,were was,have has,sit sits,wear wears,hold holds,lie lies,eat eats,say says,"
    "sleep sleeps,carry carries,graze grazes,contain contains,appear appears,kneel kneels"
)
"""Verbs that are no nouns: "a fruit stand with apples" and "two bus rides" are right."""
_ALSO_NOUNS = (
    "stand stands,ride rides,walk walks,run runs,jump jumps,look looks,play plays,fly flies,"
    "show shows,drive drives,pass passes,cut cuts,drink drinks,swim swims,watch watches,wait waits"
)
"""Verbs that are nouns, too, but not after a plural: nouns that go before nouns are singular."""
_SINGULAR = "[a, an, one, each, every, another, this]"
_PLURAL = (
    "[two, three, four, five, six, seven, eight, nine, ten, many, several, these, those, both]"
)
_OF_MANY = (
    "couple,pair,group,number,few,lot,variety,bunch,crowd,set,dozen,majority,range,team,family,"
    "hundred,thousand,million,series,herd,flock,crew,band,handful,row,line,stack,pile,collection"
)
_AMOUNTS = "thirds,quarters,dollars,euros,yuan,minutes,hours,years,miles,metres,meters,percent"

_PRONOUNS = "they,we,you,i,these,those,many,other,others,two,three,time,is,was,has"
_AUXILIARIES = ("are", "were", "have")
"""Before these, a single word after "a" is a noun, whatever Harper takes it for."""
_SOMEBODY = "[someone, somebody, everyone, everybody, nobody]"

_PAIRS = [
    *(tuple(pair.split()) for pair in _NOUNS.split(",")),
    *((noun, f"{noun}s") for noun in _REGULAR.split()),
]
_SENTENCE_END = re.compile(r"[.!?;:]\s+")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+")
_LINKS = (
    "about above across after against along among and around as at before behind below beneath "
    "beside between but by down during for from in inside into like near next nor of off on onto "
    "or out outside over past that through to toward towards under up upon where which while who "
    "whose with within without"
)
_OPENERS = "a an the one each every another this these those"
_LONGEST_SUBJECT = 5


def rule_pack() -> bytes:
    """All rules as a Weirpack; Harper runs the tests in them when it takes them in."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as pack:
        manifest = {
            "author": "Loupe",
            "version": "1.0.0",
            "description": "Number agreement in captions",
            "license": "Apache-2.0",
        }
        pack.writestr("manifest.json", json.dumps(manifest))
        for name, rule in rules():
            pack.writestr(f"{PREFIX}{name}.weir", rule)
    return file.getvalue()


def rules() -> Iterator[tuple[str, str]]:
    """(name, rule in Weir): a rule for each verb and each noun, in both numbers."""
    ones = ", ".join(one for one, _ in _PAIRS)
    manies = ", ".join(many for _, many in _PAIRS)
    single = f"<NOUN, ![{_OF_MANY.replace(',', ', ')}]>"
    counted = f"<NOUN, ![{_AMOUNTS.replace(',', ', ')}]>"
    any_word = f"![{_OF_MANY}, {_PRONOUNS}]".replace(",", ", ").replace("  ", " ")
    of_one = [*_subjects(_SINGULAR, single), *_subjects("the", f"[{ones}]"), f"({_SOMEBODY} "]
    of_many = _subjects(f"[the, {_PLURAL[1:-1]}]", f"[{manies}]")
    for plural, singular in map(str.split, _VERBS.split(",")):
        test = f'test "A man {plural} here." "A man {singular} here."'
        subjects = [*of_one, f"({_SINGULAR} {any_word} "] if plural in _AUXILIARIES else of_one
        yield f"Singular{plural.title()}", _rule(subjects, plural, singular, test)
        test = f'test "Two men {singular} here." "Two men {plural} here."'
        subjects = [*_subjects(_PLURAL, counted), *of_many]
        yield f"Plural{singular.title()}", _rule(subjects, singular, plural, test)
    for plural, singular in map(str.split, _ALSO_NOUNS.split(",")):
        test = f'test "Two men {singular} here." "Two men {plural} here."'
        yield f"Plural{singular.title()}", _rule(of_many, singular, plural, test)
    for one, many in _PAIRS:
        after = "[( [VERB, AUX, ADP, CCONJ]), (.), (,)]"
        yield (
            f"Counted{one.title()}",
            f"expr main <({_PLURAL} {one}{after}), {one}>\n" + _facts(many),
        )
        yield (
            f"One{many.title()}",
            f"expr main <([a, an, one, each] {many}), {many}>\n" + _facts(one),
        )
    yield ("ThereIs", f"expr main <(there is {_PLURAL}), is>\n" + _facts("are"))
    there = f"expr main <(there are [a, an, one] {single}), are>\n"
    yield ("ThereAre", there + _facts("is"))


def _subjects(determiner: str, noun: str) -> list[str]:
    """The beginnings of expressions: a subject, with an adjective or without."""
    return [f"({determiner} {more}{noun} " for more in ("", "ADJ ")]


def _rule(subjects: list[str], wrong: str, right: str, test: str) -> str:
    found = ", ".join(f"{subject}{wrong})" for subject in subjects)
    return f"expr main <[{found}], {wrong}>\n{_facts(right)}{test}\n"


def _facts(right: str) -> str:
    return (
        f'let message "Subject and verb, or number and noun, do not agree: `{right}`."\n'
        f'let description "Number agreement in captions."\n'
        f'let kind "Agreement"\nlet becomes "{right}"\nlet strategy "MatchCase"\n'
    )


def opens_sentence(text: str, start: int) -> bool:
    """Whether what ends at `start` is the subject that opens its sentence, and nothing else.

    It is short, has one determiner at most, no preposition, conjunction or comma and no participle:
    what follows is then the verb of its last noun.
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text, 0, start)]
    subject = text[ends[-1] if ends else 0 : start].casefold()
    words = _WORD.findall(subject)
    if len(words) > _LONGEST_SUBJECT or "," in subject or "(" in subject:
        return False
    if any(word in _links() or word.endswith("ing") for word in words):
        return False
    return not set(words[1:]).intersection(_OPENERS.split())


@cache
def _links() -> frozenset[str]:
    return frozenset(_LINKS.split())
