"""Noun phrases for what is visible, in one of several annotators' choice of words."""

from schemas.base import Record
from sources.demonstration.people import Carried, Footwear, Garment, Hair, Jacket, Pattern, Sex
from sources.demonstration.visibility import Visible


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
