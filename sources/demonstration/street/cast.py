"""Who walks in a street: known people, some of them dressed alike."""

from sources.demonstration.chance import Chance
from sources.demonstration.people import Person, draw_person_attributes


def draw_walker(chance: Chance) -> Person:
    """A person for the street. The day is dry: nobody holds an umbrella."""
    person = draw_person_attributes(chance)
    if person.carried is not None and person.carried.kind == "umbrella":
        return person.model_copy(update={"carried": None})
    return person


def draw_walker_like(chance: Chance, model: Person) -> Person:
    """Somebody else in the same clothes: another build, hair, shoes and bag."""
    other = draw_walker(chance)
    while other.sex is not model.sex:
        other = draw_walker(chance)
    clothes = {name: getattr(model, name) for name in ("upper", "jacket", "lower", "scarf")}
    return other.model_copy(update=clothes)


def dressed_alike(first: Person, second: Person) -> bool:
    """True for people in the same clothes."""
    return (first.upper, first.jacket, first.lower) == (second.upper, second.jacket, second.lower)
