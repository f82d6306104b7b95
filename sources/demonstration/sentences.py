"""Whole sentences about one image, in one annotator's voice; an empty text where nothing is to say.

No sentence denies a thing ("no hat"): descriptions of the field say what there is.
"""

from typing import NamedTuple

from sources.demonstration import phrases
from sources.demonstration.chance import Chance
from sources.demonstration.people import Build, Person, Sex, Side
from sources.demonstration.phrases import Voice, with_article
from sources.demonstration.poses import Action, View, free_hand
from sources.demonstration.visibility import Visible


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
        hair = phrases.hair_phrase(self.seen.hair, detailed=False)
        noun = phrases.person_noun(self.seen, with_age=self.chance.happens(0.6))
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
        noun, top = phrases.person_noun(self.seen), self._top()
        hair, action = phrases.hair_phrase(self.seen.hair), self.seen.action.value
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
        noun = phrases.person_noun(self.seen)
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
        hair = phrases.hair_phrase(self.seen.hair)
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
        garment = phrases.garment_phrase(self.seen.lower, self.voice)
        if phrases.is_plural(self.seen.lower):
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
        ending = verb if phrases.is_plural(lower) else f"{verb}{'es' if verb == 'reach' else 's'}"
        return f"The {self.voice.word(lower.kind)} {ending} {where}."

    def shoes(self) -> str:
        """The shoes with their soles."""
        shoes = phrases.footwear_phrase(self.seen.footwear, self.voice)
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
        thing, place = phrases.carried_phrase(carried), phrases.place_of(carried, self.her)
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
        inner = seen.upper and phrases.garment_phrase(seen.upper, self.voice, detailed=detailed)
        if jacket is None:
            return inner or ""
        outer = phrases.jacket_phrase(jacket, seen.open_jacket if detailed else None)
        return f"{outer} over {inner}" if inner and detailed else outer

    def _below(self, *, detailed: bool) -> list[str]:
        """The lower garment, unless it is a dress, and the shoes."""
        shoes = phrases.footwear_phrase(self.seen.footwear, self.voice, detailed=detailed)
        if self.seen.lower is None:
            return [shoes]
        return [phrases.garment_phrase(self.seen.lower, self.voice, detailed=detailed), shoes]


def _capital(noun: str) -> str:
    phrase = with_article(noun)
    return phrase[0].upper() + phrase[1:]


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
