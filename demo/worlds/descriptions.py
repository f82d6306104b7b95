"""Captions of the visible attributes of a drawn person, at three granularities.

Left and right are the person's own, as is usual in the field: the right hand of a person facing the
camera is on the left of the image. No sentence negates an item ("no hat"), because descriptions in
the field only state what is present.
"""

from collections.abc import Mapping
from string import Formatter

from loupe.demo.worlds.figure import Pose, View
from loupe.demo.worlds.people import Garment, Person, Sex
from loupe.schemas.records import Granularity
from loupe.schemas.validation import packaged_toml
from loupe.schemas.wording import with_article
from loupe.testing import Chance

_TABLES = packaged_toml(__package__, "descriptions.toml")
_PLURAL = ("jeans", "trousers", "shorts")


def describe(
    person: Person, pose: Pose, granularity: Granularity, annotator: int, chance: Chance
) -> str:
    """Return a caption of the image of `person` in `pose`, in the style of one of two annotators.

    The least important sentences are left out once the caption is long enough.
    """
    second = bool(annotator % 2)
    fine = granularity == Granularity.FINE
    table = _TABLES["clothes_first" if fine and second else str(granularity)]
    words = _words(person, pose, _TABLES["voices"][second], colours_first=not second)
    ranked = []
    for place, (name, rank) in enumerate(table["sentences"]):
        forms = [form for form in _TABLES["forms"][name] if _names(form) <= words.keys()]
        if forms:
            ranked.append((rank, place, chance.pick(forms).format(**words)))
    target = chance.between(*table["words"])
    count = 0
    kept = []
    for rank, place, text in sorted(ranked):
        if rank == 0 or count < target:
            kept.append((place, text))
            count += len(text.split())
    return " ".join(text for _, text in sorted(kept))


def _names(form: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(form) if name}


def _words(
    person: Person, pose: Pose, voice: Mapping[str, str], *, colours_first: bool
) -> dict[str, str]:
    """Return the words for all visible attributes of the person."""

    def garment(one: Garment, *, brief: bool = False) -> str:
        return _garment(one, voice, colours_first=colours_first, brief=brief)

    back = pose.view is View.BACK
    front = pose.view is View.FRONT
    upper = person.upper
    jacket = person.jacket
    lower = person.lower
    shoes = person.footwear
    she, her, noun = ("she", "her", "woman") if person.sex is Sex.FEMALE else ("he", "his", "man")
    noun = noun if back and person.age != "elderly" else f"{person.age} {noun}"
    length = "shoulder-length" if person.hair.length == "medium" else person.hair.length
    footwear = f"{shoes.colour} {voice.get(shoes.kind, shoes.kind)}"
    soles = f"{footwear} with white soles" if shoes.kind == "sneakers" else footwear
    side = "behind" if back else "the front" if front else f"{her} {pose.view.value} side"
    reach = {"short": "above the knees", "knee-length": "to the knees", "long": "down to the shoes"}
    verb = "end" if lower.length == "short" else "reach"
    plural = lower.kind in _PLURAL
    ending = "" if plural else "s" if verb == "end" else "es"
    words = {
        "she": she,
        "She": she.capitalize(),
        "her": her,
        "Her": her.capitalize(),
        "person": noun,
        "a_person": with_article(noun),
        "A_person": with_article(noun).capitalize(),
        "build": person.build,
        "hair": f"{length} {person.hair.colour} hair",
        "shoes": soles,
        shoes.kind: voice.get(shoes.kind, shoes.kind),
        "seen_from": side,
        "moving": pose.action.value,
        "lower": f"a pair of {garment(lower)}" if plural else garment(lower),
        "lowest": voice.get(lower.kind, lower.kind),
        "lower_end": f"{verb}{ending} {reach[lower.length or 'long']}",
        "below": f"{garment(lower)} and {soles}",
    }
    # Of an upper garment under a jacket only the front is visible, if the jacket is open.
    top = garment(upper)
    brief_top = garment(upper, brief=True)
    if jacket:
        state = ("open" if jacket.open else "closed") if front else ""
        brief_top = with_article(f"{jacket.colour} {jacket.kind}")
        top = with_article(f"{state} {jacket.colour} {jacket.kind}".strip())
        if state == "open":
            top += f" over {garment(upper.model_copy(update={'sleeve': None}))}"
        words |= {"jacket": jacket.kind, "state": state} if state else {}
    else:
        ends = {"long": ("reach down to", "wrists"), "short": ("end above", "elbows")}
        sleeves, end = ends[upper.sleeve or "long"]
        words |= {"upper": voice.get(upper.kind, upper.kind), "sleeves": sleeves, "sleeve_end": end}
    words["top"] = top
    words["short_clothes"] = f"{brief_top}, {garment(lower, brief=True)} and {footwear}"
    if not back:
        words["skin"] = person.skin
    if hat := person.headwear:
        words["on_head"] = with_article(f"{hat.colour} {voice.get(hat.kind, hat.kind)}")
    bag = person.carried
    hidden = {View.LEFT: "right", View.RIGHT: "left"}.get(pose.view)
    if bag is None or bag.side is None:
        words["free"] = "free"
    if bag and (bag.side is None or bag.side != hidden):
        words["bag"] = with_article(f"{bag.colour} {bag.kind}")
        words["bag_place"] = f"in {her} {bag.side} hand" if bag.side else f"on {her} back"
        words["bag_in_hand" if bag.side else "backpack"] = bag.kind
    return words


def _garment(one: Garment, voice: Mapping[str, str], *, colours_first: bool, brief: bool) -> str:
    """Return a garment with colour, stripes and, unless `brief`, sleeves, length, their colour."""
    kind = voice.get(one.kind, one.kind)
    before = [one.length] if one.kind == "skirt" and one.length else []
    before += [f"{one.sleeve}-sleeved"] if one.sleeve else []
    if one.stripes is None:
        phrase = f"{one.colour} {kind}"
    elif brief:
        phrase = f"{one.colour} striped {kind}"
    elif colours_first:
        phrase = f"{one.colour} and {one.stripes} striped {kind}"
    else:
        phrase = f"{one.colour} {kind} with {one.stripes} stripes"
    phrase = phrase if brief else " ".join([*before, phrase])
    return phrase if one.kind in _PLURAL else with_article(phrase)
