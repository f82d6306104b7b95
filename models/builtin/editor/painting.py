"""Other colours, words, styles and places for a drawn picture."""

from itertools import combinations
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from models.builtin.drawing.pen import FINE, Draws
from models.builtin.drawing.places import draw_place
from models.builtin.drawing.styles import LINE_PX
from models.builtin.drawing.vocabulary import KINDS, OUTLINE, Place, Style
from models.builtin.editor.canvas import Canvas, Drawn, Edited, Look, UneditableError, snapped
from models.builtin.editor.changes import Manner, Recolour, Resettle, Respell
from models.builtin.editor.layers import on_ground, styled_picture, with_looks
from models.builtin.stills.reading import GARMENTS
from models.builtin.stills.seeing import PERSON, SIGN, Mask, Pixels, Thing

# Gives a thing, or something that is worn, another colour: its shades change, its ink stays.
#
# A drawing has few colours. Which ones is known from how the thing is drawn; each pixel is taken
# for one of them, or for a mixture of two that meet there, and gets what these become.

Colours = NDArray[np.float32]

_REACH_PX = 2  # a drawing may be known a pixel or two beside where it is
_LEAST_FINE_PX = 6
_PURE = 14.0  # of 255: so near to a colour, a pixel is no mixture
_MIXING_COSTS = 4.0
_FARTHEST = 42.0  # of 255: what is farther from all of them is none of them


class _Palette(NamedTuple):
    """Colours before and after, of shape (k, 3), and where each may be, (k, height, width)."""

    before: Colours
    after: Colours
    where: NDArray[np.bool_]


def recoloured(pixels: Pixels, look: Look, changed: Look, line_px: float) -> Pixels:
    """`pixels` with the thing drawn as `look` having the colours of `changed`."""
    pad = round(line_px) + 2 + _REACH_PX
    left, top = round(look.left) - pad, round(look.top) - pad
    palette = _palette(look, changed, pad, line_px)
    height, width = palette.where.shape[1:]
    y0, x0 = max(0, top), max(0, left)
    y1, x1 = min(pixels.shape[0], top + height), min(pixels.shape[1], left + width)
    inside = np.s_[:, y0 - top : y1 - top, x0 - left : x1 - left]
    result = pixels.copy()
    result[y0:y1, x0:x1] += _deltas(
        pixels[y0:y1, x0:x1], palette._replace(where=palette.where[inside])
    )
    return result


def _palette(look: Look, changed: Look, pad: int, line_px: float) -> _Palette:
    old, new = (np.asarray(one.sheet(), np.int64) for one in (look, changed))
    drawn = old[..., 3] > 0
    keys = (old[..., :3] * (65536, 256, 1)).sum(axis=2) * 2**24
    keys += (new[..., :3] * (65536, 256, 1)).sum(axis=2)
    values, counts = np.unique(keys[drawn], return_counts=True)
    values = values[counts >= _LEAST_FINE_PX]
    before, after = (np.stack([_rgb(value) for value in part]) for part in divmod(values, 2**24))
    fields = [_coarse((keys == value) & drawn, pad) for value in values]
    ink = _coarse(_outline(drawn, line_px), pad)
    outline = np.array([OUTLINE], np.float32)
    return _Palette(
        np.concatenate([before, outline]),
        np.concatenate([after, outline]),
        np.stack([*fields, ink]),
    )


def _rgb(value: int) -> Colours:
    return np.array([value >> 16, value >> 8 & 255, value & 255], np.float32)


def _outline(drawn: NDArray[np.bool_], line_px: float) -> NDArray[np.bool_]:
    """Where the ink is, next to what is drawn."""
    side = 2 * round(line_px * FINE) + 1
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
    return np.asarray((cv2.dilate(drawn.astype(np.uint8), disc) > 0) & ~drawn)


