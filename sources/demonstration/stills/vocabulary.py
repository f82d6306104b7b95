"""What stills are made of beside what is drawn: sizes, relations, phrases, words on signs."""

from enum import StrEnum

from models.builtin.drawing.vocabulary import Place

PLACE_PHRASES: dict[Place, tuple[str, ...]] = {
    Place.BEACH: ("on a beach", "at the beach"),
    Place.PARK: ("in a park", "in the park"),
    Place.STREET: ("on a street", "in the street"),
    Place.KITCHEN: ("in a kitchen", "in the kitchen"),
    Place.DESERT: ("in a desert", "in the desert"),
    Place.SNOW: ("in the snow", "in a snowy landscape"),
    Place.HARBOUR: ("in a harbour", "at the harbour"),
    Place.NIGHT_CITY: ("in a city at night", "in a night city"),
}
"""How each place is said after what is there; the first is the plainest."""


class Size(StrEnum):
    """How large a thing is in its picture."""

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


class Relation(StrEnum):
    """How the first of two things lies to the second."""

    LEFT = "to the left of"
    RIGHT = "to the right of"
    ABOVE = "above"
    ON = "on"


WORDS = (
    "OPEN", "SALE", "CAFE", "HOTEL", "STOP", "EXIT", "PIZZA", "BOOKS", "BAKERY", "MUSEUM", "TAXI",
    "BANK", "SCHOOL", "MARKET", "GARDEN", "MUSIC", "FRESH", "ICE", "TEA", "PARK", "LUNCH", "FERRY",
)  # fmt: skip
"""What a sign may say."""
