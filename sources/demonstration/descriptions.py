"""Descriptions of drawn people at three granularities."""

from dataclasses import dataclass
from typing import NamedTuple

from schemas.base import Record
from schemas.records import Granularity
from sources.demonstration.drawing import Visible, visible_attributes
from sources.demonstration.people import (
    Build,
    Carried,
    Chance,
    Footwear,
    Garment,
    Hair,
    Jacket,
    Pattern,
    Person,
    Sex,
    Side,
)
from sources.demonstration.poses import Action, Pose, View, free_hand

# Noun phrases for what is visible, in one of several annotators' choice of words.


class Voice(Record):
    """The words that one annotator likes; what is not in it is said as in the attributes."""

    words: dict[str, str]
    colours_first: bool

    def word(self, name: str) -> str:
        """The annotator's word for an attribute's value."""
        return self.words.get(name, name)


VOICES = (
    Voice(words={"knit hat": "beanie", "printed": "print"}, colours_first=True),
    Voice(
        words={
            "trousers": "pants",
            "t-shirt": "T-shirt",
            "sneakers": "sports shoes",
            "plaid": "checked",
            "printed": "graphic",
            "baseball cap": "cap",
        },
        colours_first=False,
    ),
)
_PLURAL = ("jeans", "trousers", "shorts", "leggings")


def with_article(phrase: str) -> str:
    """The phrase with "a" or "an"."""
    return f"{'an' if phrase[0].lower() in 'aeio' else 'a'} {phrase}"


def person_noun(seen: Visible, *, with_age: bool = True) -> str:
    """For example "elderly woman"."""
    noun = "woman" if seen.sex is Sex.FEMALE else "man"
    return f"{seen.age.value} {noun}" if with_age and seen.age else noun


def hair_phrase(hair: Hair, *, detailed: bool = True) -> str:
    """For example "long wavy brown hair" or "black hair in a ponytail"."""
    if hair.style == "tied":
        return f"{hair.colour} hair tied back"
    if hair.style in ("ponytail", "bun"):
        return f"{hair.colour} hair in a {hair.style}"
    shape = f"{hair.length} {hair.style}" if detailed else hair.length
    if hair.length == "medium":
        shape = f"{hair.style} shoulder-length" if detailed else "shoulder-length"
    return f"{shape} {hair.colour} hair"


def garment_phrase(garment: Garment, voice: Voice, *, detailed: bool = True) -> str:
    """A garment with colour and pattern; `detailed` adds sleeves, length and the second colour."""
    kind, colour = voice.word(garment.kind), garment.colour
    before = _size_words(garment) if detailed else ""
    if garment.pattern is Pattern.PLAIN:
        return _counted(f"{before}{colour} {kind}", garment)
    pattern = voice.word(garment.pattern.value)
    if garment.pattern is Pattern.PRINTED:
        where = f"with {with_article(f'{garment.second_colour} {pattern}')} on the chest"
        return _counted(f"{before}{colour} {kind}{' ' + where if detailed else ''}", garment)
    if not detailed:
        return _counted(f"{colour} {pattern} {kind}", garment)
    if voice.colours_first:
        both = f"{colour} and {garment.second_colour}"
        return _counted(f"{before}{both} {pattern} {kind}", garment)
    marks = {Pattern.STRIPED: "stripes", Pattern.PLAID: "checks", Pattern.DOTTED: "polka dots"}
    second = f"{garment.second_colour} {marks[garment.pattern]}"
    return _counted(f"{before}{colour} {kind} with {second}", garment)


def _size_words(garment: Garment) -> str:
    sleeve = {"long": "long-sleeved ", "short": "short-sleeved ", "sleeveless": "sleeveless "}
    words = sleeve.get(garment.sleeve or "", "") if garment.kind != "tank top" else ""
    if garment.kind in ("dress", "skirt", "trousers", "leggings") and garment.length:
        return f"{garment.length} {words}"
    return words


