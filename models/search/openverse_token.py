"""In whose name Openverse is asked: nobody's, that of a token, or of a registered application."""

import threading
import time
from collections.abc import Callable

import httpx
from pydantic import BaseModel, Field, ValidationError

from models.search.keys import read_key
from schemas.errors import ConfigurationError
from schemas.image_search import OpenverseSearch

_RENEWED_BEFORE_SECONDS = 60.0


class TokenRefusedError(Exception):
    """No token was given; holds what the server said."""

    def __init__(self, what: str, raw: str, *, is_passing: bool) -> None:
        super().__init__(what)
        self.raw = raw
        self.is_passing = is_passing


class _Token(BaseModel):
    access_token: str = Field(min_length=1)
    expires_in: float = Field(gt=0)


class OpenverseTokens:
    """Gives the header that a request is sent with; a token is asked for once, and before it ends.

    Raises:
        ConfigurationError: an environment variable is not set, or one of id and secret is missing.
    """

    def __init__(
        self, spec: OpenverseSearch, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._token = ""
        self._ends = float("inf")
        self._application: tuple[str, str] | None = None
        self.secrets: list[str] = []
        if bool(spec.client_id_variable) != bool(spec.client_secret_variable):
            raise ConfigurationError(
                "openverse wants client_id_variable and client_secret_variable, or neither; got one"
            )
        if spec.token_variable:
            self._token = read_key(spec.token_variable, "token", spec.ref)
            self.secrets.append(self._token)
        elif spec.client_id_variable and spec.client_secret_variable:
            secret = read_key(spec.client_secret_variable, "client secret", spec.ref)
            self._application = read_key(spec.client_id_variable, "client id", spec.ref), secret
            self.secrets.append(secret)

    def header(self, client: httpx.Client) -> dict[str, str]:
        """`Authorization`, or nothing.

        Raises:
            TokenRefusedError: the server gives no token.
            httpx.HTTPError: it cannot be asked.
        """
        if self._application is None:
            return {"Authorization": f"Bearer {self._token}"} if self._token else {}
        with self._lock:
            if not self._token or self._monotonic() >= self._ends:
                self._renew(client, *self._application)
            return {"Authorization": f"Bearer {self._token}"}

    def forget(self) -> bool:
        """Lets the next request ask for another token; False where there can be no other."""
        if self._application is None:
            return False
        with self._lock:
            self._token = ""
        return True

    def _renew(self, client: httpx.Client, client_id: str, secret: str) -> None:
        form = {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": secret,
        }
        response = client.post("v1/auth_tokens/token/", data=form)
        if response.status_code != httpx.codes.OK:
            what = f"gives no token, status {response.status_code}"
            is_passing = response.status_code >= 500 or response.status_code == 429
            raise TokenRefusedError(what, response.text, is_passing=is_passing)
        try:
            token = _Token.model_validate_json(response.content)
        except ValidationError as fault:
            raise TokenRefusedError("answers with no token", "", is_passing=True) from fault
        self.secrets.append(token.access_token)
        self._token = token.access_token
        self._ends = self._monotonic() + max(0.0, token.expires_in - _RENEWED_BEFORE_SECONDS)
