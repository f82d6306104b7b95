"""Label Studio's SDK, imported when it is needed, and its errors in our own words."""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import SecretStr
from pydantic.warnings import PydanticDeprecatedSince20
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from annotate.desk import DeskFaultError, DeskUnavailableError
from schemas.errors import ServiceError

T = TypeVar("T")
_SERVER_ERROR = 500
# The SDK would repeat a POST whose answer was lost, and so import tasks twice.
_ONCE: Any = {"max_retries": 0}


class Connection:
    """A Label Studio by its URL and a personal access token, which is renewed as it has to be.

    Raises `ServiceError` where the server refuses, `DeskUnavailableError` where it is not known
    whether it did what was asked; each in one sentence that says what was not done.
    """

    def __init__(self, url: str, token: SecretStr, timeout_seconds: float) -> None:
        self.url = url.rstrip("/")
        local = urlsplit(url).hostname in ("127.0.0.1", "localhost")
        client = httpx.Client(
            timeout=timeout_seconds,
            follow_redirects=True,
            trust_env=not local,
            limits=httpx.Limits(max_keepalive_connections=0),  # needs no closing
        )
        with self._explained("accept its token"):
            self._sdk = new_client(self.url, token, client)

    def get(self, path: str, parameters: Mapping[str, Any], what: str) -> bytes:
        """What lies at `path`; asked for up to three times, since that does no harm."""
        return _patiently(lambda: self._request("GET", path, parameters, what))

    def send(
        self,
        method: str,
        path: str,
        body: Any,
        what: str,
        parameters: Mapping[str, Any] | None = None,
    ) -> bytes:
        """The answer to a request that changes something; it is made once, whatever happens."""
        content = json.dumps(body, ensure_ascii=False).encode()
        return self._request(method, path, parameters or {}, what, content)

    def _request(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, Any],
        what: str,
        content: bytes | None = None,
    ) -> bytes:
        from label_studio_sdk.core.api_error import ApiError

        with self._explained(what):
            answer = self._sdk._client_wrapper.httpx_client.request(
                path,
                method=method,
                params=dict(parameters),
                content=content,
                headers={"Content-Type": "application/json"} if content is not None else None,
                request_options=_ONCE,
            )
            if not answer.is_success:
                raise ApiError(status_code=answer.status_code, body=answer.text)
        return bytes(answer.content)

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        from label_studio_sdk.core.api_error import ApiError

        sentence = f"Label Studio at {self.url} did not {what}"
        try:
            yield
        except ApiError as error:
            status = error.status_code or 0
            kind = DeskUnavailableError if status > _SERVER_ERROR else ServiceError
            if status == _SERVER_ERROR:
                kind = DeskFaultError
            raise kind(f"{sentence}: status {status}, {_said(error.body)}") from error
        except httpx.HTTPError as error:
            raise DeskUnavailableError(f"{sentence}: {type(error).__name__}, {error}") from error
        except json.JSONDecodeError as error:
            raise DeskUnavailableError(f"{sentence}: its answer is no JSON") from error


def new_client(url: str, token: SecretStr, http_client: Any) -> Any:
    """A client for the Label Studio at `url`.

    The SDK would read the token from the environment as it stood at import: it is always given.
    """
    with _quietly():
        from label_studio_sdk import LabelStudio

        return LabelStudio(  # type: ignore[no-untyped-call]
            base_url=url, api_key=token.get_secret_value(), httpx_client=http_client
        )


def parse_config(config: str) -> Any:
    """A labelling configuration as the SDK's `LabelInterface`, which validates what goes in."""
    with _quietly():
        from label_studio_sdk.label_interface.interface import LabelInterface

        interface: Any = LabelInterface(config)
    interface.validate()
    return interface


def _patiently(ask: Callable[[], T]) -> T:
    attempts = Retrying(
        retry=retry_if_exception_type(DeskUnavailableError),
        stop=stop_after_attempt(3),
        wait=wait_exponential(multiplier=0.2, max=2),
        reraise=True,
    )
    return attempts(ask)


def _said(body: Any) -> str:
    text = body if isinstance(body, str) else json.dumps(body, default=str, ensure_ascii=False)
    return f"it said {text[:300]}"


def _quietly() -> warnings.catch_warnings:
    return warnings.catch_warnings(action="ignore", category=PydanticDeprecatedSince20)
