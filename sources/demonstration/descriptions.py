"""Captions of the visible attributes of a drawn person, at three granularities.

Left and right are the person's own, as is usual in the field: the right hand of a person facing the
camera is on the left of the image. No sentence negates an item ("no hat"), because descriptions in
the field only state what is present.
"""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from string import Formatter

from schemas.records import Granularity
from sources.demonstration.figure import Action, Pose, View, free_hand
from sources.demonstration.people import Chance, Garment, Pattern, Person, Sex

_TABLES = tomllib.loads(files(__package__).joinpath("descriptions.toml").read_text("utf-8"))
_PLURAL = ("jeans", "trousers", "shorts")
_MARKS = {Pattern.STRIPED: "stripes", Pattern.PLAID: "checks", Pattern.DOTTED: "polka dots"}


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
    target, count, kept = chance.between(*table["words"]), 0, []
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

    back, front = pose.view is View.BACK, pose.view is View.FRONT
    upper, jacket, lower, shoes = person.upper, person.jacket, person.lower, person.footwear
    female, hair = person.sex is Sex.FEMALE, person.hair
    she, her, noun = ("she", "her", "woman") if female else ("he", "his", "man")
    noun = noun if back and person.age != "elderly" else f"{person.age} {noun}"
    length = "shoulder-length" if hair.length == "medium" else hair.length
    footwear = f"{shoes.colour} {voice.get(shoes.kind, shoes.kind)}"
    soles = f"{footwear} with white soles" if shoes.kind == "sneakers" else footwear
    words = {
        "she": she,
        "She": she.capitalize(),
        "her": her,
        "Her": her.capitalize(),
        "person": noun,
        "a_person": with_article(noun),
        "A_person": with_article(noun).capitalize(),
        "build": person.build,
        "hair": f"{length} {hair.style} {hair.colour} hair",
        "short_hair": f"{length} {hair.colour} hair",
        "shoes": soles,
        shoes.kind: voice.get(shoes.kind, shoes.kind),
        "seen_from": "behind"
        if back
        else "the front"
        if front
        else f"{her} {pose.view.value} side",
    }
    # The upper body. Of an upper garment under a jacket only the front is visible, if it is open.
    top = brief_top = garment(upper)
    if jacket:
        state = ("open" if jacket.open else "closed") if front else ""
        brief_top = with_article(f"{jacket.colour} {jacket.kind}")
        top = with_article(f"{state} {jacket.colour} {jacket.kind}".strip())
        if state == "open":
            top += f" over {garment(upper.model_copy(update={'sleeve': None}))}"
        words |= {"jacket": jacket.kind, "state": state} if state else {}
    else:
        brief_top = garment(upper, brief=True)
        ends = {"long": ("reach down to", "wrists"), "short": ("end above", "elbows")}
        if end := ends.get(upper.sleeve or ""):
            words |= {"upper": voice.get(upper.kind, upper.kind)}
            words |= {"sleeves": end[0], "sleeve_end": end[1]}
    words["top"] = top
    # The lower body, which a dress covers as well.
    lowest = lower or upper
    reach = {"short": "above the knees", "knee-length": "to the knees", "long": "down to the shoes"}
    plural = lowest.kind in _PLURAL
    verb = "end" if lowest.length == "short" else "reach"
    words["lowest"] = voice.get(lowest.kind, lowest.kind)
    words["lower_end"] = (
        f"{verb if plural else {'end': 'ends', 'reach': 'reaches'}[verb]} "
        f"{reach[lowest.length or 'long']}"
    )
    below = [garment(lower)] if lower else []
    words["below"] = _listed([*below, soles])
    brief = [brief_top, *([garment(lower, brief=True)] if lower else []), footwear]
    words["short_clothes"] = _listed(brief)
    if lower:
        words["lower"] = f"a pair of {garment(lower)}" if plural else garment(lower)
    # Headwear, bags, and actions.
    if not back:
        words["skin"] = person.skin
    on_head = [f"black {person.glasses}"] if person.glasses and not back else []
    if hat := person.headwear:
        on_head.insert(0, with_article(f"{hat.colour} {voice.get(hat.kind, hat.kind)}"))
    if on_head:
        words["on_head"] = _listed(on_head)
    phone, carried = pose.action is Action.PHONE, person.carried
    if phone:
        words["phone_hand"] = free_hand(person).value
    else:
        words["moving"] = pose.action.value
        if carried is None or carried.side is None:
            words["free"] = "free"
    hidden = {View.LEFT: "right", View.RIGHT: "left"}.get(pose.view)
    if carried and (carried.side is None or carried.side != hidden):
        words["bag"] = with_article(f"{carried.colour} {carried.kind}")
        if carried.side is None:
            words |= {"bag_place": f"on {her} back", "backpack": "backpack"}
        elif carried.kind == "shoulder bag":
            words |= {"bag_place": f"on {her} {carried.side.value} shoulder"}
            words["shoulder_bag"] = "bag"
        else:
            words |= {"bag_place": f"in {her} {carried.side.value} hand"}
            words["bag_in_hand"] = carried.kind
    return words


def _garment(one: Garment, voice: Mapping[str, str], *, colours_first: bool, brief: bool) -> str:
    """Return a garment with colour, pattern and, unless `brief`, sleeves, length, second colour."""
    kind, colour = voice.get(one.kind, one.kind), one.colour
    before = [one.length] if one.kind in ("dress", "skirt") and one.length else []
    if one.sleeve:
        before.append(one.sleeve if one.sleeve == "sleeveless" else f"{one.sleeve}-sleeved")
    pattern = voice.get(one.pattern.value, one.pattern.value)
    if one.pattern is Pattern.PLAIN:
        phrase = f"{colour} {kind}"
    elif brief:
        phrase = f"{colour} {pattern} {kind}"
    elif colours_first:
        phrase = f"{colour} and {one.second_colour} {pattern} {kind}"
    else:
        phrase = f"{colour} {kind} with {one.second_colour} {_MARKS[one.pattern]}"
    phrase = phrase if brief else " ".join([*before, phrase])
    return phrase if one.kind in _PLURAL else with_article(phrase)


def with_article(phrase: str) -> str:
    """Return the phrase with "a" or "an"."""
    return f"{'an' if phrase[0].lower() in 'aeio' else 'a'} {phrase}"


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
