"""Pictures as every embedder can take them."""

from PIL import Image

_LONGEST_RATIO = 50


def plain_picture(image: Image.Image) -> Image.Image:
    """`image` in RGB; of a strip more than 50 times as long as wide, the middle.

    Networks scale the shorter side to some hundred pixels: a strip would fill the memory.
    """
    width, height = image.size
    if max(width, height) > _LONGEST_RATIO * min(width, height):
        longest = _LONGEST_RATIO * min(width, height)
        left, top = max(0, (width - longest) // 2), max(0, (height - longest) // 2)
        image = image.crop((left, top, left + min(width, longest), top + min(height, longest)))
    return image.convert("RGB")
