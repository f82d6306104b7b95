"""Searches for images: what a service finds, and which services a profile may name."""

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field

from schemas.base import Record, canonical_json, digest_of
from schemas.chat import ModelRef, NamedModel, RawText
from schemas.embedding import BuiltinStillsEmbedder, EmbeddingModelSpec
from schemas.licences import PUBLIC_DOMAIN, one_of

GOOGLE_ENDS_ON = "2027-01-01"
"""The day from which Google's Custom Search JSON API answers nobody any more."""


class SearchHit(Record):
    """An image that a service names as an answer to a query; nothing of it is downloaded yet.

    Attributes:
        rank: its place among the answers, from 1.
        image_url: where the image is: an address of the web, or `folder:` and a quoted path.
        page_url: the page that shows it, which is to be named with it.
        licence: its name as `schemas.licences` gives it; None where it is none that we know.
        licence_basis: `stated` where the service tells the licence of this image; `filter` where it
            tells none, and only gives images that pass a filter for these licences.
        licence_url: the terms.
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


class UnreadableResult(Record):
    """A result that names no image: `reason` is `no_object` or `no_address`, `shown` its beginning.

    `rank` is its place among the answers, from 1; no hit has it.
    """

    rank: int = Field(ge=1)
    reason: str
    shown: RawText


class SearchAnswer(Record):
    """What a service found: `hits` by rank, `raw` the JSON as it came.

    `seconds` is the time of the request that was answered. `requests` is how many requests counted
    against the service's quota, those before it that failed included. `unreadable` are the results
    that are no hits, `reader` the version of what read them out of `raw`.
    """

    hits: tuple[SearchHit, ...]
    raw: RawText
    seconds: float = Field(ge=0)
    requests: int = Field(default=1, ge=0)
    unreadable: tuple[UnreadableResult, ...] = ()
    reader: str = ""


class SearchFailure(Record):
    """A search without an answer, after the retries that its kind of failure deserves.

    `reason` is a snake_case word: `timeout`, `unreachable`, `server_error`, `rate_limited`,
    `quota_exhausted` (nothing more until the service's next day), `misconfigured` (key, address or
    rights are wrong), `service_ended`, `refused_query`, `unreadable_answer` (JSON that is no answer
    to a search). `retriable` tells whether asking again later may help. `raw` is what the server
    said, whole where it is an unreadable answer; `requests` and `reader` as for `SearchAnswer`.
    """

    reason: str
    detail: RawText
    retriable: bool
    raw: RawText = ""
    requests: int = Field(default=0, ge=0)
    reader: str = ""


SearchOutcome = SearchAnswer | SearchFailure


class SearchRequest(Record):
    """A query, and which of its answers are wanted: the `page`-th lot of `count`, from 1."""

    query: str
    count: int = Field(ge=1)
    page: int = Field(default=1, ge=1)

    def key(self, service: ModelRef, parameters: dict[str, Any]) -> str:
        """The identity of this search: equal for equal service, parameters, query and lot."""
        return digest_of(
            "search",
            str(service),
            canonical_json(parameters),
            self.query,
            str(self.count),
            str(self.page),
        )


class SearchPrices(Record):
    """What requests cost, per thousand, after those of a day that are free."""

    per_thousand: float = Field(ge=0)
    free_per_day: int = Field(default=0, ge=0)
    currency: str = "USD"

    def cost(self, requests: int, before: int) -> float:
        """The price of `requests`, when `before` others were made on the same day."""
        paid = max(0, before + requests - max(before, self.free_per_day))
        return paid * self.per_thousand / 1000


class _SearchBase(NamedModel):
    zone: ClassVar[str] = "UTC"
    """Where the day begins with which the service's quota does."""


class _ServiceBase(_SearchBase):
    timeout_seconds: float = Field(default=30.0, gt=0)
    max_retries: int = Field(default=4, ge=0)


EnvironmentVariable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
GoogleRight = Literal["cc_publicdomain", "cc_attribute", "cc_sharealike", "cc_noncommercial"]