def is_plural(garment: Garment) -> bool:
    """True for what comes in pairs, such as trousers."""
    return garment.kind in _PLURAL


def _counted(phrase: str, garment: Garment) -> str:
    return phrase if is_plural(garment) else with_article(phrase)


def jacket_phrase(jacket: Jacket, open_jacket: bool | None) -> str:
    """For example "an open dark blue jacket"; open or closed only where one can tell."""
    state = {True: "open ", False: "closed ", None: ""}[open_jacket]
    return with_article(f"{state}{jacket.colour} {jacket.kind}")


def footwear_phrase(footwear: Footwear, voice: Voice, *, detailed: bool = True) -> str:
    """For example "red sneakers with white soles"."""
    phrase = f"{footwear.colour} {voice.word(footwear.kind)}"
    if detailed and footwear.kind == "sneakers":
        phrase += f" with {footwear.sole_colour} soles"
    return phrase


def carried_phrase(carried: Carried) -> str:
    """For example "a red handbag"."""
    return with_article(f"{carried.colour} {carried.kind}")


def place_of(carried: Carried, owner: str) -> str:
    """Where it is carried, from the person's own side: for example "in her left hand"."""
    if carried.side is None:
        return f"on {owner} back"
    part = "shoulder" if carried.kind == "shoulder bag" else "hand"
    return f"{'on' if part == 'shoulder' else 'in'} {owner} {carried.side.value} {part}"


# Whole sentences about one image, in one annotator's voice; an empty text where nothing is to say.
#
# No sentence denies a thing ("no hat"): descriptions of the field say what there is.


class Opening(NamedTuple):
    """A first sentence, and what it left unsaid of hair and action as a second one."""

    text: str
    rest: str


