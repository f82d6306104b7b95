"""Removes private parts of names, short texts and parameters before they are released.

Everything that a release states of models, trackers, editors and authors passes through here, so
that one model has the same name everywhere. Local paths in a text are reduced to their last part,
behind "…/". User names and passwords are removed from addresses, addresses of non-public hosts as a
whole, and keys and tokens, too. The functions are idempotent.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from loupe.schemas.base import canonical_json

HIDDEN = "(withheld)"

_PLACES = frozenset(
    {
        *("annotations", "base_url", "checkpoint", "device", "endpoint", "engine_id"),
        *("folder", "home", "host", "images_root", "licence_file", "server", "user"),
    }
)
_ENDS = re.compile(r"(_variable|_path|_folder)$")
_TELLING = frozenset({"file_path"})
"""Keys whose values are relative to the root of a source."""
_SECRETS = frozenset(
    {
        *("secret", "secrets", "password", "passwords", "passwd", "pwd", "passphrase", "apikey"),
        *("auth", "authorization", "credential", "credentials", "cookie", "cookies", "bearer"),
        *("signature", "sig"),
    }
)
_KEYS = frozenset({"key", "keys", "token", "tokens"})
"""Keys with these names may have a number of tokens as value."""
_NAME = re.compile(r"[\w .…/-]{2,64}")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_LOCAL = r"(?i:file|folder|local-dir)"
_ADDRESS = re.compile(
    rf"(?<![A-Za-z0-9+.-])(?!{_LOCAL}:)[A-Za-z][A-Za-z0-9+.-]*://"
    r"(?:(?![,;|@=][/~\\])[^\s\"'<>])+"
)
_ROOT = r"(?:/+(?=[^\s/])|\.\.[\\/]|\\\\+(?=\S))"
_PATH = re.compile(
    rf"^(?:{_LOCAL}:)*(?:{_ROOT}|~(?=\S))"
    rf"|(?<=[\s\"'`=:@({{,;|])(?:{_LOCAL}:)*(?:{_ROOT}|~[^\s\\/]*[\\/])"
    r"|(?<=[<>\[])(?:/+[^\s\\/]+/|\.\.[\\/]|\\\\(?=\S)|~[^\s\\/]*[\\/])"
    rf"|(?<!\w)(?:{_LOCAL}:)*(?<!\w)[A-Za-z]:[\\/]+(?=\S)"
)
"""The start of a path: at the beginning of a line, or after a character that cannot be part of one.
"""
_TOKEN = re.compile(
    r"\b(?:sk-|hf_|ghp_|github_pat_|AKIA|AIza)[\w-]{8,}"
    r"|(?i:\bbearer\s+)(?=[\w.~+/=-]*[0-9._~+/=-]|\w{20})[\w.~+/=-]+"
)
_ASSIGNED = re.compile(
    r"(?i:(\b(?:[\w-]*(?:api[_-]?key|password|passwd|authorization|access[_-]?token)[\w-]*"
    r"[\"']?\s*[:=]|[\w-]*(?:secret|credential|cookie|token|[_-]key)[\"']?\s*=)\s*)"
    r"(?:(?:bearer|basic)\s+)?)(?:\"[^\"]*\"|'[^']*'|[^\s,;&}\"']+)"
)


def published_text(text: str) -> str:
    """A reason, address or other short text."""
    return _until_stable(text, whole_queries=False)


@lru_cache(maxsize=4096)
def published_name(text: str) -> str:
    """A model (`name@revision`), tracker, embedder or author, without queries of addresses."""
    return _until_stable(text, whole_queries=True)


def published_model(name: str, revision: str) -> tuple[str, str]:
    """The name and revision of a model or other agent, consistent with `published_name`."""
    if not revision:
        return published_name(name), ""
    details, at, version = published_name(f"{name}@{revision}").rpartition("@")
    return (details, version) if at else (version, "")


def published_values(values: Any) -> Any:
    """Settings or parameters without paths, devices, keys and names of keys, at any depth."""
    if isinstance(values, Mapping):
        details = {published_name(str(name)): value for name, value in values.items()}
        hides = any(_hides_next(details.get(name)) for name in ("name", "key"))
        return {
            name: published_values(value)
            for name, value in details.items()
            if not _is_private(name, value) and not (hides and name == "value")
        }
    if isinstance(values, (list, tuple)):
        return [
            HIDDEN if _hides_next(before) else published_values(value)
            for before, value in zip((None, *values), values, strict=False)
        ]
    return published_name(values) if isinstance(values, str) else values


def published_served(served: str) -> str:
    """A server's statement about its model, as canonical JSON, without a time."""
    values = {name: one for name, one in json.loads(served).items() if name != "created"}
    return canonical_json(published_values(values))


