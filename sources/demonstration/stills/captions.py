"""What can truly be said of a scene: short facts, and five captions of it."""

from collections.abc import Iterator

from models.builtin.drawing.figures import Figure
from models.builtin.drawing.vocabulary import KINDS, Place
from sources.demonstration.chance import Chance
from sources.demonstration.stills.scene import Group, Scene
from sources.demonstration.stills.vocabulary import PLACE_PHRASES, Relation, Size

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
_PLACE_FACTS = {
    Place.BEACH: "The place is a beach.",
    Place.PARK: "The place is a park.",
    Place.STREET: "The place is a street.",
    Place.KITCHEN: "The place is a kitchen.",
    Place.DESERT: "The place is a desert.",
    Place.SNOW: "The place is a snowy landscape.",
    Place.HARBOUR: "The place is a harbour.",
    Place.NIGHT_CITY: "The place is a city at night.",
}


def facts_of(scene: Scene) -> tuple[str, ...]:
    """Short true statements, the most important for the scene's task first."""
    facts = [*_relation_facts(scene), *_sign_facts(scene), *_figure_facts(scene)]
    facts += [
        f"There {'is' if group.count == 1 else 'are'} {counted(group)}." for group in scene.groups
    ]
    place = _PLACE_FACTS[scene.place]
    if scene.task == "scene":
        facts.insert(0, place)
    else:
        facts.append(place)
    total = sum(group.count for group in scene.groups)
    facts.append(f"The picture is a {scene.style.value}.")
    if total and scene.figure is None:
        things = "thing" if total == 1 else "things"
        facts.append(
            f"The picture shows {_NUMBERS[min(total, 6)] if total < 7 else total} {things}."
        )
    return tuple(facts)


def captions_of(scene: Scene, seed: int) -> tuple[str, ...]:
    """Five different captions, each of them true and complete but for style and size."""
    chance = Chance(seed, "captions", scene.key())
    subject, place = _subject(scene), PLACE_PHRASES[scene.place]
    plain, other = place[0], place[-1]
    where = "a snowy landscape" if scene.place is Place.SNOW else plain.partition(" ")[2]
    are = "are" if _many(scene) else "is"
    frames = [
        f"{_capital(subject)} {plain}.",
        f"There {are} {subject} {other}.",
        f"A {scene.style.value} of {subject} {plain}.",
        f"{_capital(plain)}, there {are} {subject}.",
        f"The picture shows {subject} {other}.",
        f"{_capital(where)} with {subject}.",
    ]
    return tuple(chance.shuffled(frames)[:5])


def counted(group: Group) -> str:
    """The things of a group as a noun phrase: `a red ball`, `three large blue cups`."""
    size = "" if group.size is Size.MEDIUM else f"{group.size.value} "
    words = f"{size}{group.colour} {plural(group.kind, group.count)}"
    return f"{article(words)} {words}" if group.count == 1 else f"{_NUMBERS[group.count]} {words}"


def plural(kind: str, count: int) -> str:
    """The noun for so many things of a kind."""
    return kind if count == 1 else KINDS[kind].plural


def article(words: str) -> str:
    """`a` or `an`, by the first letter."""
    return "an" if words[0] in "aeiou" else "a"


def _subject(scene: Scene) -> str:
    if scene.relation is not None:
        one, two = scene.groups
        return f"{counted(one)} {scene.relation.value} {counted(two)}"
    parts = [*_sign_phrases(scene), *map(counted, scene.groups), *_figure_phrases(scene)]
    return joined(parts)


def joined(parts: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _figure_phrases(scene: Scene) -> Iterator[str]:
    if scene.figure:
        yield f"a person {_clothes(scene.figure)} who is {scene.figure.action.value}"


def _clothes(figure: Figure) -> str:
    worn = [f"{article(figure.shirt)} {figure.shirt} shirt", f"{figure.trousers} trousers"]
    if figure.hat:
        worn.append(f"{article(figure.hat)} {figure.hat} hat")
    return f"in {joined(worn)}"


def _sign_phrases(scene: Scene) -> Iterator[str]:
    if scene.sign:
        yield f'a sign that says "{scene.sign}"'


def _relation_facts(scene: Scene) -> Iterator[str]:
    if scene.relation is None:
        return
    one, two = scene.groups
    yield (f"The {one.colour} {one.kind} is {scene.relation.value} the {two.colour} {two.kind}.")
    opposite = {Relation.LEFT: Relation.RIGHT, Relation.RIGHT: Relation.LEFT}
    if scene.relation in opposite:
        yield (
            f"The {two.colour} {two.kind} is {opposite[scene.relation].value} "
            f"the {one.colour} {one.kind}."
        )


def _sign_facts(scene: Scene) -> Iterator[str]:
    if scene.sign:
        yield f'The sign says "{scene.sign}".'


def _figure_facts(scene: Scene) -> Iterator[str]:
    if scene.figure is None:
        return
    yield f"A person is {scene.figure.action.value}."
    yield f"The person wears {article(scene.figure.shirt)} {scene.figure.shirt} shirt."
    yield f"The person wears {scene.figure.trousers} trousers."
    if scene.figure.hat:
        yield f"The person wears {article(scene.figure.hat)} {scene.figure.hat} hat."


def _many(scene: Scene) -> bool:
    """Whether a sentence with «there» starts with more than one thing."""
    starts_with_things = scene.sign is None and bool(scene.groups)
    return starts_with_things and scene.groups[0].count > 1


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]
