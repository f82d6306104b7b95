"""What HTML pages of flows share: templates, and crops that lie in the page itself."""

from base64 import b64encode
from io import BytesIO
from typing import TYPE_CHECKING

from db.blobs import BlobStore
from schemas.errors import IntegrityError
from schemas.pages import page_environment
from schemas.proposals import Picture

if TYPE_CHECKING:
    from jinja2 import Environment

_JPEG_QUALITY = 82


def flow_pages() -> "Environment":
    """The templates of `flows/templates`, with the filters for figures."""
    environment = page_environment("flows")
    environment.filters.update(
        figure=figure, threshold=threshold_text, number=lambda value: f"{value:,}"
    )
    return environment


def figure(value: float, *, is_count: bool = False) -> str:
    """A measured value in three digits or so: 0.253, 72.4, 1,234; a count in whole numbers."""
    size = abs(value)
    decimals = (
        0 if is_count or size >= 100 or not size else 1 if size >= 10 else 2 if size >= 1 else 3
    )
    return f"{value:,.{decimals}f}".replace("-", "−")


def threshold_text(value: float) -> str:
    """A threshold as it is written in a profile."""
    return f"{value:g}"


def thumbnail_uri(blobs: BlobStore, picture: Picture, side_px: int) -> str | None:
    """A picture, no larger than `side_px` a side, as a `data:` URI; None where it is not stored."""
    try:
        data = blobs.read(picture.sha256, picture.media_type)
    except IntegrityError:
        return None
    if max(picture.width_px, picture.height_px) > side_px:
        return shrunk_uri(data, side_px)
    return data_uri(data, picture.media_type)


def shrunk_uri(data: bytes, side_px: int) -> str:
    """An encoded picture as a small JPEG, no larger than `side_px` a side, as a `data:` URI."""
    from PIL import Image

    with Image.open(BytesIO(data)) as opened:
        opened.thumbnail((side_px, side_px))
        file = BytesIO()
        opened.convert("RGB").save(file, "JPEG", quality=_JPEG_QUALITY)
    return data_uri(file.getvalue(), "image/jpeg")


def data_uri(data: bytes, media_type: str) -> str:
    """Bytes as a `data:` URI."""
    return f"data:{media_type};base64,{b64encode(data).decode('ascii')}"
