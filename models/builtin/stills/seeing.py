"""Names what is in a drawn picture: its place, its things with their colours, its people."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from models.builtin.describer import Lab, lab_of

# Undoes the style in which a picture is drawn, and finds the ink around its things.

Style = Literal["flat drawing", "pencil sketch", "poster", "mosaic"]
Pixels = NDArray[np.float32]
Mask = NDArray[np.bool_]

WIDTH_PX = 320
_HEIGHTS_PX = (80, 640)

_TILE_PX, _DOT_PX, _STROKE_PX = 4, 6, 5
_SEAM, _DOTS, _STROKES = 3.0, 9.0, 1.4
_PAPER = np.array((250, 247, 238), np.float32)
_COVER = 0.57  # how much crayon covers the paper, on the mean
_POSTER_STRENGTH = 1.35
_INK = 52.0  # of 255: darker in all channels is ink
_EVEN = 7.0  # neighbours that differ by less are of one area
_MOSTLY_EVEN = 0.5


class Prepared(NamedTuple):
    """A picture made plain.

    `pixels` of shape (height, width, 3) in 0 … 255, 320 wide, as if it were drawn flat; `ink` of
    shape (height, width); `style` is None for what seems to be no drawing.
    """

    pixels: Pixels
    ink: Mask
    style: Style | None


def prepare(image: Image.Image) -> Prepared:
    """The plain picture of an RGB image."""
    pixels = _sized(image)
    style = _style(pixels)
    undone = _undone(pixels, style)
    ink = _largest(undone) < _INK
    if style is None and _evenness(pixels) >= _MOSTLY_EVEN:
        style = "flat drawing"
    return Prepared(undone, ink, style)


def _sized(image: Image.Image) -> Pixels:
    height = round(image.height * WIDTH_PX / image.width)
    size = (WIDTH_PX, min(_HEIGHTS_PX[1], max(_HEIGHTS_PX[0], height)))
    if image.size != size:
        image = image.resize(size, Image.Resampling.BICUBIC)
    return np.asarray(image, np.float32)


def _style(pixels: Pixels) -> Style | None:
    """A style that leaves a regular trace; None for a flat drawing and for all others."""
    light = pixels.mean(axis=2)
    if _seams(light) > _SEAM:
        return "mosaic"
    if _strokes(light) > _STROKES:
        return "pencil sketch"
    return "poster" if _dots(light) > _DOTS else None


def _seams(light: Pixels) -> float:
    """How much every fourth column and row stands out from its neighbours."""
    found = []
    for field in (light, light.T):
        change = np.abs(field[:, 1:-1] - (field[:, :-2] + field[:, 2:]) / 2)
        columns = np.median(change, axis=0)
        place = np.arange(1, 1 + columns.size) % _TILE_PX
        found.append(columns[place == _TILE_PX - 1].mean() - columns[place == 1].mean())
    return float(min(found))


def _strokes(light: Pixels) -> float:
    """How much more light changes across strokes from lower left to upper right than along."""
    along = np.abs(light[1:, :-1] - light[:-1, 1:])
    across = np.abs(light[1:, 1:] - light[:-1, :-1])
    return float(across.mean() / max(along.mean(), 1.0))


def _dots(light: Pixels) -> float:
    """How much darker the middles of squares of six pixels are than their corners."""
    height, width = (side - side % _DOT_PX for side in light.shape)
    squares = light[:height, :width].reshape(height // _DOT_PX, _DOT_PX, width // _DOT_PX, _DOT_PX)
    squares = squares.transpose(0, 2, 1, 3)
    middle, corner = squares[:, :, 2:4, 2:4].mean(axis=(2, 3)), squares[:, :, 0, 0]
    return float(np.median((corner - middle)[corner > 100])) if (corner > 100).any() else 0.0


def _evenness(pixels: Pixels) -> float:
    """The share of pixels that look like their neighbours to the right and below."""
    right = _largest(np.abs(np.diff(pixels, axis=1)))[:-1]
    below = _largest(np.abs(np.diff(pixels, axis=0)))[:, :-1]
    return float(((right < _EVEN) & (below < _EVEN)).mean())


def _largest(pixels: Pixels) -> Pixels:
    """The largest of the three channels: many times faster than `max(axis=2)`."""
    red, green, blue = np.moveaxis(pixels, 2, 0)
    return np.asarray(np.maximum(np.maximum(red, green), blue))


def _undone(pixels: Pixels, style: Style | None) -> Pixels:
    if style == "mosaic":
        return _without_seams(pixels)
    if style == "pencil sketch":
        return _without_strokes(pixels)
    if style == "poster":
        mean = pixels.mean(axis=2, keepdims=True)
        return np.asarray(mean + (pixels - mean) / _POSTER_STRENGTH, np.float32)
    return pixels


def _without_seams(pixels: Pixels) -> Pixels:
    height, width = (side // _TILE_PX for side in pixels.shape[:2])
    whole = pixels[: height * _TILE_PX, : width * _TILE_PX]
    tiles = whole.reshape(height, _TILE_PX, width, _TILE_PX, 3)[:, :3, :, :3].mean(axis=(1, 3))
    stones = np.repeat(np.repeat(tiles, _TILE_PX, axis=0), _TILE_PX, axis=1)
    undone = pixels.copy()
    undone[: stones.shape[0], : stones.shape[1]] = stones
    return undone


def _without_strokes(pixels: Pixels) -> Pixels:
    ink = _largest(pixels)[..., None] < _INK + 20
    weight = np.where(ink, 0, 1).astype(np.float32)
    box = (_STROKE_PX, _STROKE_PX)
    share = cv2.blur(weight[..., 0], box)[..., None]
    smooth = cv2.blur(pixels * weight, box) / np.maximum(share, 1e-3)
    undone = (smooth - _PAPER * (1 - _COVER)) / _COVER
    return np.asarray(np.where(ink, 16, np.clip(undone, _INK, 255)), np.float32)


# Cuts out of a picture what a closed line of ink surrounds.

_LEAST_SIDE_PX = 12
_LEAST_AREA_PX = 160
_LEAST_INSIDE = 0.3  # of what a line surrounds; with less it is a dark patch
_GAP = np.ones((2, 2), np.uint8)  # lines may break where they are as thin as a pixel


class Cut(NamedTuple):
    """Something with ink around it; all arrays are those of its box.

    `left`, `top` are the box's corner in pixels of the picture; `shape` marks what the outermost
    line surrounds, `ink` the ink in it; `pixels` has shape (height, width, 3).
    """

    left: int
    top: int
    shape: Mask
    ink: Mask
    pixels: Pixels

    @property
    def height(self) -> int:
        """Of the box, in pixels."""
        return int(self.shape.shape[0])

    @property
    def width(self) -> int:
        """Of the box, in pixels."""
        return int(self.shape.shape[1])


def cut_things(picture: Prepared) -> Iterator[Cut]:
    """Everything that is cut out, from left to right."""
    closed = cv2.morphologyEx(picture.ink.astype(np.uint8), cv2.MORPH_CLOSE, _GAP)
    contours, _ = cv2.findContours(closed, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    boxes = sorted((cv2.boundingRect(contour), place) for place, contour in enumerate(contours))
    for (left, top, width, height), place in boxes:
        if min(width, height) < _LEAST_SIDE_PX:
            continue
        shape = np.zeros((height, width), np.uint8)
        cv2.drawContours(shape, contours, place, 1, cv2.FILLED, offset=(-left, -top))
        window = np.s_[top : top + height, left : left + width]
        ink = picture.ink[window] & (shape > 0)
        if shape.sum() >= _LEAST_AREA_PX and ink.sum() <= (1 - _LEAST_INSIDE) * shape.sum():
            yield Cut(left, top, shape > 0, ink, picture.pixels[window])


def background(picture: Prepared, cuts: list[Cut]) -> NDArray[np.bool_]:
    """The pixels, of shape (height, width), that belong to nothing that was cut out."""
    free = np.ones(picture.ink.shape, np.uint8)
    for cut in cuts:
        window = free[cut.top : cut.top + cut.height, cut.left : cut.left + cut.width]
        window[cut.shape] = 0
    return np.asarray(cv2.erode(free, np.ones((5, 5), np.uint8)) > 0)


# Numbers for what was cut out, for letters, and for a place.

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (212, 44, 48),
    "orange": (242, 136, 36),
    "yellow": (246, 212, 60),
    "green": (60, 158, 78),
    "blue": (44, 104, 206),
    "purple": (130, 72, 172),
    "pink": (244, 142, 184),
    "brown": (134, 84, 46),
    "black": (66, 64, 72),
    "white": (246, 245, 240),
}
"""Ten names of colours, and how they are drawn."""

NAMES = tuple(COLOURS)
SIDE = 20
LETTER_SIDE = 14
_BODY_DISTANCE = 16.0

Features = NDArray[np.float32]


def named(pixels: NDArray[np.float32]) -> NDArray[np.intp]:
    """For each pixel, of shape (…, 3) in 0 … 255, the index in `NAMES` of the nearest colour."""
    lab = _lab(pixels)
    distances = np.linalg.norm(lab[..., None, :] - _anchors(), axis=-1)
    return np.asarray(distances.argmin(axis=-1), np.intp)


def is_turned(cut: Cut) -> bool:
    """Whether a thing is to be mirrored before it is compared: its mass lies in its right half."""
    columns = (cut.shape & ~cut.ink).sum(axis=0, dtype=np.float64)
    middle = (columns * np.arange(columns.size)).sum() / max(columns.sum(), 1)
    return bool(middle > (columns.size - 1) / 2)


def shape_features(cut: Cut) -> Features:
    """Of shape (3 · SIDE² + 2,): outline, ink, where the main colour is, and the proportions."""
    inside = cut.shape & ~cut.ink
    fields = [cut.shape, cut.ink, inside & _main_colour(cut, inside)]
    turned = is_turned(cut)
    small = [_shrunk(field[:, ::-1] if turned else field) for field in fields]
    share = float(cut.shape.mean())
    proportions = [np.log(cut.width / cut.height) * 6, share * 6]
    return np.concatenate([*(field.ravel() for field in small), proportions]).astype(np.float32)


def colour_map(cut: Cut) -> Features:
    """Of shape (SIDE, SIDE, len(NAMES)): how much of each colour is where, mirrored alike."""
    names = named(cut.pixels)
    inside = cut.shape & ~cut.ink
    turned = is_turned(cut)
    fields = ((names == index) & inside for index in range(len(NAMES)))
    small = [_shrunk(f[:, ::-1] if turned else f) for f in fields]
    return np.stack(small, axis=-1).astype(np.float32)


def letter_features(mask: NDArray[np.bool_]) -> Features:
    """Of shape (LETTER_SIDE² + 1,): a letter's form in its box, and the box's proportions."""
    side = (LETTER_SIDE, LETTER_SIDE)
    small = cv2.resize(mask.astype(np.float32), side, interpolation=cv2.INTER_AREA)
    proportion = np.log(mask.shape[1] / mask.shape[0]) * 3
    return np.append(small.ravel(), proportion).astype(np.float32)


def place_features(pixels: NDArray[np.float32], free: NDArray[np.bool_]) -> Features:
    """Of shape (8 · 4 · 3,): mean colour of the free parts of a grid; hidden cells as their row."""
    lab = _lab(pixels)
    rows, columns = 8, 4
    cells = np.zeros((rows, columns, 3), np.float32)
    height, width = free.shape
    for row in range(rows):
        band = np.s_[row * height // rows : (row + 1) * height // rows]
        whole = lab[band][free[band]]
        mean = whole.mean(axis=0) if whole.size else lab[band].mean(axis=(0, 1))
        for column in range(columns):
            part = np.s_[band, column * width // columns : (column + 1) * width // columns]
            seen = lab[part][free[part]]
            cells[row, column] = seen.mean(axis=0) if len(seen) > 20 else mean
    return (cells.ravel() / 20).astype(np.float32)


def _main_colour(cut: Cut, inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where a thing has the colour that prevails in it."""
    if not inside.any():
        return inside
    lab = _lab(cut.pixels)
    bins = (lab / (12, 14, 14)).round().astype(np.int64)
    keys = (bins * (1, 1000, 1000000)).sum(axis=-1)
    values, counts = np.unique(keys[inside], return_counts=True)
    colour = np.median(lab[inside & (keys == values[counts.argmax()])], axis=0)
    return np.asarray(np.linalg.norm(lab - colour, axis=-1) < _BODY_DISTANCE)