class Sentences:
    """The sentences that can be said of what is seen of a person."""

    def __init__(self, person: Person, seen: Visible, voice: Voice, chance: Chance) -> None:
        self.person, self.seen, self.voice, self.chance = person, seen, voice, chance
        female = seen.sex is Sex.FEMALE
        self.she, self.her = ("She", "her") if female else ("He", "his")

    # Openings ------------------------------------------------------------------------------------

    def outline(self) -> Opening:
        """Who wears what, briefly."""
        clothes = _listed([self._top(detailed=False), *self._below(detailed=False)])
        hair = hair_phrase(self.seen.hair, detailed=False)
        noun = person_noun(self.seen, with_age=self.chance.happens(0.6))
        return self.chance.pick(
            (
                Opening(f"{_capital(noun)} with {hair} is wearing {clothes}.", self.doing()),
                Opening(f"The {noun} is wearing {clothes} and has {hair}.", self.doing()),
                Opening(f"This {noun} has {hair} and wears {clothes}.", self.doing()),
                Opening(
                    f"{_capital(noun)} in {clothes} is {self.seen.action.value}.",
                    f"{self.she} has {hair}.",
                ),
            )
        )

    def upper_half(self) -> Opening:
        """Who, with which hair, wears what on the upper body."""
        noun, top = person_noun(self.seen), self._top()
        hair, action = hair_phrase(self.seen.hair), self.seen.action.value
        return self.chance.pick(
            (
                Opening(f"{_capital(noun)} with {hair} is wearing {top}.", self.doing()),
                Opening(f"{_capital(noun)} is wearing {top} and has {hair}.", self.doing()),
                Opening(f"The {noun} who is {action} has {hair} and wears {top}.", ""),
            )
        )

    def lower_half(self) -> str:
        """What is worn below."""
        below = _listed(self._below(detailed=True))
        if self.seen.lower is None:
            return self._one_of(
                f"On {self.her} feet are {below}.", f"{self.she} has {below} on {self.her} feet."
            )
        return self._one_of(
            f"{self.she} is also dressed in {below}.",
            f"{self.she} has {below} on.",
            f"{self.she} is also wearing {below}.",
        )

    def introduction(self) -> str:
        """Age group, sex, build and skin."""
        builds = {Build.SLIM: "slim", Build.MEDIUM: "medium", Build.HEAVY: "heavy"}
        noun = person_noun(self.seen)
        skin = f" and {self.seen.skin} skin" if self.seen.skin else ""
        traits = f"a {builds[self.seen.build]} build{skin}"
        return self._one_of(
            f"The person in the image is {with_article(noun)} with {traits}.",
            f"The image shows {with_article(noun)} with {traits}.",
            f"There is {with_article(noun)} who has {traits}.",
        )

    # Head ----------------------------------------------------------------------------------------

    def hair(self) -> str:
        """Length, style and colour of the hair."""
        hair = hair_phrase(self.seen.hair)
        return self._one_of(
            f"{self.she} has {hair}.", f"{self.her.capitalize()} head shows {hair}."
        )

    def head(self) -> str:
        """Headwear, glasses and scarf."""
        seen, things = self.seen, list[str]()
        if seen.headwear:
            hat = f"{seen.headwear.colour} {self.voice.word(seen.headwear.kind)}"
            things.append(with_article(hat))
        if seen.glasses:
            things.append("black sunglasses" if seen.glasses == "sunglasses" else "black glasses")
        if seen.scarf:
            things.append(f"{with_article(seen.scarf)} scarf around {self.her} neck")
        worn = _listed(things) if things else ""
        return worn and self._one_of(f"{self.she} is wearing {worn}.", f"{self.she} wears {worn}.")

    def beard(self) -> str:
        """The beard, which has the colour of the hair."""
        if not self.seen.beard:
            return ""
        colour = self.seen.hair.colour
        return self._one_of(
            f"{self.she} has a short {colour} beard.", f"A {colour} beard covers {self.her} chin."
        )

    # Clothes -------------------------------------------------------------------------------------

    def upper_body(self) -> str:
        """The garments on the upper body."""
        top = self._top()
        return self._one_of(
            f"On the upper body {self.she.lower()} is wearing {top}.",
            f"{self.she} is dressed in {top}.",
            f"{self.her.capitalize()} upper body is covered by {top}.",
        )

    def upper_detail(self) -> str:
        """How a jacket is worn, or how far the sleeves reach."""
        jacket, upper = self.seen.jacket, self.seen.upper
        if jacket:
            state = {True: "open", False: "closed", None: ""}[self.seen.open_jacket]
            return f"The {jacket.kind} is worn {state} in front." if state else ""
        if upper is None or upper.sleeve not in ("long", "short"):
            return ""
        kind, reach = self.voice.word(upper.kind), {"long": "wrists", "short": "elbows"}
        verb = "reach down to" if upper.sleeve == "long" else "end above"
        return f"The sleeves of the {kind} {verb} {self.her} {reach[upper.sleeve]}."

    def lower_body(self) -> str:
        """The garment on the lower body."""
        if self.seen.lower is None:
            reach = "knees" if self.person.upper.length == "knee-length" else "ankles"
            return f"The dress reaches down to {self.her} {reach}."
        garment = garment_phrase(self.seen.lower, self.voice)
        if is_plural(self.seen.lower):
            garment = f"a pair of {garment}"
        return self._one_of(
            f"On the lower body {self.she.lower()} is wearing {garment}.",
            f"{self.she} has {garment} on the lower body.",
            f"{self.her.capitalize()} lower body is clad in {garment}.",
        )

    def lower_detail(self) -> str:
        """How far down the lower garment reaches."""
        lower = self.seen.lower
        if lower is None or self.person.footwear.kind == "boots":
            return ""
        reach = {"short": "above the knees", "cropped": "to the middle of the calves"}
        if lower.kind == "skirt":
            reach |= {"knee-length": "to the knees", "long": "almost to the feet"}
        where = reach.get(lower.length or "", "down to the shoes")
        verb = "end" if lower.length == "short" else "reach"
        ending = verb if is_plural(lower) else f"{verb}{'es' if verb == 'reach' else 's'}"
        return f"The {self.voice.word(lower.kind)} {ending} {where}."

    def shoes(self) -> str:
        """The shoes with their soles."""
        shoes = footwear_phrase(self.seen.footwear, self.voice)
        return self._one_of(
            f"{self.she} wears a pair of {shoes} on {self.her} feet.",
            f"On {self.her} feet are {shoes}.",
        )

    def shoes_detail(self) -> str:
        """What else can be seen of the shoes."""
        shoes = self.seen.footwear
        if shoes.kind == "sneakers":
            return f"The laces of the {self.voice.word(shoes.kind)} are {shoes.sole_colour}."
        return f"The boots cover {self.her} ankles." if shoes.kind == "boots" else ""

    def socks(self) -> str:
        """The socks, where they show."""
        colour, her = self.seen.footwear.socks, self.her.capitalize()
        return f"{her} {colour} socks can be seen above the shoes." if colour else ""

    # What is carried, and what is done -----------------------------------------------------------

    def carrying(self) -> str:
        """The bag or umbrella, and where."""
        carried = self.seen.carried
        if carried is None:
            return ""
        verb = "holding" if carried.kind == "umbrella" else "carrying"
        thing, place = carried_phrase(carried), place_of(carried, self.her)
        return self._one_of(
            f"{self.she} is {verb} {thing} {place}.", f"{self.she} has {thing} {place}."
        )

    def carried_detail(self) -> str:
        """What else can be seen of it."""
        carried, her = self.seen.carried, self.her
        if carried is None:
            return ""
        if carried.kind == "backpack":
            straps = f"The straps of the backpack run over both of {her} shoulders."
            pocket = "There is a pocket on the outside of the backpack."
            return pocket if self.seen.view is View.BACK else straps
        if carried.kind == "umbrella":
            return f"The umbrella is open above {her} head."
        if carried.kind == "shoulder bag":
            return f"The bag hangs beside {her} hip."
        return f"The {carried.kind} hangs down beside {her} leg."

    def doing(self) -> str:
        """The action, and for a phone in which hand."""
        action = self.seen.action
        if action in (Action.PHONE, Action.CALL):
            hand = free_hand(self.person)
            hidden = {View.LEFT: Side.RIGHT, View.RIGHT: Side.LEFT}.get(self.seen.view) is hand
            where = "" if hidden else f" in {self.her} {hand.value} hand"
            done = "looking at" if action is Action.PHONE else "talking on"
            return f"{self.she} is {done} a phone{where}."
        return self._one_of(
            f"{self.she} is {action.value} on the street.",
            f"{self.she} is {action.value} outdoors.",
        )

    def hands(self) -> str:
        """That both hands are free, where that can be known."""
        busy = self.person.carried is not None and self.person.carried.kind != "backpack"
        if busy or self.seen.action in (Action.PHONE, Action.CALL):
            return ""
        return f"Both of {self.her} hands are free."

    def view(self) -> str:
        """The side that the person is seen from."""
        view = self.seen.view
        if view in (View.LEFT, View.RIGHT):
            return f"{self.she} is seen from {self.her} {view.value} side."
        return f"{self.she} is seen from {'the front' if view is View.FRONT else 'behind'}."

    def shape(self) -> str:
        """The build."""
        return f"{self.she} is of {self.seen.build.value} build."

    # Pieces --------------------------------------------------------------------------------------

    def _one_of(self, *forms: str) -> str:
        return self.chance.pick(forms)

    def _top(self, *, detailed: bool = True) -> str:
        """What is worn on the upper body; briefly, only the outermost garment."""
        seen, jacket = self.seen, self.seen.jacket
        inner = seen.upper and garment_phrase(seen.upper, self.voice, detailed=detailed)
        if jacket is None:
            return inner or ""
        outer = jacket_phrase(jacket, seen.open_jacket if detailed else None)
        return f"{outer} over {inner}" if inner and detailed else outer

    def _below(self, *, detailed: bool) -> list[str]:
        """The lower garment, unless it is a dress, and the shoes."""
        shoes = footwear_phrase(self.seen.footwear, self.voice, detailed=detailed)
        if self.seen.lower is None:
            return [shoes]
        return [garment_phrase(self.seen.lower, self.voice, detailed=detailed), shoes]


