"""Changes one fact of a description by plain word substitution: what a check must catch.

Knows nothing of the parser: its tables are its own, and every occurrence is tried.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_COLOURS = ("black", "white", "red", "green", "yellow", "purple", "orange", "blue", "brown", "pink")
_COLOUR_WORDS = re.compile(
    r"\b(black|white|red|green|blue|yellow|purple|pink|orange|brown|gray|grey|beige|navy|khaki"
    r"|olive|silver|gold|blonde?)\b(?![- ](?:skin|complexion|man\b))"
)
_CLOSE = {
    "yellow": ("orange", "gold"),
    "gold": ("yellow", "orange"),
    "gray": ("silver", "white", "black"),
    "grey": ("silver", "white", "black"),
    "silver": ("gray", "white"),
    "beige": ("white", "brown", "yellow"),
    "khaki": ("green", "brown", "yellow"),
    "olive": ("green",),
    "navy": ("blue", "black"),
    "blonde": ("yellow", "white", "brown"),
    "blond": ("yellow", "white", "brown"),
    "pink": ("red", "purple"),
    "orange": ("red", "yellow"),
    "brown": ("orange",),
    "red": ("pink", "orange"),
    "purple": ("pink",),
}
_GARMENTS = {
    "t-shirt": ("coat", "dress"),
    "tee": ("coat", "skirt"),
    "polo shirt": ("jacket", "sweater"),
    "shirt": ("sweater", "jacket"),
    "blouse": ("sweater", "coat"),
    "sweater": ("T-shirt", "coat"),
    "hoodie": ("blouse", "coat"),
    "hooded sweatshirt": ("blouse",),
    "tank top": ("jacket", "sweater"),
    "camisole": ("sweater",),
    "jacket": ("dress", "sweater"),
    "windbreaker": ("dress",),
    "coat": ("sweater", "shirt"),
    "cardigan": ("T-shirt",),
    "vest": ("coat",),
    "dress": ("jacket", "shirt"),
    "skirt": ("jeans", "coat"),
    "trousers": ("shorts", "skirts"),
    "pants": ("shorts",),
    "jeans": ("shorts", "leggings"),
    "leggings": ("shorts", "jeans"),
    "sweatpants": ("shorts",),
    "shorts": ("jeans", "trousers"),
    "sneakers": ("boots", "sandals"),
    "trainers": ("sandals",),
    "canvas shoes": ("boots",),
    "running shoes": ("high heels",),
    "sports shoes": ("sandals",),
    "leather shoes": ("sandals", "boots"),
    "board shoes": ("boots",),
    "shoes": ("boots", "sandals"),
    "sandals": ("boots", "sneakers"),
    "boots": ("sandals", "sneakers"),
    "high heels": ("sneakers",),
    "slippers": ("boots",),
    "flip-flops": ("boots",),
}
_ACCESSORIES = {
    "backpack": ("suitcase", "umbrella"),
    "schoolbag": ("briefcase",),
    "shoulder bag": ("suitcase", "camera"),
    "handbag": ("backpack", "umbrella"),
    "messenger bag": ("backpack",),
    "plastic bag": ("backpack",),
    "tote bag": ("suitcase",),
    "purse": ("backpack",),
    "suitcase": ("backpack",),
    "briefcase": ("backpack",),
    "baseball cap": ("helmet", "scarf"),
    "cap": ("helmet",),
    "beanie": ("helmet",),
    "hat": ("helmet", "scarf"),
    "glasses": ("earrings", "headphones"),
    "sunglasses": ("earrings",),
    "mask": ("scarf",),
    "scarf": ("tie", "mask"),
    "tie": ("scarf",),
    "watch": ("bracelet",),
    "bracelet": ("watch",),
    "camera": ("phone", "book"),
    "mobile phone": ("book",),
    "cell phone": ("camera",),
    "phone": ("bottle", "book"),
    "umbrella": ("cane", "racket"),
    "cane": ("umbrella",),
    "book": ("phone",),
    "basketball": ("balloon",),
    "belt": ("scarf",),
    "gloves": ("earrings",),
    "headphones": ("sunglasses",),
    "balloon": ("ball",),
}
_INSERTIONS = (
    "{He} {is} carrying a green umbrella.",
    "{He} {wear} a purple scarf.",
    "There is a silver watch on {his} wrist.",
    "A red suitcase stands beside {him}.",
    "{He} {hold} a guitar.",
)
_MALE_TO_FEMALE = {
    "man": "woman",
    "boy": "girl",
    "male": "female",
    "gentleman": "lady",
    "he": "she",
    "his": "her",
    "him": "her",
}
_FEMALE_TO_MALE = {
    "woman": "man",
    "girl": "boy",
    "female": "male",
    "lady": "gentleman",
    "she": "he",
    "her": "his",
}


class Corruption(NamedTuple):
    """A description with one fact changed, the kind of fact, and what was done."""

    kind: str
    text: str
    change: str


def corrupt(text: str) -> Iterator[Corruption]:
    """Every corruption of `text` that the tables know."""
    yield from _colours(text)
    yield from _nouns("garment", _GARMENTS, text)
    yield from _nouns("accessory", _ACCESSORIES, text)
    yield from _insertions(text)
    yield from _sexes(text)
    yield from _sides(text)


def _colours(text: str) -> Iterator[Corruption]:
    for index, match in enumerate(_COLOUR_WORDS.finditer(text)):
        word = match.group()
        close = (word, *_CLOSE.get(word, ()))
        others = [colour for colour in _COLOURS if colour not in close]
        around = text[max(0, match.start() - 40) : match.end() + 40]
        others = [c for c in others if word not in _CLOSE.get(c, ()) and c not in around]
        new = others[(index * 3 + len(text)) % len(others)]
        changed = text[: match.start()] + new + text[match.end() :]
        yield Corruption("colour", changed, f"{word} → {new} at {match.start()}")


def _nouns(kind: str, table: dict[str, tuple[str, ...]], text: str) -> Iterator[Corruption]:
    covered: set[int] = set()
    for word in sorted(table, key=len, reverse=True):
        pattern = re.compile(
            rf"(?<![\w-]){re.escape(word)}(?![\w-]| shirt| pants| shoes)", re.IGNORECASE
        )
        places = [m.start() for m in pattern.finditer(text) if m.start() not in covered]
        inside = {i for m in pattern.finditer(text) for i in range(m.start(), m.end())}
        if not places or inside & covered:
            covered |= inside
            continue
        covered |= inside
        for new in table[word]:
            changed = pattern.sub(new, text)
            changed = re.sub(r"\b(an?)(?= (?:umbrella|suitcase|helmet))", "a", changed)
            yield Corruption(kind, changed, f"{word} → {new}")


def _insertions(text: str) -> Iterator[Corruption]:
    female = bool(re.search(r"\b(?:woman|girl|female|lady|she|her)\b", text, re.IGNORECASE))
    male = bool(re.search(r"\b(?:man|boy|male|gentleman|he|his)\b", text, re.IGNORECASE))
    plural = female == male
    words = {
        "He": "They" if plural else "She" if female else "He",
        "his": "their" if plural else "her" if female else "his",
        "him": "them" if plural else "her" if female else "him",
        "is": "are" if plural else "is",
        "wear": "wear" if plural else "wears",
        "hold": "hold" if plural else "holds",
    }
    for sentence in _INSERTIONS:
        added = sentence.format(**words)
        noun = re.findall(r"(umbrella|scarf|watch|suitcase|guitar)", sentence)[0]
        if noun not in text.lower():
            yield Corruption("accessory", f"{text.rstrip()} {added}", f"+ {added}")


def _sexes(text: str) -> Iterator[Corruption]:
    male = bool(re.search(r"\b(?:man|boy|male|gentleman|he|his)\b", text, re.IGNORECASE))
    female = bool(re.search(r"\b(?:woman|girl|female|lady|she|her)\b", text, re.IGNORECASE))
    if male == female:
        return
    table = _MALE_TO_FEMALE if male else _FEMALE_TO_MALE
    yield Corruption("sex", _swapped(text, table), "throughout")
    nouns = {word: new for word, new in table.items() if word not in _PRONOUNS}
    for name, part in (
        ("nouns", nouns),
        ("pronouns", {w: table[w] for w in table if w in _PRONOUNS}),
    ):
        changed = _swapped(text, part)
        if changed != text:
            yield Corruption("sex", changed, f"{name} only")


_PRONOUNS = frozenset(("he", "his", "him", "she", "her"))


def _swapped(text: str, table: dict[str, str]) -> str:
    def swap(match: re.Match[str]) -> str:
        new = table[match.group().lower()]
        return new.capitalize() if match.group()[0].isupper() else new

    words = "|".join(table)
    # A picture of somebody on a shirt, or a companion, is not the person described.
    return re.sub(rf"\b(?:{words})\b(?!['’]s pattern)", swap, text, flags=re.IGNORECASE)


_SIDE = re.compile(
    r"\b(left|right)\b(?= (?:hand|shoulder|arm|forearm|wrist|knee|side|elbow)\b)"
    r"|(?<=her )(?:left|right)(?=[.,])|(?<=his )(?:left|right)(?=[.,])"
)


def _sides(text: str) -> Iterator[Corruption]:
    for match in _SIDE.finditer(text):
        new = {"left": "right", "right": "left"}[match.group()]
        changed = text[: match.start()] + new + text[match.end() :]
        yield Corruption("side", changed, f"{match.group()} → {new} at {match.start()}")
