"""How Google's client reaches the network: with the key, once a call, and under no other name.

The client itself is never told the key, so that neither the addresses that it logs nor its errors
hold it. Its transport would send a request again when a connection breaks, without a word: here
nothing is sent twice, since every request counts against a quota.
"""

from typing import Any
from urllib.parse import urlencode, urlsplit

import httplib2


class _SentOnce:
    """A connection that is opened once: whoever wants to send again has to ask again."""

    _was_open = False

    def connect(self) -> None:
        """Opens it.

        Raises:
            ConnectionResetError: it was open before.
        """
        if self._was_open:
            raise ConnectionResetError("the server closed the connection without an answer")
        super().connect()  # type: ignore[misc]
        self._was_open = True


class _Http(_SentOnce, httplib2.HTTPConnectionWithTimeout):  # type: ignore[misc]
    pass


class _Https(_SentOnce, httplib2.HTTPSConnectionWithTimeout):  # type: ignore[misc]
    pass


class KeyedHttp(httplib2.Http):  # type: ignore[misc]
    """Adds the key to each address as it leaves; for one call, in one thread.

    A proxy that the environment names is used for https alone, where it sees no key. Redirects are
    not followed: the key is for this server. `received` is the type and the body of what
    came back; None before.
    """

    def __init__(self, base_url: str, key: str, timeout_seconds: float) -> None:
        self._is_secure = urlsplit(base_url).scheme == "https"
        proxy = {} if self._is_secure else {"proxy_info": None}
        super().__init__(timeout=timeout_seconds, **proxy)
        self.follow_redirects = False
        self._key = key
        self.received: tuple[str, bytes] | None = None

    def request(
        self,
        uri: str,
        method: str = "GET",
        body: str | None = None,
        headers: dict[str, str] | None = None,
        **named: Any,
    ) -> tuple[Any, bytes]:
        """As `httplib2.Http` does; the parameters of a long query are in the body of a POST."""
        named["connection_type"] = _Https if self._is_secure else _Http
        key, headers = urlencode({"key": self._key}), dict(headers or {})
        if body:
            body = f"{body}&{key}"
            headers["content-length"] = str(len(body))
        else:
            uri = f"{uri}{'&' if urlsplit(uri).query else '?'}{key}"
        response, content = super().request(uri, method, body, headers, **named)
        self.received = str(response.get("content-type", "")), content
        return response, content
