"""Settings of downloads of images from the web, and their results."""

from typing import Literal

from pydantic import Field, model_validator

from schemas.base import Record
from schemas.records import Sha256

RobotsAnswer = Literal["allowed", "not_asked"]


class DownloadSettings(Record):
    """Limits and politeness of downloads.

    Attributes:
        max_bytes: of a body, both as sent and after decompression.
        timeout_seconds: for all requests for one address, including redirects, retries and the
            body, but not waiting for the host's rate limit.
        connect_timeout_seconds: for each connection, including name lookup and TLS.
        max_redirects: most redirects of one address.
        ports: permitted ports.
        max_pixels: width times height, as stated in the header.
        min_side_px: least pixels of the shorter side.
        resize_longest_px: if given, larger images are scaled down to this longer side; smaller ones
            are unchanged.
        decode_all: whether JPEGs that are stored as sent are decoded, too, which proves them
            complete. Otherwise only their header and their end are checked.
        requests_per_second: to one host, including requests for its robots.txt. The host's
            `Crawl-delay` applies if slower.
        connections_per_host: concurrent requests to one host.
        in_flight: concurrent requests to all hosts.
        look_ahead: addresses consumed ahead of the first open result, which limits the images in
            memory.
        attempts: requests before a transient error (429, 5xx, a broken connection) becomes a
            rejection.
        longest_wait_seconds: the longest pause (`Retry-After`, `Crawl-delay`) that is accepted.
        robots: whether `robots.txt` and `X-Robots-Tag` are obeyed.
        robots_cache_seconds: how long the rules of a host are cached.
        user_agent: the downloader's user agent; begins with its name in robots.txt.
    """

    max_bytes: int = Field(default=20 * 1024 * 1024, gt=0)
    timeout_seconds: float = Field(default=30, gt=0)
    connect_timeout_seconds: float = Field(default=5, gt=0)
    max_redirects: int = Field(default=5, ge=0)
    ports: frozenset[int] = frozenset({80, 443})
    max_pixels: int = Field(default=50_000_000, gt=0)
    min_side_px: int = Field(default=64, gt=0)
    resize_longest_px: int | None = Field(default=None, gt=0)
    decode_all: bool = True
    requests_per_second: float = Field(default=1, gt=0)
    connections_per_host: int = Field(default=4, gt=0)
    in_flight: int = Field(default=32, gt=0)
    look_ahead: int = Field(default=256, gt=0)
    attempts: int = Field(default=3, gt=0)
    longest_wait_seconds: float = Field(default=60, ge=0)
    robots: bool = True
    robots_cache_seconds: float = Field(default=24 * 3600, gt=0)
    user_agent: str = Field(default="loupe-datasets", pattern=r"^[A-Za-z_-]+(/[\x20-\x7e]*)?$")

    @property
    def contents(self) -> dict[str, int | None]:
        """The settings that determine an image's bytes or acceptance, without politeness.

        Images are downloaded again if one of these changes.
        """
        return {
            "max_bytes": self.max_bytes,
            "max_pixels": self.max_pixels,
            "min_side_px": self.min_side_px,
            "resize_longest_px": self.resize_longest_px,
        }

    @model_validator(mode="after")
    def _sides_fit(self) -> "DownloadSettings":
        longest = self.resize_longest_px
        if longest is not None and longest < self.min_side_px:
            what = f"resize_longest_px must be at least min_side_px ({self.min_side_px})"
            raise ValueError(f"{what}; got {longest}")
        return self


class DownloadedImage(Record):
    """A single upright image without metadata, and so without a location.

    `data` are the bytes as sent, reduced to pixels and colours, unless the image was turned upright
    or scaled down and so encoded again. `sha256` differs from `source_sha256`, that of the bytes as
    sent, if something was removed or changed. `source_width_px` and `source_height_px` are those of
    the upright image before scaling. `url` is the final address after redirects, without its query,
    which may contain a secret. `robots` is whether the host's rules were checked.
    """

    data: bytes = Field(repr=False)
    sha256: Sha256
    source_sha256: Sha256
    media_type: str
    width_px: int = Field(gt=0)
    height_px: int = Field(gt=0)
    source_width_px: int = Field(gt=0)
    source_height_px: int = Field(gt=0)
    url: str
    redirects: int = Field(ge=0)
    robots: RobotsAnswer
