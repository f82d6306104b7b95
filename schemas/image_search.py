"""Searches for images: results of a service, and the services of a profile."""

from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args

from pydantic import Field, model_validator

from loupe.schemas.base import IF_ANY, Record, Sha256, canonical_json, digest_of
from loupe.schemas.chat import (
    ModelRef,
    NamedModel,
    PluginModel,
    RawText,
    ServerAddress,
    require_private,
)
from loupe.schemas.embedding import BuiltinStillsEmbedder, EmbeddingModelSpec
from loupe.schemas.licences import PUBLIC_DOMAIN, one_of

RobotsAnswer = Literal["allowed", "not_asked"]


TRANSIENT_STATUSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of HTTP after which a request is tried again."""


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
    def contents(self) -> dict[str, Any]:
        """The settings that determine an image's bytes or acceptance, without politeness.

        Images are downloaded again if one of these changes.
        """
        return self.model_dump(
            include={"max_bytes", "max_pixels", "min_side_px", "resize_longest_px"}
        )

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
    sent, if something was removed or changed. `url` is the final address after redirects, without
    its query, which may contain a secret. `robots` is whether the host's rules were checked.
    """

    data: bytes = Field(repr=False)
    sha256: Sha256
    source_sha256: Sha256
    media_type: str
    width_px: int = Field(gt=0)
    height_px: int = Field(gt=0)
    url: str
    redirects: int = Field(ge=0)
    robots: RobotsAnswer


GOOGLE_ENDS_ON = "2027-01-01"
"""The day from which Google's Custom Search JSON API is shut down."""


class SearchHit(Record):
    """An image that a service returns for a query; it is not downloaded yet.

    Attributes:
        rank: position among the results, from 1.
        image_url: address of the image on the web, or `folder:` and a quoted path.
        page_url: page of the image, for the attribution.
        licence: name of the licence as in `loupe.schemas.licences`; None if unknown.
        licence_basis: `stated` if the service states the licence of this image; `filter` if it does
            not, but only returns images that pass a filter for these licences.
        licence_url: terms of the licence.
        flags: what the service says of its content that the profile does not permit: `mature`, or a
            word of the service.
    """

    rank: int = Field(ge=1)
    image_url: RawText
    page_url: RawText | None = None
    title: RawText = ""
    licence: str | None = None
    licence_basis: Literal["stated", "filter"] = "stated"
    licence_url: RawText | None = None
    creator: RawText | None = None
    width_px: int | None = Field(default=None, gt=0)
    height_px: int | None = Field(default=None, gt=0)
    media_type: RawText | None = None
    flags: tuple[RawText, ...] = IF_ANY


class UnreadableResult(Record):
    """A result without an image: `reason` is `no_object` or `no_address`, `shown` its beginning.

    `rank` is its position among the results, from 1; no hit has the same rank.
    """

    rank: int = Field(ge=1)
    reason: str
    shown: RawText


class SearchAnswer(Record):
    """The results of a service: `hits` by rank, `raw` the JSON as received.

    `seconds` is the time of the answered request. `requests` is the number of requests counted by
    the service's quota, including failed ones before. `unreadable` are the results without an
    image.
    """

    hits: tuple[SearchHit, ...]
    raw: RawText
    seconds: float = Field(ge=0)
    requests: int = Field(default=1, ge=0)
    unreadable: tuple[UnreadableResult, ...] = ()


class SearchFailure(Record):
    """A search without an answer, after the retries for its kind of failure.

    `reason` is a snake_case word: `timeout`, `unreachable`, `server_error`, `rate_limited`,
    `quota_exhausted` (until the service's next day), `misconfigured` (wrong key, address or
    permissions), `service_ended`, `refused_query`, `unreadable_answer` (JSON that is not an answer
    to a search). `retriable` is whether a later retry may help. `raw` is the server's response,
    complete for an unreadable answer; `requests` as for `SearchAnswer`.
    """

    reason: str
    detail: RawText
    retriable: bool
    raw: RawText = ""
    requests: int = Field(default=0, ge=0)


SearchOutcome = SearchAnswer | SearchFailure


class SearchRequest(Record):
    """A query and the results wanted: the given `page` of `count` results, from 1."""

    query: str
    count: int = Field(ge=1)
    page: int = Field(default=1, ge=1)

    def key(self, service: ModelRef, parameters: dict[str, Any]) -> str:
        """Return the identity of this search by service, parameters, query and page."""
        return digest_of(
            "search",
            str(service),
            canonical_json(parameters),
            self.query,
            str(self.count),
            str(self.page),
        )


class SearchPrices(Record):
    """The price of a thousand requests, after a number of free requests a day."""

    per_thousand: float = Field(ge=0)
    free_per_day: int = Field(default=0, ge=0)
    currency: str = "USD"

    def cost(self, requests: int, before: int) -> float:
        """Return the price of `requests` after `before` others on the same day."""
        paid = max(0, before + requests - max(before, self.free_per_day))
        return paid * self.per_thousand / 1000


class _SearchBase(NamedModel):
    zone: ClassVar[str] = "UTC"
    """The time zone of the day of the service's quota."""


class _ServiceBase(_SearchBase):
    timeout_seconds: float = Field(default=30.0, gt=0)
    max_retries: int = Field(default=4, ge=0)


EnvironmentVariable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
GoogleRight = Literal["cc_publicdomain", "cc_attribute", "cc_sharealike", "cc_noncommercial"]


