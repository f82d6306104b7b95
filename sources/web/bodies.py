"""Bodies of answers, read as they come and never beyond a limit."""

import zlib
from typing import Final

import aiohttp

from sources.web.refusal import DownloadRefusedError

_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32
_COMPRESSED: Final = frozenset({"gzip", "x-gzip", "deflate"})


async def read_body(response: aiohttp.ClientResponse, max_bytes: int, *, cut: bool) -> bytes:
    """The body, decompressed. The limit holds for what is sent and for what it inflates to.

    What is longer is cut where `cut` says so.

    Raises:
        DownloadRefusedError: it is longer, or compressed in a way that is not read.
        aiohttp.ClientError: the connection breaks.
    """
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    inflate = _inflater(coding)
    declared = response.content_length
    if declared is not None and declared > max_bytes and not cut:
        raise _too_large(f"announces {declared:,} bytes", max_bytes)
    body, sent = bytearray(), 0
    async for chunk in response.content.iter_any():
        sent += len(chunk)
        try:
            body += chunk if inflate is None else inflate.decompress(chunk, max_bytes + 1)
        except zlib.error:
            what = f"is not compressed as it says ({coding})"
            raise DownloadRefusedError("bad_answer", what) from None
        if max(sent, len(body)) > max_bytes:
            if cut:
                return bytes(body[:max_bytes])
            raise _too_large("sends more bytes", max_bytes)
    if inflate is not None and sent and not inflate.eof:
        raise DownloadRefusedError("interrupted", "breaks off inside its compressed body")
    return bytes(body)


def _inflater(coding: str) -> "zlib._Decompress | None":
    if coding in ("", "identity"):
        return None
    if coding in _COMPRESSED:
        return zlib.decompressobj(_GZIP_OR_ZLIB)
    what = f"is sent with the content encoding {coding[:40]!r}, wanted none, gzip or deflate"
    raise DownloadRefusedError("bad_answer", what)


def _too_large(what: str, max_bytes: int) -> DownloadRefusedError:
    return DownloadRefusedError("too_large", f"{what}, wanted at most {max_bytes:,}")
