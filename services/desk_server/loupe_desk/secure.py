"""Cookies of the browser, which may come through Caddy, and its address."""

import os
from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse


class SecureCookies:
    """Django middleware that marks cookies as secure if they are set over TLS.

    Others are for browsers and programs on this machine. A response that refuses a request without
    a login sets no cookies: Label Studio begins a session for it, and if such a response came late,
    this session would replace that of a login in another tab.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Return the response."""
        answer = self._get_response(request)
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            answer.cookies.clear()
        if request.is_secure():
            for cookie in answer.cookies.values():
                cookie["secure"] = True
        return answer


def address_of(request: HttpRequest) -> str:
    """Return the address of the browser; Caddy names it, and lets nobody else name one."""
    said = request.headers.get("X-Forwarded-For", "") if "LOUPE_PUBLIC_ORIGIN" in os.environ else ""
    return said.rpartition(",")[2].strip() or str(request.META["REMOTE_ADDR"])
