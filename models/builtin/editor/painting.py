"""Gives things other colours, and signs other words."""

import numpy as np

from models.builtin.drawing.vocabulary import KINDS, Style
from models.builtin.editor.canvas import Canvas, Drawn, UneditableError, snapped
from models.builtin.editor.changes import Recolour, Respell
from models.builtin.editor.edited import Edited
from models.builtin.editor.layers import with_looks
from models.builtin.editor.looks import Look
from models.builtin.editor.recolouring import recoloured
from models.builtin.stills.lexicon import GARMENTS
from models.builtin.stills.preparing import Mask, Pixels
from models.builtin.stills.seeing import PERSON, SIGN, Thing

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
    """The thing drawn anew where it is, within what its ink surrounds."""
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
