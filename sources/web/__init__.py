"""Download images from the web politely, from public addresses only, and verify them."""

from typing import TYPE_CHECKING

from loupe.schemas.extras import needs_extra
from loupe.schemas.image_search import DownloadSettings

if TYPE_CHECKING:
    from loupe.sources.web.downloading import ImageDownloader


def open_downloader(settings: DownloadSettings) -> "ImageDownloader":
    """Open an image downloader.

    Raises:
        MissingExtraError: the extra `web` is not installed.
    """
    with needs_extra("downloading images that a search found", "web"):
        from loupe.sources.web.downloading import ImageDownloader
    return ImageDownloader(settings)
