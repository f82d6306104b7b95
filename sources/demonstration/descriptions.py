"""Captions that say of an image what can be seen in it, at three granularities.

Left and right are the person's own, as is usual in the field: the right hand of somebody who faces
us is on the left of the image. Lengths follow the published means (UFineBench, section 3.3): 23.5
words for CUHK-PEDES, 37.2 for ICFG-PEDES, 80.8 for UFine6926.
"""

from dataclasses import dataclass

from schemas.records import Granularity
from sources.demonstration import phrases
from sources.demonstration.chance import Chance
from sources.demonstration.people import Build, Person, Sex
from sources.demonstration.phrases import VOICES, Voice
from sources.demonstration.poses import Action, Pose, View, free_hand
from sources.demonstration.visibility import Visible, visible_attributes


@dataclass(frozen=True)
class Sentence:
    """A sentence and how much it matters: 0 is always said, higher numbers only to fill up."""

    rank: int
    text: str


def describe(
    person: Person, pose: Pose, granularity: Granularity, annotator: int, chance: Chance
) -> str:
    """One caption of the image of `person` in `pose`, in the words of one of two annotators."""
    writer = _Writer(person, visible_attributes(person, pose), VOICES[annotator % 2], chance)
    if granularity is Granularity.COARSE:
        return _fill(writer.coarse(), chance.between(19, 26))
    if granularity is Granularity.MEDIUM:
        return _fill(writer.medium(), chance.between(33, 40))
    return _fill(writer.fine(), chance.between(74, 90))


def _fill(sentences: list[Sentence], target_words: float) -> str:
    """The sentences in order, the least important left out once enough is said."""
    kept, words = set[int](), 0
    for index in sorted(range(len(sentences)), key=lambda i: (sentences[i].rank, i)):
        if sentences[index].rank == 0 or words < target_words:
            kept.add(index)
            words += len(sentences[index].text.split())
    return " ".join(sentences[index].text for index in sorted(kept))


