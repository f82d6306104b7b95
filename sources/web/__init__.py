"""Download images from the web politely, from public addresses only, and verify them."""

from typing import TYPE_CHECKING, Final

from loupe.schemas.extras import needs_extra
from loupe.schemas.image_search import DownloadSettings

if TYPE_CHECKING:
    from loupe.sources.web.downloading import ImageDownloader

TRANSIENT_STATUSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


def open_downloader(settings: DownloadSettings) -> "ImageDownloader":
    """Open an image downloader.

    Raises:
        MissingExtraError: the extra `web` is not installed.
    """
    with needs_extra("downloading images that a search found", "web"):
        from loupe.sources.web.downloading import ImageDownloader
    return ImageDownloader(settings)
