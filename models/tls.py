"""TLS authorities that clients of web services trust."""

import ssl
from functools import cache

import httpx


@cache
def trusted_authorities() -> ssl.SSLContext:
    """Load the TLS authorities once, which takes longer than a request."""
    return httpx.create_ssl_context()
