"""Pictures scaled down while they are decoded."""

from PIL import Image
from PIL.ImageFile import ImageFile

from sources.decoding import load_pixels


def scaled_down(picture: ImageFile, longest_px: int) -> Image.Image:
    """The picture, opened but not yet decoded, with a longer side of `longest_px`; not turned.

    A JPEG is decoded at the half, the quarter or the eighth of its size, as long as that is not
    below what is wanted: its own transform is the better filter, and less is decoded.

    Raises:
        ImageRefusedError: it is cut off or damaged.
    """
    width, height = picture.size
    scale = longest_px / max(width, height)
    wanted = max(1, round(width * scale)), max(1, round(height * scale))
    drafted = picture.draft(None, wanted)
    load_pixels(picture)
    smooth = _with_continuous_colours(picture)
    small = smooth.resize(wanted, Image.Resampling.BICUBIC, box=drafted[1] if drafted else None)
    small.format = picture.format
    small.info = {key: picture.info[key] for key in ("icc_profile",) if key in picture.info}
    return small


def _with_continuous_colours(picture: Image.Image) -> Image.Image:
    """The same without a palette and without a colour that means transparent: neither can mix."""
    if "transparency" in picture.info:
        return picture.convert("RGBA")
    if picture.mode in ("P", "PA"):
        return picture.convert("RGB" if picture.mode == "P" else "RGBA")
    return picture.convert("L") if picture.mode == "1" else picture
