"""Change one fact of a description by plain word substitution, as errors that a check must find.

The module does not use the parser: it has its own tables, and every occurrence is tried. `corrupt`
changes the kinds of facts that every description states, `corrupt_details` finer ones.
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


_GARMENT = (
    r"(?:sweater|T-shirt|tee|shirt|blouse|jacket|shorts|skirt|jeans|leggings|backpack|handbag)"
)
_COLOUR = r"(?:black|white|red|green|blue|yellow|beige|gray|brown)"
_HERS = r"(?:his|her|the|its|their)"
# (kind, pattern, replacements): each match of the pattern and each replacement give one corruption.
_DETAILS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("material", r"\bleather\b", ("canvas", "rubber")),
    ("material", r"\bcanvas\b", ("leather", "plastic")),
    ("material", r"\bcotton\b", ("silk", "denim")),
    ("material", rf"(?<!and )\b({_COLOUR}) (jacket|backpack|shorts)\b", (r"\1 leather \2",)),
    ("material", rf"(?<!and )\b({_COLOUR}) (shirt|blouse|sweater)\b", (r"\1 silk \2",)),
    ("pattern", r"\b(?:polka[- ])?dot(?:ted)?\b|\bpolka-dotted\b", ("striped", "floral")),
    ("pattern", r"\bpolka dots\b", ("stripes", "flowers")),
    ("pattern", r"\bstriped\b", ("checked", "floral")),
    ("pattern", r"\bstripes\b", ("polka dots",)),
    ("pattern", rf"(?<!and )\b({_COLOUR}) ({_GARMENT})\b", (r"\1 striped \2", r"\1 floral \2")),
    ("picture", r"\b(?:beautiful|pretty|lovely) (?:woman|lady)\b", ("fierce lion", "red car")),
    ("picture", r"\bEnglish letters?\b", ("Chinese characters", "smiling faces")),
    ("picture", r"(?<!English )\bletters\b", ("stars", "skulls")),
    (
        "count",
        r"\b[Aa] ((?:(?!wom[ae]n|m[ae]n)[\w-]+ ){0,4}?(?:backpack|handbag|camera))\b",
        (r"two \1s",),
    ),
    ("count", r"\b[Aa] ((?:[\w-]+ )?(?:mobile|cell) phone)\b", (r"three \1s",)),
    ("count", r"\b[Aa] ((?:black )?English letter)\b", (r"two \1s",)),
    ("count", r"\b[Aa] (line|row) of\b", (r"three \1s of",)),
    ("count", rf"\b{_HERS} (?:left|right) hand\b", ("both hands",)),
    ("side", rf"(?<=\b)({_HERS}) left\b", (r"\1 right",)),
    ("side", rf"(?<=\b)({_HERS}) right\b(?! length)", (r"\1 left",)),
    ("place", rf"\bon ({_HERS}) back\b", (r"on \1 front",)),
    ("place", rf"\b(on|at) ({_HERS}) (?:front|chest)\b", (r"\1 \2 back",)),
    ("place", rf"\b(around|about|from) ({_HERS}) neck\b", (r"\1 \2 waist",)),
    ("place", rf"\bin ({_HERS}) (left|right) hand\b", (r"on \1 \2 shoulder",)),
    ("place", rf"\b(?:on|over) ({_HERS}) shoulders?\b", (r"in \1 hand",)),
    ("place", rf"\bacross ({_HERS}) (?:back|chest)\b", (r"across \1 sleeves",)),
    ("degree", r"(?<!is )\btall\b", ("short",)),
    ("degree", r"\b(?:slender|slim)\b(?!-fitting)", ("stout", "plump")),
    ("degree", r"\bdark (blue|brown)\b", (r"light \1",)),
    ("degree", r"\b(?:light|pale|shallow) (blue|gray)\b", (r"dark \1",)),
    ("degree", r"\b(?:large|roomy|spacious|big|capacious)\b", ("small", "tiny")),
    ("degree", r"\b(?:tight|snug|tight-fitting|close-fitting|form-fitting)\b", ("baggy", "loose")),
    ("degree", r"\bflat (?=sneakers)", ("thick-soled ", "high-heeled ")),
    ("degree", r"\b(?:slightly|somewhat|faintly|a little) yellow\b", ("deep yellow",)),
    ("degree", r"\bhealthy\b", ("sickly", "frail")),
    ("degree", r"\b(?:neat|tidy)\b", ("messy",)),
    ("degree", r"\bneatly\b", ("untidily",)),
    ("length", r"\blong[- ](sleeved|sleeves)\b", (r"short-\1",)),
    ("length", r"\bshort[- ](sleeved|sleeves)\b", (r"long-\1",)),
    ("length", r"\bsleeveless\b", ("long-sleeved",)),
    ("length", r"\bankles?\b", ("knees",)),
    ("length", r"\bknees?\b", ("ankles",)),
    ("length", r"\b(?<!and )(?:buttocks|butt|bottom|behind|rear)(?=[.,;])", ("knees",)),
    ("length", r"\b(?:biceps|upper arms)\b", ("wrists",)),
    ("length", r"\bthighs\b", ("ankles",)),
    ("length", r"\blong(?=(?:,? (?:blue|black|yellow))? (?:jeans|pants)\b)", ("short",)),
    ("hair", r"\b[Ll]ong(?=(?:,? (?:loose|black|brown))* (?:hair|tresses|locks)\b)", ("short",)),
    ("hair", r"\b[Ss]hort(?=(?:,? (?:neat|yellow))* hair\b)", ("long",)),
    ("hair", r"\bmiddle part(?:ing)?\b", ("side parting",)),
    ("hair", r"\bparted (?:in the middle|down the middle)\b", ("parted on the left",)),
    ("hair", r"\bhair is loose\b", ("hair is tied up", "hair is in a braid")),
    ("hair", r"\bponytail\b", ("braid", "bun")),
    ("hair", r"\b(and|has|with) a (beard|mustache|moustache)\b", (r"\1 no \2",)),
    (
        "age",
        r"\b[Yy]oung(?= (?:man|woman|lady|female|gentleman|white))",
        ("middle-aged", "elderly"),
    ),
    ("age", r"\bmiddle[- ]aged\b", ("young", "elderly")),
    (
        "skin",
        r"\b(?:fair|pale|light|white|whitish)(?=[- ](?:skin|skinned|complexion)\b)",
        ("dark",),
    ),
    ("skin", r"\bwarm yellow\b", ("very dark",)),
    ("shape", r"\bvertical\b", ("horizontal", "round")),
    ("shape", r"\bhorizontal\b", ("vertical", "round")),
    ("shape", r"\b(?:an? )?airplane(?:[- ]|'s )nose\b", ("a mushroom",)),
    ("shape", r"\bpilot's cap\b", ("bird's nest",)),
)
_ACTIONS = ("{He} {is} sitting on a bench.", "{He} {is} waving at a friend.")
_NONSENSE = (
    "{He} {wear} a large capacity, which is the length of {his} neck.",
    "The shoes are holding the hair of {his} jacket.",
)


class Corruption(NamedTuple):
    """A description with one changed fact, the kind of the fact, and the change."""

    kind: str
    text: str
    change: str


def corrupt(text: str) -> Iterator[Corruption]:
    """Yield every corruption of `text` for which the tables have a replacement."""
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


def corrupt_details(text: str) -> Iterator[Corruption]:
    """Yield corruptions of the finer facts of `text`: materials, patterns, counts, degrees …"""
    for kind, pattern, replacements in _DETAILS:
        for match in re.finditer(pattern, text):
            for replacement in replacements:
                new = match.expand(replacement)
                changed = text[: match.start()] + new + text[match.end() :]
                yield Corruption(kind, changed, f"{match.group()} → {new} at {match.start()}")
    words = _words_for(text)
    for kind, sentences in (("action", _ACTIONS), ("nonsense", _NONSENSE)):
        for sentence in sentences:
            added = sentence.format(**words)
            yield Corruption(kind, f"{text.rstrip()} {added}", f"+ {added}")


def _insertions(text: str) -> Iterator[Corruption]:
    words = _words_for(text)
    for sentence in _INSERTIONS:
        added = sentence.format(**words)
        noun = re.findall(r"(umbrella|scarf|watch|suitcase|guitar)", sentence)[0]
        if noun not in text.lower():
            yield Corruption("accessory", f"{text.rstrip()} {added}", f"+ {added}")


def _words_for(text: str) -> dict[str, str]:
    """Return the pronouns and verb forms for the person of `text`."""
    female = bool(re.search(r"\b(?:woman|girl|female|lady|she|her)\b", text, re.IGNORECASE))
    male = bool(re.search(r"\b(?:man|boy|male|gentleman|he|his)\b", text, re.IGNORECASE))
    plural = female == male
    return {
        "He": "They" if plural else "She" if female else "He",
        "his": "their" if plural else "her" if female else "his",
        "him": "them" if plural else "her" if female else "him",
        "is": "are" if plural else "is",
        "wear": "wear" if plural else "wears",
        "hold": "hold" if plural else "holds",
    }


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
    # A person pictured on a shirt is not the person described.
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