class GoogleSearch(_ServiceBase):
    """Google's Custom Search JSON API: closed to new customers, and it ends on 2027-01-01.

    The id of the engine and the API key are in environment variables, of which the profile gives
    the names. `rights` are those of the paper (CCD, step 2); works that forbid derived ones are
    always left out. The API answers at most ten images a request and a hundred a query.
    """

    zone: ClassVar[str] = "America/Los_Angeles"

    provider: Literal["google"]
    name: str = "google-custom-search"
    revision: str = "v1"
    engine_variable: EnvironmentVariable = "GOOGLE_SEARCH_ENGINE_ID"
    api_key_variable: EnvironmentVariable = "GOOGLE_SEARCH_API_KEY"
    base_url: str = "https://customsearch.googleapis.com/"
    rights: tuple[GoogleRight, ...] = Field(default=get_args(GoogleRight), min_length=1)
    image_size: Literal["HUGE", "ICON", "LARGE", "MEDIUM", "SMALL", "XLARGE", "XXLARGE"] | None = (
        None
    )
    safe: Literal["active", "off"] = "active"
    daily_budget: int | None = Field(default=100, ge=0)
    prices: SearchPrices | None = SearchPrices(per_thousand=5, free_per_day=100)

    @property
    def rights_filter(self) -> str:
        """The filter as the API takes it: any of `rights`, and none of the conditions beside them.

        Every licence but public domain asks for attribution, so that `cc_attribute` alone would let
        the others pass, too.
        """
        conditions = ("cc_noncommercial", "cc_sharealike")
        left_out = [right for right in conditions if right not in self.rights]
        return f"({'|'.join(self.rights)}).-({'|'.join([*left_out, 'cc_nonderived'])})"

    @property
    def licence(self) -> str:
        """All that is known of the licence of an image that passes the filter."""
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
        """What, beside the service, the engine and the query, determines an answer."""
        return {"rights": self.rights_filter, "image_size": self.image_size, "safe": self.safe}


OpenverseLicence = Literal["cc0", "pdm", "by", "by-sa", "by-nc", "by-nc-sa"]


class OpenverseSearch(_ServiceBase):
    """Openverse, the index of openly licensed images; works that forbid derived ones are left out.

    Nobody has to register: then it answers 20 requests a minute and 200 a day. Who has registered
    an application names the environment variables with its id and secret, or one with a token that
    is there already, and has 100 a minute and 10,000 a day. `longest_wait_seconds` is how long a
    search waits when asked to; a longer one ends the run.
    """

    provider: Literal["openverse"]
    name: str = "openverse"
    revision: str = "v1"
    base_url: str = "https://api.openverse.org/"
    token_variable: EnvironmentVariable | None = None
    client_id_variable: EnvironmentVariable | None = None
    client_secret_variable: EnvironmentVariable | None = None
    licences: tuple[OpenverseLicence, ...] = Field(default=get_args(OpenverseLicence), min_length=1)
    include_mature: bool = False
    longest_wait_seconds: float = Field(default=90.0, ge=0)
    daily_budget: int | None = Field(default=200, ge=0)
    prices: SearchPrices | None = SearchPrices(per_thousand=0)

    @property
    def is_registered(self) -> bool:
        """Whether it is asked in the name of an application."""
        return bool(self.token_variable or self.client_id_variable)

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside the service and the query, determines an answer."""
        return {"licences": sorted(set(self.licences)), "include_mature": self.include_mature}


class FolderSearch(_SearchBase):
    """A folder of images with a licence each, searched by embedding: no download, no service.

    `licence_file` has the format of `licensed-images` sources; its paths count from `folder`, and
    it lies there itself unless its path is absolute. `embedder` says what a text and an image are
    similar by.
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
        """What, beside the images and the query, determines an answer."""
        return {
            "embedder": str(self.embedder.ref),
            "provider": self.embedder.provider,
            **self.embedder.parameters,
        }


ImageSearchSpec = Annotated[
    GoogleSearch | OpenverseSearch | FolderSearch, Field(discriminator="provider")
]
"""Every service that images are searched with."""
