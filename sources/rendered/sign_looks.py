"""How a sign, a notice or a menu may look: its place, its colours, its typeface."""

from collections.abc import Mapping

from schemas.base import Record
from sources.demonstration.chance import Chance
from sources.rendered.fonts import FontShelf
from sources.rendered.surfaces import Colour

Size = tuple[int, int]

COLOURS: Mapping[str, Colour] = {
    "black": (28, 28, 30),
    "white": (250, 250, 248),
    "blue": (22, 84, 166),
    "green": (10, 112, 74),
    "yellow": (250, 206, 40),
    "red": (196, 30, 36),
    "brown": (110, 70, 42),
    "gold": (226, 190, 104),
    "dark grey": (58, 62, 68),
    "silver": (200, 204, 208),
    "cream": (248, 240, 218),
    "dark blue": (20, 36, 78),
    "dark red": (122, 20, 26),
    "wooden": (168, 122, 76),
}
_ON: Mapping[str, tuple[tuple[str, str], ...]] = {
    "road sign": (("blue", "white"), ("green", "white"), ("brown", "white")),
    "station sign": (
        ("dark grey", "white"),
        ("dark blue", "white"),
        ("yellow", "black"),
        ("white", "dark blue"),
    ),
    "shop sign": (
        ("red", "gold"),
        ("black", "gold"),
        ("green", "white"),
        ("wooden", "black"),
        ("white", "red"),
        ("dark blue", "white"),
        ("yellow", "red"),
    ),
    "door plate": (
        ("silver", "black"),
        ("gold", "black"),
        ("white", "blue"),
        ("blue", "white"),
        ("wooden", "black"),
        ("dark grey", "white"),
    ),
    "warning sign": (("yellow", "black"), ("red", "white"), ("white", "black")),
    "notice": (("white", "black"), ("white", "red"), ("cream", "black"), ("red", "white")),
    "notice board": (("white", "black"), ("white", "dark blue"), ("cream", "dark red")),
    "menu page": (
        ("cream", "dark red"),
        ("white", "black"),
        ("black", "gold"),
        ("dark red", "gold"),
        ("cream", "black"),
    ),
}
_FORBIDDING, _WARNING = (
    ("禁止", "停车让行"),
    ("注意", "前方", "急弯", "连续", "陡坡", "减速", "路面"),
)
_SIZES: Mapping[str, tuple[Size, ...]] = {
    "road sign": ((640, 560), (720, 540), (600, 640)),
    "station sign": ((800, 440), (860, 460), (760, 420)),
    "shop sign": ((800, 560), (720, 540), (860, 560)),
    "door plate": ((560, 560), (640, 520), (520, 600)),
    "warning sign": ((560, 640), (640, 640), (720, 520)),
    "notice": ((560, 700), (640, 560), (600, 640)),
    "notice board": ((800, 560), (860, 600), (760, 600)),
    "menu page": ((560, 720), (600, 700), (640, 680)),
}


class SignLook(Record):
    """How texts are shown; `ground` and `letters` are names of `COLOURS`."""

    place: str
    size: Size
    ground: str
    letters: str
    typeface: str
    language: str
    bold: float

    def named(self) -> dict[str, str]:
        """The look as names."""
        return {
            "place": self.place,
            "ground": self.ground,
            "letters": self.letters,
            "typeface": self.typeface,
            "language": self.language,
        }


def draw_sign_look(
    chance: Chance, shelf: FontShelf, place: str, language: str, chinese: str
) -> SignLook:
    """A look for a sign at `place` that says `chinese`, written in `language` (zh or en)."""
    ground, letters = chance.pick(_ON[place])
    if place == "road sign" and chinese.startswith(_FORBIDDING):
        ground, letters = "white", "red"
    elif place == "road sign" and chinese.startswith(_WARNING):
        ground, letters = "yellow", "black"
    print_faces = ("Open Sans", "DejaVu Sans") if place == "road sign" else ()
    latin = print_faces or ("Open Sans", "Roboto Slab", "Lora", "DejaVu Sans", "EB Garamond")
    is_official = place in ("road sign", "station sign", "warning sign")
    chinese_faces = shelf.names("chinese")[:1] if is_official else shelf.names("chinese")
    return SignLook(
        place=place,
        size=chance.pick(_SIZES[place]),
        ground=ground,
        letters=letters,
        typeface=chance.pick(chinese_faces if language == "zh" else latin),
        language=language,
        bold=0.025 if place in ("road sign", "shop sign", "warning sign") else 0.0,
    )