def _capital(noun: str) -> str:
    phrase = with_article(noun)
    return phrase[0].upper() + phrase[1:]


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


# Captions that say of an image what can be seen in it, at three granularities.
#
# Left and right are the person's own, as is usual in the field: the right hand of somebody who
# faces us is on the left of the image. Lengths follow the published means (UFineBench, section
# 3.3): 23.5 words for CUHK-PEDES, 37.2 for ICFG-PEDES, 80.8 for UFine6926.


@dataclass(frozen=True)
class _Ranked:
    """A sentence and how much it matters: 0 is always said, higher numbers only to fill up."""

    rank: int
    text: str


def describe(
    person: Person, pose: Pose, granularity: Granularity, annotator: int, chance: Chance
) -> str:
    """One caption of the image of `person` in `pose`, in the words of one of two annotators."""
    say = Sentences(person, visible_attributes(person, pose), VOICES[annotator % 2], chance)
    if granularity is Granularity.COARSE:
        return _fill(_coarse(say), chance.between(15, 25))
    if granularity is Granularity.MEDIUM:
        return _fill(_medium(say), chance.between(29, 37))
    return _fill(_fine(say, clothes_first=annotator % 2 == 1), chance.between(70, 87))


def _fill(sentences: list[_Ranked], target_words: float) -> str:
    """The sentences in order, the least important left out once enough is said."""
    kept, words = set[int](), 0
    wanted = [index for index, sentence in enumerate(sentences) if sentence.text]
    for index in sorted(wanted, key=lambda index: (sentences[index].rank, index)):
        if sentences[index].rank == 0 or words < target_words:
            kept.add(index)
            words += len(sentences[index].text.split())
    return " ".join(sentences[index].text for index in sorted(kept))