def _coarse(field: NDArray[np.bool_], pad: int) -> NDArray[np.bool_]:
    """A field of a sheet in pixels of the picture, `pad` around it, and widened a little."""
    height, width = (-(-side // FINE) for side in field.shape)
    whole = np.zeros((height * FINE, width * FINE), bool)
    whole[: field.shape[0], : field.shape[1]] = field
    touched = whole.reshape(height, FINE, width, FINE).any(axis=(1, 3))
    padded = np.pad(touched, pad).astype(np.uint8)
    side = 2 * _REACH_PX + 1
    return cv2.dilate(padded, np.ones((side, side), np.uint8)) > 0


def _deltas(pixels: Pixels, palette: _Palette) -> Pixels:
    """By how much each pixel changes."""
    steps = palette.after - palette.before
    cost = np.full(pixels.shape[:2], _FARTHEST, np.float32)
    delta = np.zeros_like(pixels)
    for colour, step, where in zip(palette.before, steps, palette.where, strict=True):
        off = np.where(where, np.linalg.norm(pixels - colour, axis=2), np.inf)
        nearer = off < cost
        cost[nearer] = off[nearer]
        delta[nearer] = step
    pure = cost < _PURE
    for one, two in combinations(range(len(steps)), 2):
        both = palette.where[one] & palette.where[two] & ~pure
        if not both.any():
            continue
        first, second = palette.before[one], palette.before[two]
        direction = second - first
        share = ((pixels - first) @ direction / max(float(direction @ direction), 1.0)).clip(0, 1)[
            ..., None
        ]
        off = np.linalg.norm(pixels - first - share * direction, axis=2) + _MIXING_COSTS
        nearer = both & (off < cost)
        cost[nearer] = off[nearer]
        mixed = (1 - share) * steps[one] + share * steps[two]
        delta[nearer] = mixed[nearer]
    return delta


# Gives things other colours, and signs other words.

_BOARD = (0.05, 0.075, 0.95, 0.525)  # the inside of a sign's board, in shares of its box


def in_another_colour(canvas: Canvas, change: Recolour, seed: int) -> Edited:
    """The picture with a thing, all things of a kind, or a garment in another colour."""
    if change.old == change.new:
        raise UneditableError("nothing_to_change", f"{change.new} is the colour it has")
    changed = _garment(canvas, change) if change.what in GARMENTS else _things(canvas, change)
    pixels = canvas.pixels
    for drawn, look, _ in changed:
        if canvas.style is Style.FLAT:
            pixels = recoloured(pixels, drawn.look, look, canvas.line_px)
        else:
            pixels = _redrawn(canvas, pixels, drawn, look, seed)
    new = {id(drawn.thing): thing for drawn, _, thing in changed}
    things = tuple(new.get(id(thing), thing) for thing in canvas.seen.things)
    return Edited(pixels, canvas.seen._replace(things=things))


def with_another_word(canvas: Canvas, change: Respell, seed: int) -> Edited:
    """The picture with another word, as long or shorter, on its sign."""
    [sign, *others] = canvas.find(SIGN)
    if others or sign.thing.word != change.old:
        raise UneditableError("nothing_to_change", f"no sign says {change.old}, or not only one")
    if len(change.new) > len(change.old) or change.new == change.old:
        raise UneditableError("no_room", f"there is no room for {change.new} on the sign")
    written = with_looks(
        canvas, canvas.pixels, canvas.plain, [sign.look._replace(word=change.new)], seed
    )
    board = _board(canvas, sign.look)
    things = tuple(
        thing._replace(word=change.new) if thing == sign.thing else thing
        for thing in canvas.seen.things
    )
    pixels = np.where(board[..., None], written, canvas.pixels)
    return Edited(pixels, canvas.seen._replace(things=things))


def _things(canvas: Canvas, change: Recolour) -> list[tuple[Drawn, Look, Thing]]:
    if change.new not in KINDS[change.what].colours:
        raise UneditableError("not_drawable", f"a {change.what} is not drawn in {change.new}")
    found = canvas.find(change.what, change.old)
    if len(found) != len(canvas.find(change.what)):
        raise UneditableError("ambiguous", f"there are {change.what}s of other colours, too")
    return [
        (one, one.look._replace(colour=change.new), one.thing._replace(colour=change.new))
        for one in found
    ]


def _garment(canvas: Canvas, change: Recolour) -> list[tuple[Drawn, Look, Thing]]:
    [person, *others] = canvas.find(PERSON)
    figure = person.look.figure
    if others or figure is None or dict(person.thing.clothes).get(change.what) != change.old:
        raise UneditableError(
            "nothing_to_change", f"nobody wears a {change.what} in {change.old}, or not only one"
        )
    look = person.look._replace(figure=figure.model_copy(update={change.what: change.new}))
    clothes = tuple(
        (name, change.new if name == change.what else colour)
        for name, colour in person.thing.clothes
    )
    return [(person, look, person.thing._replace(clothes=clothes))]


def _redrawn(canvas: Canvas, pixels: Pixels, drawn: Drawn, look: Look, seed: int) -> Pixels:
    """The thing redrawn where it is, within what its ink surrounds."""
    new = with_looks(canvas, pixels, canvas.plain, [look], seed)
    inside: Mask = canvas.cover_of(drawn.look) > 0.97
    if canvas.style is Style.MOSAIC:
        inside = snapped(inside)
    return np.where(inside[..., None], new, pixels)


def _board(canvas: Canvas, look: Look) -> Mask:
    left, top, right, bottom = _BOARD
    board = np.zeros(canvas.pixels.shape[:2], bool)
    rows = slice(round(look.top + top * look.height), round(look.top + bottom * look.height))
    columns = slice(round(look.left + left * look.width), round(look.left + right * look.width))
    board[rows, columns] = True
    return snapped(board) if canvas.style is Style.MOSAIC else board


# Draws whole pictures otherwise: drawings as other drawings, photographs in five ways.

_BLUR_SHARE = 0.012  # of the shorter side
_SOLID = 0.97
_COARSE_PX = 1.0  # lines that are to be so much wider would break otherwise
_LEVELS = 5
_GREY = 24.0  # of 255: by how much channels may differ
_STONES = 72  # across the shorter side
_GROUT = np.array((208, 204, 196), np.float32)
_DIM = np.array((0.34, 0.38, 0.52), np.float32)


def redrawn(canvas: Canvas, manner: Manner, seed: int) -> Edited:
    """A flat drawing in another style."""
    if canvas.style is not Style.FLAT:
        raise UneditableError("not_drawable", f"a {canvas.style.value} cannot be drawn otherwise")
    if manner == "black-and-white picture":
        raise UneditableError("not_drawable", "a drawing keeps its colours")
    style = Style(manner)
    pixels = _inked(canvas, LINE_PX[style] - canvas.line_px)
    picture = Image.fromarray(np.clip(pixels.round(), 0, 255).astype(np.uint8))
    pixels = styled_picture(picture, style, seed)
    return Edited(pixels, canvas.seen._replace(style=manner))


def _inked(canvas: Canvas, wider_px: float) -> Pixels:
    """The picture with wider lines of ink around its things, as some styles need them."""
    if wider_px < _COARSE_PX:
        return canvas.pixels
    drawn = canvas.pixels.copy()
    side = 2 * round(2 * wider_px) + 1
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
    for one in canvas.drawn:
        cover = canvas.cover_of(one.look)
        fine = cv2.resize(cover, None, fx=2, fy=2, interpolation=cv2.INTER_LINEAR)
        wide = cv2.resize(cv2.dilate(fine, disc), cover.shape[::-1], interpolation=cv2.INTER_AREA)
        share = np.where(cover > _SOLID, 0, wide)[..., None]
        drawn = drawn + share * (np.array(OUTLINE, np.float32) - drawn)
    return drawn


def photograph_as(pixels: Pixels, manner: Manner) -> Pixels:
    """A photograph, of shape (height, width, 3) in 0 … 255, as something else."""
    match manner:
        case "black-and-white picture":
            return np.repeat(_light(pixels)[..., None], 3, axis=2)
        case "pencil sketch":
            return _sketched(pixels)
        case "poster":
            return _as_poster(pixels)
        case "mosaic":
            return _as_mosaic(pixels)


def is_coloured(pixels: Pixels) -> bool:
    """Whether some part of a picture is more than grey."""
    return float(np.percentile(np.ptp(pixels, axis=2), 95)) > _GREY


def darkened(pixels: Pixels) -> Pixels:
    """A picture in dim, bluish light."""
    return np.asarray(255 * (pixels / 255) ** 1.15 * _DIM, np.float32)


def _light(pixels: Pixels) -> Pixels:
    return np.asarray(pixels @ np.array((0.299, 0.587, 0.114), np.float32), np.float32)


def _sketched(pixels: Pixels) -> Pixels:
    """Grey strokes where light changes, on white paper (a colour dodge with its own blur)."""
    light = _light(pixels)
    sigma = max(2.0, _BLUR_SHARE * min(light.shape))
    blurred = cv2.GaussianBlur(light, (0, 0), sigma)
    drawn = np.clip(light * 250 / np.maximum(blurred, 12), 0, 250)
    return np.repeat(drawn[..., None], 3, axis=2).astype(np.float32)


def _as_poster(pixels: Pixels) -> Pixels:
    """Few, strong colours in even areas."""
    smooth = cv2.bilateralFilter(np.clip(pixels, 0, 255).astype(np.uint8), 9, 60, 9)
    step = 255 / (_LEVELS - 1)
    field = smooth.astype(np.float32)
    mean = field.mean(axis=2, keepdims=True)
    return np.asarray(np.round(np.clip(mean + 1.4 * (field - mean), 0, 255) / step) * step)


def _as_mosaic(pixels: Pixels) -> Pixels:
    """Square stones with grout between them."""
    height, width = pixels.shape[:2]
    side = max(4, round(min(height, width) / _STONES))
    size = (max(1, -(-width // side)), max(1, -(-height // side)))
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    stones = np.repeat(np.repeat(small, side, axis=0), side, axis=1)[:height, :width]
    seam = np.zeros((height, width, 1), bool)
    seam[side - 1 :: side], seam[:, side - 1 :: side] = True, True
    return np.asarray(np.where(seam, 0.5 * stones + 0.5 * _GROUT, stones), np.float32)


# Puts everything into another place, and lets it rain there.

_DROPS = 260
_LENGTH_PX = (9.0, 15.0)
_DARK_GROUND = 120.0  # mean of 255
_ON_LIGHT, _ON_DARK = (84, 116, 168), (196, 210, 236)
_STRENGTH = 0.72


def resettled(canvas: Canvas, change: Resettle, seed: int) -> Edited:
    """The picture with everything where it was, in another place."""
    if canvas.seen.place != change.old or change.old == change.new:
        raise UneditableError("nothing_to_change", f"the place is not a {change.old}")

    def ground_of(old: Pixels) -> Pixels:
        size = (old.shape[1], old.shape[0])
        picture = draw_place(Draws("place", seed), Place(change.new), size)
        return styled_picture(picture, canvas.style, seed)

    return Edited(on_ground(canvas, ground_of), canvas.seen._replace(place=change.new))


def rained_on(canvas: Canvas, seed: int) -> Edited:
    """The picture with rain behind its things."""
    if canvas.seen.place in (None, "kitchen"):
        raise UneditableError("nothing_to_change", "it does not rain indoors")
    if canvas.style is not Style.FLAT:
        raise UneditableError("not_drawable", f"rain is not drawn in a {canvas.style.value}")
    return Edited(on_ground(canvas, lambda old: _rain(old, seed)), canvas.seen)


def _rain(ground: Pixels, seed: int) -> Pixels:
    """Slanting strokes all over the ground."""
    import cv2

    chance = Draws("rain", seed)
    height, width = ground.shape[:2]
    cover = np.zeros((height * 4, width * 4), np.uint8)
    for _ in range(_DROPS):
        x, y = chance.between(-10, width), chance.between(-10, height)
        long = chance.between(*_LENGTH_PX)
        start, end = (x, y), (x - 0.32 * long, y + long)
        ends = [(round(4 * px), round(4 * py)) for px, py in (start, end)]
        cv2.line(cover, ends[0], ends[1], 255, 5, cv2.LINE_AA)
    small = cv2.resize(cover, (width, height), interpolation=cv2.INTER_AREA)
    share = (small.astype(np.float32) / 255 * _STRENGTH)[..., None]
    dark = float(ground.mean()) < _DARK_GROUND
    drop = np.array(_ON_DARK if dark else _ON_LIGHT, np.float32)
    return np.asarray(ground + share * (drop - ground), np.float32)