def _hides_next(value: Any) -> bool:
    """Whether the next value is private, as in `["--api-key", "…"]` or `{"name": …}`."""
    if not isinstance(value, str):
        return False
    name = published_name(value)
    return _NAME.fullmatch(name) is not None and _is_private(name, "")


def _is_private(name: str, value: Any) -> bool:
    if name in _TELLING:
        return False
    if name in _PLACES or _ENDS.search(name):
        return True
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return False
    if words[0] == "api" or words[-1] in {"key", "token"} or not _SECRETS.isdisjoint(words):
        return True
    return not _KEYS.isdisjoint(words) and not _is_numeric(value)


def _is_numeric(value: Any) -> bool:
    """Whether a value consists of numbers only."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_numeric, value))
    return value is None or isinstance(value, (bool, int, float))


def _until_stable(text: str, *, whole_queries: bool) -> str:
    """Repeat until nothing changes, because removals may create new matches."""
    while (details := _without_places(text, whole_queries=whole_queries)) != text:
        text = details
    return text


def _without_places(text: str, *, whole_queries: bool) -> str:
    parts, at = list[str](), 0
    for found in _ADDRESS.finditer(text):
        parts += [_without_addresses(text[at : found.start()], is_first=at == 0)]
        parts += [_published_address(found[0], whole_query=whole_queries)]
        at = found.end()
    return "".join([*parts, _without_addresses(text[at:], is_first=at == 0)])


def _without_addresses(text: str, *, is_first: bool) -> str:
    """A text without addresses; the text after an address is not at the beginning of a line."""
    text = _ASSIGNED.sub(rf"\1{HIDDEN}", _TOKEN.sub(HIDDEN, text))
    lines = text.splitlines(keepends=True)
    return "".join(
        _shortened_path(line, begins=is_first or number > 0) for number, line in enumerate(lines)
    )


def _shortened_path(line: str, *, begins: bool) -> str:
    """A line up to a path, and the last part of the path; paths may contain spaces."""
    found = next((one for one in _PATH.finditer(line) if begins or one.start() > 0), None)
    if found is None:
        return line
    path = line[found.start() :]
    end = path[len(path.rstrip("\r\n")) :]
    last = re.split(r"[\\/]", path.rstrip().rstrip("\\/"))[-1].lstrip("~")
    return f"{line[: found.start()]}…/{last}{end}"


def _published_address(address: str, *, whole_query: bool) -> str:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return HIDDEN
    if not _is_public(host):
        return HIDDEN
    place = f"[{host}]" if ":" in host else host
    netloc = f"{place}:{port}" if port else place
    asked = parse_qsl(parts.query, keep_blank_values=True)
    hides = any(_is_private(name.lower(), value) for name, value in asked)
    query = "" if whole_query or hides else parts.query
    if (netloc, query) == (parts.netloc, parts.query):
        return address
    fragment = parts.fragment if query == parts.query else ""
    return urlunsplit(SplitResult(parts.scheme, netloc, parts.path, query, fragment))


def _is_public(host: str) -> bool:
    try:
        return ip_address(host).is_global
    except ValueError:
        local = (".local", ".localdomain", ".internal", ".lan", ".home.arpa", ".localhost")
        return "." in host and not host.endswith(local)
