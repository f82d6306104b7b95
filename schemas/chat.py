"""Requests to chat models and their answers."""

import re
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from loupe.schemas.base import IF_KNOWN, Record, canonical_json, digest_of, sha256_of


def _storable(text: str) -> str:
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


RAISED, WRONG_RETURN = "raised", "wrong_return"
"""Reasons of failures for which code of others is to blame: a step, or the model of a plugin."""
REFUSED = "refused_request"
"""Reason for a request that a model does not accept in this form; it costs nothing."""

CONTENT_FILTERED = "content_filter"
"""Reason for an answer or a request that a server's content filter holds back."""

ANSWER_IN_REASONING = "answer_in_reasoning"
"""Reason for an answer that a server puts among the reasoning, and leaves the content empty."""

QUOTA_EXHAUSTED = "quota_exhausted"
"""Reason for a request that the account cannot pay for, which concerns all requests."""

RawText = Annotated[str, AfterValidator(_storable)]
"""A text by a server. NULs and lone surrogates, which databases cannot store, are escaped."""

_MOST_PORT = 65_535


def _plain_address(address: str) -> str:
    """Return an address without a name, a password or an impossible port."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"the address must have a port up to {_MOST_PORT:,}: {error}") from error
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "the address must not hold a name or a password, which would be stored and shown; "
            "name the environment variable of a key instead (api_key_variable)"
        )
    if port == 0:
        raise ValueError(f"the address must have a port from 1 to {_MOST_PORT:,}; got 0")
    return address


ServerAddress = Annotated[str, Field(pattern=r"^https?://"), AfterValidator(_plain_address)]
_PRIVATE = re.compile(r"https://.+|http://(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?(/.*)?")


def require_private(address: str, variable: str | None) -> None:
    """Refuse to send a key over a network unencrypted.

    Raises:
        ValueError: `address` is plain HTTP to another machine, and a `variable` holds a key.
    """
    if variable is not None and not _PRIVATE.fullmatch(address):
        raise ValueError(
            f"the key in {variable} must not be sent unencrypted: base_url must begin with "
            f"https://, or name this machine (as with an ssh tunnel); got {address}"
        )


class ModelRef(Record):
    """A model at a revision: a plain value, safe in cache keys and in provenance."""

    name: str
    revision: str

    def __str__(self) -> str:
        """`name@revision`."""
        return f"{self.name}@{self.revision}"


UNPINNED = ("main", "master", "latest")
"""Revisions that name another model when its files change."""


class NamedModel(Record):
    """A model, or a service, as a profile names it.

    Attributes:
        determined_by: the fields that, besides name and revision, determine its results.
    """

    determined_by: ClassVar[tuple[str, ...]] = ()
    name: str
    revision: str

    @property
    def ref(self) -> ModelRef:
        """The model as a value for keys and provenance."""
        return ModelRef(name=self.name, revision=self.revision)

    @property
    def parameters(self) -> dict[str, Any]:
        """Return everything, besides name and revision, that determines its results."""
        return {name: getattr(self, name) for name in self.determined_by}


class PluginModel(NamedModel):
    """The model of a plugin, by its name among the entry points `loupe.models`.

    `options` are what it is made with.
    """

    determined_by = ("options",)
    provider: Literal["plugin"]
    revision: str = "1"
    options: dict[str, Any] = Field(default_factory=dict)


class ServedModel(Record):
    """A model in the list of models of a server.

    `root` is the model that it loaded under the name `id`. `created` is a time; servers that state
    none for a model, such as vLLM, return the time of the request.
    """

    id: RawText
    root: RawText | None = IF_KNOWN
    owned_by: RawText | None = IF_KNOWN
    max_model_len: int | None = IF_KNOWN
    created: int | None = IF_KNOWN


class ChatImage(Record):
    """An encoded image that is sent with a request."""

    media_type: str
    data: bytes = Field(repr=False)

    @cached_property
    def sha256(self) -> str:
        """The digest of the bytes, which the key of each call with this image needs."""
        return sha256_of(self.data)


class ChatRequest(Record):
    """A request: an instruction, optional images, and the JSON schema of the answer.

    `prompt_digest` is the digest of the prompt *template*, `purpose` the stage that sends it.
    `subject` is the text that the request is about (a caption to rewrite, for example); built-in
    models, which do not read English instructions, work on it.
    """

    purpose: str
    prompt: str
    prompt_digest: str
    subject: str = ""
    images: tuple[ChatImage, ...] = ()
    answer_schema: dict[str, Any] | None = None

    def key(self, model: ModelRef, parameters: dict[str, Any]) -> str:
        """The identity of this call: equal for equal model, parameters, prompt, schema, images."""
        return digest_of(
            str(model),
            canonical_json(parameters),
            self.prompt_digest,
            self.prompt,
            self.subject,
            canonical_json(self.answer_schema),
            *(image.sha256 for image in self.images),
        )


class ChatAnswer(Record):
    """A model's answer. `text` is as the model wrote it; stages remove reasoning and chatter.

    `truncated` says that the answer ended at the token limit; `seconds` is the time of the call.
    Tokens are None if the server did not state them, or not credibly. `raw` is the whole body that
    a server sent; empty for models that run in this process.
    """

    text: RawText
    tokens_in: int | None = Field(ge=0)
    tokens_out: int | None = Field(ge=0)
    seconds: float = Field(ge=0)
    truncated: bool = False
    raw: RawText = Field(default="", repr=False)


class ChatFailure(Record):
    """A call without a usable answer, after the retries for its kind of failure.

    `reason` is a snake_case word (`timeout`, `rate_limited`, `server_error`, `refused_request`,
    `unreachable`, `unreadable_answer`, `content_filter`, `answer_in_reasoning`, `quota_exhausted`,
    `misconfigured`: key, address, model name or parameters are wrong; `raised`, `wrong_return`: the
    model of a plugin is wrong).
    `retriable` says whether a later attempt may succeed: such inputs stay pending, the others are
    quarantined. `raw` is the server's response. Tokens are those that were charged nevertheless;
    None if an answer does not state them.
    """

    reason: str
    detail: RawText
    retriable: bool
    raw: RawText = ""
    tokens_in: int | None = Field(default=0, ge=0)
    tokens_out: int | None = Field(default=0, ge=0)

    @property
    def is_paid(self) -> bool:
        """Whether an answer of any kind was returned, so that the call must not be repeated."""
        return not (self.retriable or self.is_of_plugin or self.reason == REFUSED)

    @property
    def is_of_plugin(self) -> bool:
        """Whether the code of a plugin is to blame, so that the call is made again after a fix."""
        return self.reason in (RAISED, WRONG_RETURN)


ChatOutcome = ChatAnswer | ChatFailure
