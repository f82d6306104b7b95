"""Street backgrounds."""

from PIL import Image, ImageDraw

from sources.demonstration.chance import Chance


def draw_scene(chance: Chance, size: tuple[int, int], ground_y: float) -> Image.Image:
    """A street of the given size in pixels; `ground_y` is where somebody in front would stand."""
    width, height = size
    canvas = Image.new("RGB", size, (186, 192, 198))
    horizon = ground_y * chance.between(0.6, 0.8)
    ImageDraw.Draw(canvas).rectangle((0, horizon, width, height), fill=(150, 148, 144))
    return canvas
