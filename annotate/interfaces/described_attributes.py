"""Which attributes of a person a description mentions, by the words that people use for them.

It is a reminder for writers, not a check of truth: a word says that the writer thought of the
attribute. The page for descriptions looks for the same words while they write.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache

_COLOURS = (
    "black white gr[ae]y(?:ish)? silver red(?:dish)? orange yellow green(?:ish)? blue purple pink "
    "brown(?:ish)? beige khaki navy golden? maroon cream tan teal turquoise violet burgundy "
    "dark[- ]colou?red light[- ]colou?red colou?rful"
)

ATTRIBUTES: Mapping[str, str] = {
    "sex and age": "man men woman women male female boy girl gentleman lady guy young old elderly "
    "middle-aged adult teenager teenage child senior",
    "build and skin": "slim slender thin stocky sturdy fat plump chubby build built figure stature "
    "tall short height medium-built overweight muscular strong skin complexion fair pale tanned "
    "skinned",
    "hair": "hair haired bald ponytail braids? bun bangs fringe curls curly hairstyle beard "
    "moustache mustache bearded dreadlocks pigtails",
    "headwear and glasses": "hat cap helmet hood beanie headscarf turban bareheaded bare-headed "
    "headband glasses sunglasses spectacles bespectacled mask hatless",
    "upper body": "shirt t-shirt tee top sweater jumper jacket coat hoodie blouse vest dress suit "
    "sweatshirt cardigan polo windbreaker parka blazer upper tunic gown robe overcoat jersey",
    "sleeves and length": "sleeves? sleeved sleeveless short-sleeved? long-sleeved? knee ankle "
    "ankles knees calf thigh waist hip length knee-length cropped rolled mid-length",
    "lower body": "trousers pants jeans shorts skirt leggings slacks lower dress joggers "
    "sweatpants tights culottes",
    "colour": _COLOURS,
    "pattern": "plain pattern patterned stripes? striped check checked checkered chequered plaid "
    "dots dotted floral logo letters? lettering print printed graphic design solid camouflage "
    "text words embroidered",
    "footwear": "shoes? sneakers? trainers boots? sandals? slippers heels footwear barefoot socks "
    "loafers flip-flops soles?",
    "carried": "bag handbag backpack rucksack satchel purse suitcase briefcase tote umbrella phone "
    "carries carrying holds holding empty-handed hands? basket stroller parcel",
    "action": "walks walking stands standing runs running sits sitting rides riding looks looking "
    "talks talking pushes pushing pulls leans leaning crosses crossing turns turned facing faces "
    "strides striding waits waiting steps stepping",
}
"""The attributes in the order of a description, each with its words: patterns without a `$`."""


def attribute_pattern(attribute: str) -> str:
    """The regular expression that finds an attribute's words, for Python and for JavaScript."""
    # A space inside a word's own pattern is written as `[- ]`.
    words = re.split(r" (?![^\[]*\])", ATTRIBUTES[attribute])
    return rf"\b(?:{'|'.join(words)})\b"


def missing_attributes(text: str) -> Sequence[str]:
    """The attributes that a description does not mention, in the order of `ATTRIBUTES`."""
    return [attribute for attribute in ATTRIBUTES if not _compiled(attribute).search(text)]


def count_words(text: str) -> int:
    """How many words a text has: what stands between white space and has a letter or a digit."""
    return sum(any(character.isalnum() for character in word) for word in text.split())


@cache
def _compiled(attribute: str) -> re.Pattern[str]:
    return re.compile(attribute_pattern(attribute), re.IGNORECASE)
