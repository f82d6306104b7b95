"""Small pictures for page tests, each known by its digest."""

from io import BytesIO

from PIL import Image, ImageDraw

from loupe.schemas.base import sha256_of

_COLOURS = ("firebrick", "seagreen", "steelblue", "goldenrod", "slategray", "orchid", "teal")


def picture(number: int, width_px: int = 160, height_px: int = 400) -> bytes:
    """Return a PNG of a standing figure that depends on the number."""
    drawn = Image.new("RGB", (width_px, height_px), "#dfe3e6")
    pen = ImageDraw.Draw(drawn)
    middle, head = width_px // 2, height_px // 10
    top, trousers = (_COLOURS[(number + step) % len(_COLOURS)] for step in (0, 3))
    pen.ellipse((middle - head // 2, head // 2, middle + head // 2, head * 3 // 2), fill="#c99a7b")
    pen.rectangle((middle - head, head * 3 // 2, middle + head, head * 5), fill=top)
    pen.rectangle(
        (middle - head * 3 // 4, head * 5, middle + head * 3 // 4, head * 9), fill=trousers
    )
    pen.text((4, height_px - 14), f"no. {number}", fill="black")
    buffer = BytesIO()
    drawn.save(buffer, "PNG")
    return buffer.getvalue()


def pictures(count: int) -> dict[str, bytes]:
    """Return `count` pictures by their SHA-256, in order."""
    drawn = [picture(number) for number in range(count)]
    return {sha256_of(data): data for data in drawn}
