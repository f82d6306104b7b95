"""How images are downloaded from the web, and what a download gives."""

from typing import Literal

from pydantic import Field, model_validator

from schemas.base import Record
from schemas.records import Sha256

RobotsAnswer = Literal["allowed", "not_asked"]


class DownloadSettings(Record):
    """Limits of a download, and how polite it is.

    Attributes:
        max_bytes: of a body, as it is sent and as it is after decompression.
        timeout_seconds: for all requests that one address takes, redirects, retries and the body
            included; waiting for one's turn at a host is not counted.
        connect_timeout_seconds: for each connection, name lookup and TLS included.
        max_redirects: how many redirects of one address are followed.
        ports: the only ports that are connected to.
        max_pixels: width times height, as the header states them.
        min_side_px: the shorter side must have at least as many pixels.
        resize_longest_px: where given, larger images are scaled down until their longer side has so
            many pixels; smaller ones keep their size.
        decode_all: whether JPEGs that are kept as they are sent are decoded, too, which proves them
            whole. Where they are not, their header is read, and that they end as JPEGs do.
        requests_per_second: to one host, requests for its robots.txt included. Its own
            `Crawl-delay` counts where that is slower.
        connections_per_host: requests to one host that may be under way at a time.
        in_flight: requests that may be under way at a time, to all hosts.
        look_ahead: addresses that are taken before the first of their results is; it bounds how
            many images wait in memory.
        attempts: requests that are made before a fault of the world (429, 5xx, a broken connection)
            becomes a rejection.
        longest_wait_seconds: a host that asks for a longer pause (`Retry-After`, `Crawl-delay`) is
            not waited for.
        robots: whether `robots.txt` and `X-Robots-Tag` are obeyed.
        robots_cache_seconds: how long the rules of a host hold before they are fetched again.
        user_agent: what the downloader calls itself; begins with the name that robots.txt knows.
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
        """What determines the bytes of a picture, and which pictures are taken; not how politely.

        Images are downloaded again where one of these changes.
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
    """A single upright picture without metadata, and so without a location.

    `data` are the bytes as they were sent, with nothing but pixels and colours kept,
    unless the picture was turned upright or scaled down: then it is encoded again. `sha256` differs
    from `source_sha256`, that of the bytes as sent, where something was left out or changed.
    `source_width_px` and `source_height_px` are those of the upright picture before it was scaled
    down. `url` is where the redirects ended, without its query, which may hold a secret. `robots`
    says whether the host's rules were asked.
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
