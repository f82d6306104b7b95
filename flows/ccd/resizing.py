"""Scale images to the size at which a vision-language model sees them (CCD, step 1)."""

import io
import math

from PIL import Image, ImageOps

from loupe.schemas.chat import ChatImage
from loupe.schemas.decoders import as_rgb
from loupe.schemas.profile import ImageArea
from loupe.schemas.records import Rejection

STAGE = "resize_image"

_FAULTS = (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError)
_PNG = "image/png"
_KEPT_FORMATS = {"PNG": _PNG, "JPEG": "image/jpeg"}
_ORIENTATION = 0x0112


def smart_resized(image: ChatImage, area: ImageArea) -> ChatImage | Rejection:
    """Return `image` upright, in RGB, resized to `area` with its aspect ratio kept.

    An image that fits already is returned unchanged; others are encoded losslessly as PNG.
    Transparent pixels become white. Reasons: `undecodable_image`, `extreme_aspect_ratio`.
    """
    try:
        with Image.open(io.BytesIO(image.data)) as opened:
            opened.load()
            picture = as_rgb(ImageOps.exif_transpose(opened))
            as_it_is = _KEPT_FORMATS.get(str(opened.format)) and opened.mode == "RGB"
            as_it_is = as_it_is and opened.getexif().get(_ORIENTATION, 1) == 1
    except _FAULTS as fault:
        what = str(fault) or type(fault).__name__
        return Rejection.of(STAGE, "undecodable_image", f"The image cannot be decoded: {what}.")
    size = smart_size(*picture.size, area)
    if size is None:
        width, height = picture.size
        detail = (
            f"The image has {width}×{height} pixels; wanted one side at most "
            f"{area.longest_ratio:g} times as long as the other."
        )
        return Rejection.of(STAGE, "extreme_aspect_ratio", detail)
    if as_it_is and size == picture.size:
        return image
    encoded = io.BytesIO()
    picture.resize(size, Image.Resampling.BICUBIC).save(encoded, "PNG")
    return ChatImage(media_type=_PNG, data=encoded.getvalue())


def smart_size(width: int, height: int, area: ImageArea) -> tuple[int, int] | None:
    """Return (width, height) in pixels at which a model sees an image; None if it is too narrow.

    The formula of Qwen-VL's `smart_resize` (`qwen_vl_utils.vision_process`): each side is rounded
    to the nearest multiple, then both are scaled by one factor, down if there are too many pixels,
    up if there are too few.
    """
    if max(width, height) > area.longest_ratio * min(width, height):
        return None
    multiple = area.side_multiple_px
    sides = [max(multiple, round(side / multiple) * multiple) for side in (width, height)]
    pixels = sides[0] * sides[1]
    if pixels > area.most_pixels:
        shrink = math.sqrt(width * height / area.most_pixels)
        sides = [
            max(multiple, math.floor(side / shrink / multiple) * multiple)
            for side in (width, height)
        ]
    elif pixels < area.least_pixels:
        grow = math.sqrt(area.least_pixels / (width * height))
        sides = [math.ceil(side * grow / multiple) * multiple for side in (width, height)]
    return sides[0], sides[1]