def _coarse(say: Sentences) -> list[_Ranked]:
    """Who, the main garments, and a thing or two more."""
    opening = say.outline()
    extra = (opening.rest, say.carrying(), say.head(), say.view())
    return [_Ranked(0, opening.text), *(_Ranked(rank, text) for rank, text in enumerate(extra, 1))]


def _medium(say: Sentences) -> list[_Ranked]:
    """Who, hair, all garments with their patterns, what is carried."""
    opening = say.upper_half()
    extra = (say.carrying(), say.head(), opening.rest, say.view(), say.shape())
    return [
        _Ranked(0, opening.text),
        _Ranked(0, say.lower_half()),
        *(_Ranked(rank, text) for rank, text in enumerate(extra, 1)),
    ]


def _fine(say: Sentences, *, clothes_first: bool) -> list[_Ranked]:
    """Everything that shows, from head to foot; some annotators begin with the clothes."""
    head = [
        _Ranked(0, say.hair()),
        _Ranked(1, say.head()),
        _Ranked(1, say.beard()),
    ]
    clothes = [
        _Ranked(0, say.upper_body()),
        _Ranked(4, say.upper_detail()),
        _Ranked(0, say.lower_body()),
        _Ranked(6, say.lower_detail()),
        _Ranked(1, say.shoes()),
        _Ranked(5, say.shoes_detail()),
        _Ranked(2, say.socks()),
    ]
    last = [
        _Ranked(1, say.carrying()),
        _Ranked(3, say.carried_detail()),
        _Ranked(2, say.doing()),
        _Ranked(7, say.hands()),
        _Ranked(3, say.view()),
    ]
    middle = [*clothes, *head] if clothes_first else [*head, *clothes]
    return [_Ranked(0, say.introduction()), *middle, *last]