class _Writer:
    """Sentences about one image in one annotator's voice."""

    def __init__(self, person: Person, seen: Visible, voice: Voice, chance: Chance) -> None:
        self.person, self.seen, self.voice, self.chance = person, seen, voice, chance
        female = seen.sex is Sex.FEMALE
        self.she, self.her = ("She", "her") if female else ("He", "his")

    # -- granularities ---------------------------------------------------------------------------

    def coarse(self) -> list[Sentence]:
        """Who, the main garments, and one thing more."""
        clothes = _listed(self.clothes(detailed=False))
        hair = phrases.hair_phrase(self.seen.hair, detailed=False)
        noun = phrases.person_noun(self.seen, with_age=self.chance.happens(0.5))
        first = self.chance.pick(
            (
                f"{self.a(noun)} with {hair} is wearing {clothes}.",
                f"The {noun} is wearing {clothes} and has {hair}.",
                f"{self.a(noun)} in {clothes} is {self.doing(brief=True)}.",
                f"This {noun} has {hair} and wears {clothes}.",
            )
        )
        return [Sentence(0, first), *self.ranked(self.carrying(), self.head(), self.moving())]

    def medium(self) -> list[Sentence]:
        """Who, hair, all garments with their patterns, what is carried."""
        noun = phrases.person_noun(self.seen)
        hair = phrases.hair_phrase(self.seen.hair)
        first = self.chance.pick(
            (
                f"{self.a(noun)} with {hair} is wearing {self.top()}.",
                f"{self.a(noun)} is wearing {self.top()} and has {hair}.",
                f"The {noun} who is {self.doing(brief=True)} has {hair} and wears {self.top()}.",
            )
        )
        below = _listed(self.below(detailed=True))
        second = self.chance.pick(
            (
                f"{self.she} is dressed in {below}.",
                f"{self.she} has {below} on.",
                f"{self.she} is also wearing {below}.",
            )
        )
        extra = self.ranked(
            self.carrying(), self.head(), self.moving(), self.facing(), self.shape()
        )
        return [Sentence(0, first), Sentence(0, second), *extra]

    def fine(self) -> list[Sentence]:
        """Everything that shows, head to foot, or clothes first."""
        head = [(0, self.introduction()), (0, self.hair()), (1, self.head()), (4, self.face())]
        clothes = [
            (0, self.upper_body()),
            (5, self.upper_detail()),
            (0, self.lower_body()),
            (1, self.shoes()),
            (3, self.socks()),
        ]
        last = [
            (1, self.carrying()),
            (2, self.carried_detail()),
            (2, self.moving()),
            (6, self.facing()),
            (7, self.whole()),
        ]
        order = [*head, *clothes, *last]
        if not self.voice.colours_first and self.chance.happens(0.5):
            order = [head[0], *clothes, *head[1:], *last]
        return [Sentence(rank, text) for rank, text in order if text]

    # -- parts -----------------------------------------------------------------------------------

    def a(self, noun: str) -> str:
        """The noun with an article, capitalised."""
        phrase = phrases.with_article(noun)
        return phrase[0].upper() + phrase[1:]

    def ranked(self, *texts: str) -> list[Sentence]:
        """What is not empty, in falling importance."""
        return [Sentence(rank, text) for rank, text in enumerate(texts, 1) if text]

    def top(self) -> str:
        """What is worn on the upper body."""
        seen = self.seen
        inner = phrases.garment_phrase(seen.upper, self.voice) if seen.upper else ""
        if seen.jacket is None:
            return inner
        outer = phrases.jacket_phrase(seen.jacket, seen.open_jacket)
        return f"{outer} over {inner}" if inner else outer

    def below(self, *, detailed: bool) -> list[str]:
        """Lower garment, shoes."""
        shoes = phrases.footwear_phrase(self.seen.footwear, self.voice, detailed=detailed)
        if self.seen.lower is None:
            return [shoes]
        return [phrases.garment_phrase(self.seen.lower, self.voice, detailed=detailed), shoes]

    def clothes(self, *, detailed: bool) -> list[str]:
        """The outermost upper garment, lower garment, shoes."""
        seen = self.seen
        if seen.jacket:
            top = phrases.jacket_phrase(seen.jacket, None)
        else:
            top = phrases.garment_phrase(seen.upper, self.voice, detailed=detailed)  # type: ignore[arg-type]
        return [top, *self.below(detailed=detailed)]

    def doing(self, *, brief: bool = False) -> str:
        """The action as a participle."""
        action = self.seen.action.value
        if brief or self.seen.action in (Action.WALKING, Action.STANDING):
            return action
        return f"{action}, which is in {self.her} {free_hand(self.person).value} hand,"

    def introduction(self) -> str:
        seen, noun = self.seen, phrases.person_noun(self.seen)
        build = {
            Build.SLIM: "a slim build",
            Build.MEDIUM: "a medium build",
            Build.HEAVY: "a heavy build",
        }
        skin = f" and {seen.skin} skin" if seen.skin else ""
        return self.chance.pick(
            (
                f"{self.a(noun)} with {build[seen.build]}{skin} is seen {self.seen_from()}.",
                f"The image shows {phrases.with_article(noun)} with {build[seen.build]}{skin}.",
                f"There is {phrases.with_article(noun)} who has {build[seen.build]}{skin}.",
            )
        )

    def seen_from(self) -> str:
        view = self.seen.view
        if view in (View.LEFT, View.RIGHT):
            return f"from {self.her} {view.value} side"
        return "from the front" if view is View.FRONT else "from behind"

    def hair(self) -> str:
        hair = phrases.hair_phrase(self.seen.hair)
        return self.chance.pick(
            (
                f"{self.she} has {hair}.",
                f"On {self.her} head one sees {hair}.",
            )
        )

    def head(self) -> str:
        """Headwear and glasses."""
        seen, things = self.seen, []
        if seen.headwear:
            kind = self.voice.word(seen.headwear.kind)
            things.append(phrases.with_article(f"{seen.headwear.colour} {kind}"))
        if seen.glasses:
            things.append("sunglasses" if seen.glasses == "sunglasses" else "black-framed glasses")
        if seen.scarf:
            things.append(f"a {seen.scarf} scarf around {self.her} neck")
        return f"{self.she} is also wearing {_listed(things)}." if things else ""

    def face(self) -> str:
        return f"{self.she} has a short {self.seen.hair.colour} beard." if self.seen.beard else ""

    def upper_body(self) -> str:
        return self.chance.pick(
            (
                f"On the upper body {self.she.lower()} is wearing {self.top()}.",
                f"{self.she} is dressed in {self.top()}.",
                f"{self.her.capitalize()} upper body is covered by {self.top()}.",
            )
        )

    def upper_detail(self) -> str:
        seen = self.seen
        if seen.jacket and seen.open_jacket is not None:
            state = (
                "open, so that what is under it shows" if seen.open_jacket else "closed in front"
            )
            return f"The {seen.jacket.kind} is worn {state}."
        if seen.upper and seen.upper.sleeve in ("long", "short") and not seen.jacket:
            reach = "wrists" if seen.upper.sleeve == "long" else "elbows"
            return (
                f"The sleeves of the {self.voice.word(seen.upper.kind)} reach {self.her} {reach}."
            )
        return ""

    def lower_body(self) -> str:
        seen = self.seen
        if seen.lower is None:
            reach = "knees" if self.person.upper.length == "knee-length" else "ankles"
            return f"The dress reaches down to {self.her} {reach}."
        return self.chance.pick(
            (
                f"On the lower body there is {self.pair_of_lower()}.",
                f"{self.she} has {self.pair_of_lower()} on the lower body.",
                f"{self.her.capitalize()} lower body is clad in {self.pair_of_lower()}.",
            )
        )

    def pair_of_lower(self) -> str:
        phrase = phrases.garment_phrase(self.seen.lower, self.voice)  # type: ignore[arg-type]
        return phrase if phrase.startswith(("a ", "an ")) else f"a pair of {phrase}"

    def shoes(self) -> str:
        shoes = phrases.footwear_phrase(self.seen.footwear, self.voice)
        return self.chance.pick(
            (
                f"{self.she} wears a pair of {shoes} on {self.her} feet.",
                f"On {self.her} feet are {shoes}.",
            )
        )

    def socks(self) -> str:
        colour, her = self.seen.footwear.socks, self.her.capitalize()
        return f"{her} {colour} socks can be seen above the shoes." if colour else ""

    def carrying(self) -> str:
        carried = self.seen.carried
        if carried is None:
            return ""
        verb = "holding" if carried.kind == "umbrella" else "carrying"
        thing, place = phrases.carried_phrase(carried), phrases.place_of(carried, self.her)
        return self.chance.pick(
            (
                f"{self.she} is {verb} {thing} {place}.",
                f"{self.she} has {thing} {place}.",
            )
        )

    def carried_detail(self) -> str:
        carried = self.seen.carried
        if carried is None:
            return ""
        if carried.kind == "backpack" and self.seen.view is View.FRONT:
            return f"The straps of the {carried.kind} are visible on both shoulders."
        if carried.kind == "umbrella":
            return f"The umbrella is open above {self.her} head."
        return ""

    def moving(self) -> str:
        return f"{self.she} is {self.doing()}".rstrip(",") + "."

    def facing(self) -> str:
        return f"The person is seen {self.seen_from()}."

    def shape(self) -> str:
        return f"{self.she} is of {self.seen.build.value} build."

    def whole(self) -> str:
        return f"There is nobody else with {self.her.replace('her', 'her').replace('his', 'him')}."


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
