"""Names what is in a picture: its place, its things with their colours, its people, its signs."""

import hashlib
from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image

from models.builtin.stills.cutting import Cut, background, cut_things
from models.builtin.stills.knowledge import NOTHING, Knowledge, load_knowledge
from models.builtin.stills.preparing import Mask, Style, prepare
from models.builtin.stills.shapes import (
    NAMES,
    SIDE,
    Features,
    colour_map,
    letter_features,
    place_features,
    shape_features,
)

PERSON, SIGN = "person", "sign"

_SURE = 0.5
_FAR_FROM_ALL_PLACES = 4.2  # of practice drawings, the farthest is 3.2 from its place
_SMALL_PX, _LARGE_PX = 49.0, 74.0
_MANY = 4
_BLUER, _DARKER = 32.0, 122.0  # letters on signs are of a dark blue
_LEAST_LETTER_PX, _LEAST_STROKE_PX = 9, 2


class Thing(NamedTuple):
    """A thing that was seen: its colour is None for a sign and for a person.

    The box is in pixels of a picture 320 wide. `clothes` are colours by garment (`shirt`,
    `trousers`, `hat`), `action` is what a person does, `word` what a sign says.
    """

    kind: str
    colour: str | None
    size: str
    left: float
    top: float
    right: float
    bottom: float
    action: str | None = None
    clothes: tuple[tuple[str, str], ...] = ()
    word: str | None = None


class Seen(NamedTuple):
    """What was seen. `place` and `style` are None where nothing is known that looks like that."""

    place: str | None
    style: Style | None
    things: tuple[Thing, ...]


def see_still(image: Image.Image) -> Seen:
    """What an RGB image shows; what was seen lately is not looked at again.

    Only drawings are looked at for things: of a photograph nothing is said but that it is none.
    """
    digest = hashlib.blake2b(f"{image.mode} {image.size}".encode(), digest_size=16)
    digest.update(image.tobytes())
    return _MEMORY.recalled(digest.digest()) or _MEMORY.keep(digest.digest(), _look_at(image))


class _Memory:
    """What was seen in the last images, by their digests; safe between threads.

    Strategist, editor, refiner and embedder look at the same images, ten times and more.
    """

    def __init__(self, images: int) -> None:
        self._images = images
        self._seen: OrderedDict[bytes, Seen] = OrderedDict()
        self._lock = Lock()

    def recalled(self, digest: bytes) -> Seen | None:
        with self._lock:
            if digest in self._seen:
                self._seen.move_to_end(digest)
            return self._seen.get(digest)

    def keep(self, digest: bytes, seen: Seen) -> Seen:
        with self._lock:
            self._seen[digest] = seen
            if len(self._seen) > self._images:
                self._seen.popitem(last=False)
        return seen


_MEMORY = _Memory(images=256)


def _look_at(image: Image.Image) -> Seen:
    picture = prepare(image)
    if picture.style is None:
        return Seen(None, None, ())
    knowledge = load_knowledge()
    cuts = list(cut_things(picture))
    things = tuple(thing for cut in cuts if (thing := _thing(cut, knowledge)) is not None)
    if len(things) > _MANY:  # crowded: everything is drawn smaller
        things = tuple(thing._replace(size="medium") for thing in things)
    features = place_features(picture.pixels, background(picture, cuts))
    place = _place(features, knowledge)
    is_known = place is not None or bool(things)
    return Seen(place, picture.style if is_known else None, things)


def _place(features: Features, knowledge: Knowledge) -> str | None:
    """The place that looks like that; None where no place does."""
    nearest = np.linalg.norm(knowledge.usual_places - features, axis=1).min()
    return knowledge.places.best(features)[0] if nearest < _FAR_FROM_ALL_PLACES else None


def _thing(cut: Cut, knowledge: Knowledge) -> Thing | None:
    label, sure = knowledge.kinds.best(shape_features(cut))
    if label == NOTHING or sure < _SURE:
        return None
    kind, _, rest = label.partition(":")
    box = (cut.left, cut.top, cut.left + cut.width, cut.top + cut.height)
    if kind == SIGN:
        return Thing(kind, None, "medium", *box, word=_word(cut, knowledge))
    colours = colour_map(cut)
    parts = knowledge.parts
    if kind == PERSON:
        action, _, hat = rest.partition(":")
        garments = ("shirt", "trousers", *((hat,) if hat else ()))
        clothes = ((name, _colour(colours, parts[f"{label}:{name}"])) for name in garments)
        return Thing(kind, None, "medium", *box, action=action, clothes=tuple(clothes))
    return Thing(kind, _colour(colours, parts[kind]), _size(cut), *box)


def _colour(colours: Features, part: Features) -> str:
    """The colour that is where the part is."""
    weights = (colours * part[..., None]).reshape(SIDE * SIDE, len(NAMES)).sum(axis=0)
    return NAMES[int(weights.argmax())]


def _size(cut: Cut) -> str:
    side = float(np.sqrt(cut.width * cut.height))
    if side < _SMALL_PX:
        return "small"
    return "large" if side > _LARGE_PX else "medium"


def _word(cut: Cut, knowledge: Knowledge) -> str:
    """The word on a sign, letter by letter; what cannot be a letter is left out."""
    return "".join(knowledge.letters.best(letter_features(mask))[0] for mask in letters_of(cut))


def letters_of(cut: Cut) -> list[Mask]:
    """The letters on a sign, from left to right, each in its own box."""
    red, green, blue = np.moveaxis(cut.pixels, 2, 0)
    written = (blue - red > _BLUER) & (green < _DARKER) & cut.shape & ~cut.ink
    count, marks, stats, _ = cv2.connectedComponentsWithStats(written.astype(np.uint8))
    found = []
    for mark in range(1, count):
        left, top, width, height = (int(value) for value in stats[mark][:4])
        is_stroke = width >= _LEAST_STROKE_PX and height >= _LEAST_LETTER_PX
        if is_stroke and top + height < 0.75 * cut.height:
            found.append((left, marks[top : top + height, left : left + width] == mark))
    return [mask for _, mask in sorted(found, key=lambda pair: pair[0])]