def _shrunk(field: NDArray[np.bool_]) -> Features:
    small = cv2.resize(field.astype(np.float32), (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.float32)


def _lab(pixels: NDArray[np.float32]) -> Lab:
    return lab_of(np.clip(pixels, 0, 255).astype(np.uint8))


def _anchors() -> Lab:
    return lab_of(np.array([list(COLOURS.values())], np.uint8)).reshape(-1, 3)


# What is remembered of drawn stills: how kinds of things, letters and places tell apart.

Matrix = NDArray[np.float32]

NOTHING = "nothing"
FILE = Path(__file__).with_name("knowledge.npz")
_SHRINKAGE = 0.08
_STEEPNESS = 0.01  # scores are in variances of drawings that are very much alike


@dataclass(frozen=True)
class Discriminant:
    """A linear discriminant: `weights` of shape (features, labels), `bias` of shape (labels,)."""

    labels: tuple[str, ...]
    weights: Matrix
    bias: Matrix

    def best(self, features: Matrix) -> tuple[str, float]:
        """The likeliest label of `features`, of shape (features,), and how likely it is."""
        scores = _STEEPNESS * (features @ self.weights + self.bias).astype(np.float64)
        likely = np.exp(scores - scores.max())
        return self.labels[int(scores.argmax())], float(likely.max() / likely.sum())


def fit(features: Matrix, labels: list[str]) -> Discriminant:
    """Linear discriminant analysis with a shrunk common covariance; equal priors."""
    known = tuple(sorted(set(labels)))
    place = np.array([known.index(label) for label in labels])
    data = features.astype(np.float64)
    means = np.stack([data[place == index].mean(axis=0) for index in range(len(known))])
    within = data - means[place]
    covariance = within.T @ within / len(data)
    spread = np.trace(covariance) / len(covariance)
    covariance = (1 - _SHRINKAGE) * covariance + _SHRINKAGE * spread * np.eye(len(covariance))
    weights = np.linalg.solve(covariance, means.T)
    bias = -0.5 * (means.T * weights).sum(axis=0)
    return Discriminant(known, weights.astype(np.float32), bias.astype(np.float32))


@dataclass(frozen=True)
class Knowledge:
    """Everything that is remembered.

    `parts` of shape (SIDE, SIDE) say, by `kind` or `person:action:garment`, where its colour is;
    `usual_places`, of shape (places, features), are the mean looks of places.
    """

    kinds: Discriminant
    letters: Discriminant
    places: Discriminant
    usual_places: Matrix
    parts: dict[str, Matrix]


def save_knowledge(knowledge: Knowledge, target: Path = FILE) -> None:
    """Writes everything, in half precision."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for name in ("kinds", "letters", "places"):
        found: Discriminant = getattr(knowledge, name)
        arrays |= {
            f"{name}_labels": np.array(found.labels),
            f"{name}_weights": found.weights.astype(np.float16),
            f"{name}_bias": found.bias,
        }
    arrays["usual_places"] = knowledge.usual_places.astype(np.float16)
    arrays["part_names"] = np.array(list(knowledge.parts))
    arrays["part_maps"] = np.stack(list(knowledge.parts.values())).astype(np.float16)
    np.savez_compressed(target, allow_pickle=False, **arrays)


@cache
def load_knowledge(source: Path = FILE) -> Knowledge:
    """What was written."""
    with np.load(source, allow_pickle=False) as data:
        found = {
            name: Discriminant(
                tuple(str(label) for label in data[f"{name}_labels"]),
                data[f"{name}_weights"].astype(np.float32),
                data[f"{name}_bias"],
            )
            for name in ("kinds", "letters", "places")
        }
        usual = data["usual_places"].astype(np.float32)
        maps = data["part_maps"].astype(np.float32)
        parts = {str(name): maps[place] for place, name in enumerate(data["part_names"])}
    return Knowledge(found["kinds"], found["letters"], found["places"], usual, parts)


# Names what is in a picture: its place, its things with their colours, its people, its signs.

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