class GoogleSearch(_ServiceBase):
    """Google's Custom Search JSON API: closed to new customers, ends on 2027-01-01.

    The profile names environment variables with the id of the engine and the API key. `rights` are
    those of the paper (CCD, step 2); works that forbid derived works are always excluded. The API
    returns at most ten images per request and a hundred per query.
    """

    zone: ClassVar[str] = "America/Los_Angeles"

    provider: Literal["google"]
    name: str = "google-custom-search"
    revision: str = "v1"
    engine_variable: EnvironmentVariable = "GOOGLE_SEARCH_ENGINE_ID"
    api_key_variable: EnvironmentVariable = "GOOGLE_SEARCH_API_KEY"
    base_url: ServerAddress = "https://customsearch.googleapis.com/"
    rights: tuple[GoogleRight, ...] = Field(default=get_args(GoogleRight), min_length=1)
    image_size: Literal["HUGE", "ICON", "LARGE", "MEDIUM", "SMALL", "XLARGE", "XXLARGE"] | None = (
        None
    )
    safe: Literal["active", "off"] = "active"
    daily_budget: int | None = Field(default=100, ge=0)
    prices: SearchPrices | None = SearchPrices(per_thousand=5, free_per_day=100)

    @model_validator(mode="after")
    def _keep_the_key_private(self) -> Self:
        require_private(self.base_url, self.api_key_variable)
        return self

    @property
    def rights_filter(self) -> str:
        """The filter of the API: any of `rights`, and none of the other conditions.

        Every licence except public domain requires attribution, so `cc_attribute` alone would
        permit the others, too.
        """
        conditions = ("cc_noncommercial", "cc_sharealike")
        left_out = [right for right in conditions if right not in self.rights]
        return f"({'|'.join(self.rights)}).-({'|'.join([*left_out, 'cc_nonderived'])})"

    @property
    def licence(self) -> str:
        """What is known of the licence of an image that passes the filter."""
        names: list[str] = []
        if "cc_publicdomain" in self.rights:
            names += ["CC0-1.0", "CC-PDM-1.0", PUBLIC_DOMAIN]
        if "cc_attribute" in self.rights:
            names.append("CC-BY")
        if "cc_sharealike" in self.rights:
            names.append("CC-BY-SA")
        if "cc_noncommercial" in self.rights:
            names.append("CC-BY-NC")
        if {"cc_sharealike", "cc_noncommercial"} <= {*self.rights}:
            names.append("CC-BY-NC-SA")
        return one_of(names)

    @property
    def parameters(self) -> dict[str, Any]:
        """The settings that determine an answer besides the service, the engine and the query."""
        return {"rights": self.rights_filter, "image_size": self.image_size, "safe": self.safe}


OpenverseLicence = Literal["cc0", "pdm", "by", "by-sa", "by-nc", "by-nc-sa"]


class OpenverseSearch(_ServiceBase):
    """Openverse, the index of openly licensed images; works that forbid derived works are excluded.

    Without registration it permits 20 requests a minute and 200 a day. A registered application has
    100 a minute and 10,000 a day; the profile names the environment variables with its id and
    secret, or one with an existing token. `longest_wait_seconds` is how long a search waits on
    request; a longer wait ends the run.
    """

    provider: Literal["openverse"]
    name: str = "openverse"
    revision: str = "v1"
    base_url: ServerAddress = "https://api.openverse.org/"
    token_variable: EnvironmentVariable | None = None
    client_id_variable: EnvironmentVariable | None = None
    client_secret_variable: EnvironmentVariable | None = None
    licences: tuple[OpenverseLicence, ...] = Field(default=get_args(OpenverseLicence), min_length=1)
    include_mature: bool = False
    longest_wait_seconds: float = Field(default=90.0, ge=0)
    daily_budget: int | None = Field(default=200, ge=0)
    prices: SearchPrices | None = SearchPrices(per_thousand=0)

    @model_validator(mode="after")
    def _keep_the_key_private(self) -> Self:
        require_private(self.base_url, self.token_variable or self.client_secret_variable)
        return self

    @property
    def is_registered(self) -> bool:
        """Whether requests are sent as a registered application."""
        return bool(self.token_variable or self.client_id_variable)

    @property
    def parameters(self) -> dict[str, Any]:
        """The settings that determine an answer besides the service and the query."""
        return {"licences": sorted(set(self.licences)), "include_mature": self.include_mature}


class FolderSearch(_SearchBase):
    """A folder of licensed images, searched by embedding without a download or service.

    `licence_file` has the format of `licensed-images` sources. Its paths are relative to `folder`,
    and so is the file's own path unless it is absolute. `embedder` embeds texts and images.
    """

    provider: Literal["folder"] = "folder"
    name: str = "loupe-folder-search"
    revision: str = "1"
    folder: str
    licence_file: str = "licences.jsonl"
    embedder: EmbeddingModelSpec = BuiltinStillsEmbedder()
    daily_budget: int | None = Field(default=None, ge=0)
    prices: SearchPrices | None = SearchPrices(per_thousand=0)

    @property
    def parameters(self) -> dict[str, Any]:
        """The settings that determine an answer besides the images and the query."""
        return {
            "embedder": str(self.embedder.ref),
            "provider": self.embedder.provider,
            **self.embedder.parameters,
        }


class PluginSearch(PluginModel, _SearchBase):
    """The search of a plugin; its hits are downloaded as those of other services."""

    daily_budget: int | None = Field(default=None, ge=0)
    prices: SearchPrices | None = None


ImageSearchSpec = Annotated[
    GoogleSearch | OpenverseSearch | FolderSearch | PluginSearch, Field(discriminator="provider")
]
"""All services for image searches."""
