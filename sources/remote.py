"""Sources on other machines: copies of annotations, and images that are read when needed."""

import contextlib
import hashlib
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from loupe.schemas.build import is_remote
from loupe.schemas.errors import DiskFullError, FormatError, MissingExtraError
from loupe.schemas.processes import write_atomically
from loupe.schemas.wording import many, storable
from loupe.sources.decoding import ImageRefusedError
from loupe.sources.files import expanded, refuse_pipe
from loupe.sources.images import ImageRoot

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_EXTRAS: Final = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "http": "web", "https": "web"}
_CREDENTIALS: Final = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or AWS_PROFILE",
    "s3a": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or AWS_PROFILE",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "gcs": "GOOGLE_APPLICATION_CREDENTIALS",
    "hf": "HF_TOKEN",
}
"""Where the credentials of a scheme come from."""
_DENIED: Final = re.compile(
    r"40[13]|denied|forbidden|credential|unauthorized|permission|token|gated", re.IGNORECASE
)
_UNREACHED: Final = re.compile(r"connect|timed? ?out|timeout|resolve|network", re.IGNORECASE)
_STAMPS: Final = re.compile(
    r"size|etag|mtime|last.?modified|created|updated|generation|md5.*|content.md5|digest|blob_id",
    re.IGNORECASE,
)
"""What a file system says of a file that tells another version of it."""
_WEAK: Final = frozenset({"size"})
_NOT_FOUND: Final = 404
_SECONDS_OF_SILENCE: Final = 5
_HUB: Final = "hf://datasets/"
_HUB_ID: Final = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")
Say = Callable[[str], None]


def quiet(_sentence: str) -> None:
    """Say nothing."""


class Located(NamedTuple):
    """The annotations of a source on this machine, and the folder of its images."""

    annotations: Path
    images: ImageRoot


def located(annotations: Path | str, images: Path | str, folder: Path, say: Say = quiet) -> Located:
    """Return where a source is; what is on another machine is copied to `folder` first.

    Images are not copied: they are read when they are needed. Without `images`, it is the folder of
    the annotations. A copy is made again when the file has changed.

    Raises:
        FormatError: the annotations cannot be read.
        MissingExtraError: what their scheme needs is not installed.
    """
    if is_remote(annotations):
        copy = _copied(str(annotations), folder, say)
        root = images or (copy if copy.is_dir() else _parent_of(str(annotations)))
    else:
        copy = Path(annotations)
        refuse_pipe(copy)
        root = images or (copy if copy.is_dir() else copy.parent)
    return Located(copy, RemoteFolder(str(root)) if is_remote(root) else Path(root))


def hub_address(annotations: Path | str) -> Path | str:
    """Return the address of a dataset on the hub, if this is the id of one and no folder."""
    if is_remote(annotations) or Path(annotations).exists():
        return annotations
    names = str(annotations).split("/")[-2:]
    found = _HUB_ID.fullmatch("/".join(names))
    if found is None:
        return annotations
    return f"{_HUB}{found[0]}"


def shown_address(address: str) -> str:
    """Return an address for messages: without user name, password, query and fragment."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "an address that cannot be read"
    host = parts.netloc.rpartition("@")[2] if parts.scheme != "hf" else parts.netloc
    bare = urlunsplit((parts.scheme, host, parts.path, "", ""))
    return storable(f"{bare}?…" if parts.query else bare)


class RemoteFolder:
    """A folder of images at an address; see `loupe.sources.images.RemoteImages`. Thread-safe."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._filesystem, path = _opened(address)
        self._path = path.rstrip("/")

    def __str__(self) -> str:
        return shown_address(self._address)

    def read(self, file_path: str, max_bytes: int) -> bytes:
        """Return the bytes of an image.

        Raises:
            ImageRefusedError: it is missing, too large or cannot be read.
        """
        try:
            with self._filesystem.open(f"{self._path}/{file_path}", "rb") as file:
                data = bytes(file.read(max_bytes + 1))
        except FileNotFoundError:
            what = f"does not exist in {self}"
            raise ImageRefusedError("missing_image", what) from None
        except Exception as fault:
            what = f"cannot be read from {self}: {_why(fault, self._address)}"
            raise ImageRefusedError("unreadable_image", what) from fault
        if len(data) > max_bytes:
            what = f"has more than the {max_bytes:,} bytes that an image may have"
            raise ImageRefusedError("too_many_bytes", what)
        return data

    def holds(self, file_path: str) -> bool:
        """Tell whether there is such a file."""
        try:
            return bool(self._filesystem.isfile(f"{self._path}/{file_path}"))
        except Exception:  # noqa: BLE001 - of the libraries of all schemes; reading says why
            return False


# Copies of annotations.


def _copied(address: str, folder: Path, say: Say) -> Path:
    filesystem, path = _opened(address)
    if urlsplit(address).scheme == "hf" and "@" not in path:
        raise FormatError(
            f"{shown_address(address)} names no revision, so its content may change; "
            f"add a tag or a commit, such as {shown_address(address)}@v1.0"
        )
    place = folder / hashlib.sha256(address.encode()).hexdigest()[:16]
    name = _base_of(address).partition("@")[0] or "source"
    with _reaching(address):
        filesystem.invalidate_cache()
        files = _files(filesystem, path, address)
        if not files:
            filesystem.info(path)  # says why it cannot be reached
            raise FileNotFoundError(path)
        is_folder = list(files) != [path] and not _is_pattern(_base_of(address))
        root = place / name if is_folder else place
        progress = _Copying(shown_address(address), len(files), say)
        for file, below in files.items():
            _fetch(filesystem, file, root / _safe(below, address), place / ".stamps", progress)
    progress.end(place)
    return root if is_folder else place / name


def _base_of(address: str) -> str:
    return PurePosixPath(urlsplit(address).path.rstrip("/")).name


def _files(filesystem: "AbstractFileSystem", path: str, address: str) -> dict[str, str]:
    """Return the files at a path with their names below it, sorted."""
    base = _base_of(address)
    if _is_pattern(base):
        parent = path.rpartition("/")[0]
        found: set[str] = set()
        for one in expanded(base):
            wild = any(sign in one for sign in "*?[")
            found.update(filesystem.glob(f"{parent}/{one}") if wild else [f"{parent}/{one}"])
        return {file: _base_of(file) for file in sorted(found)}
    if not address.endswith("/") and filesystem.isfile(path):
        return {path: base}
    root = f"{path.rstrip('/')}/"
    found = {str(file) for file in filesystem.find(root)}
    below = {file: file.removeprefix(root) for file in sorted(found) if file.startswith(root)}
    return {file: name for file, name in below.items() if name and not _is_hidden(name)}


def _fetch(
    filesystem: "AbstractFileSystem", file: str, target: Path, stamps: Path, progress: "_Copying"
) -> None:
    """Copy a file, unless the copy is of the same version."""
    stamp_file = stamps / hashlib.sha256(str(target).encode()).hexdigest()[:32]
    stamp = _stamp(filesystem.info(file))
    if stamp and target.is_file() and stamp_file.is_file() and stamp_file.read_text() == stamp:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    stamps.mkdir(parents=True, exist_ok=True)
    stamp_file.unlink(missing_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        filesystem.get_file(file, str(partial), callback=progress.begin())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    write_atomically(stamp_file, stamp.encode())


class _Copying:
    """Says every few seconds how far a copy is."""

    def __init__(self, shown: str, files: int, say: Say) -> None:
        self._shown = shown
        self._files = files
        self._say = say
        self._copied = 0
        self._bytes = 0
        self._said = time.monotonic()

    def begin(self) -> Any:
        """Count a file, and return what counts its bytes."""
        from fsspec.callbacks import Callback

        if not self._copied:
            self._say(f"copying {self._shown}: {many(self._files, 'file')}")
        self._copied += 1
        counted = self._count

        class Counting(Callback):  # type: ignore[misc] # fsspec has no types
            def relative_update(self, inc: int = 1) -> None:
                counted(inc)

        return Counting()

    def end(self, place: Path) -> None:
        """Say what was copied, if anything was."""
        if self._copied:
            copied = f"{self._copied:,} of {many(self._files, 'file')}"
            self._say(f"copied {copied}, {self._bytes / 1e6:,.0f} MB, of {self._shown} to {place}")

    def _count(self, size: int) -> None:
        self._bytes += size
        if time.monotonic() - self._said > _SECONDS_OF_SILENCE:
            self._said = time.monotonic()
            self._say(
                f"copying {self._shown}: file {self._copied:,} of {self._files:,}, "
                f"{self._bytes / 1e6:,.0f} MB"
            )


def _stamp(info: dict[str, Any]) -> str:
    """Return what tells this version of a file from another; empty if nothing does."""
    found = {key: str(value) for key, value in info.items() if _STAMPS.fullmatch(key)}
    known = {key for key, value in found.items() if value not in ("", "None")}
    return json.dumps(found, sort_keys=True) if known - _WEAK else ""


def _is_pattern(name: str) -> bool:
    return any(sign in name for sign in "*?[{")


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in PurePosixPath(name).parts)


def _safe(name: str, address: str) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise FormatError(f"{shown_address(address)} holds {name!r}, which leads out of the folder")
    return Path(*path.parts)


def _parent_of(address: str) -> str:
    parts = urlsplit(address)
    parent = str(PurePosixPath(parts.path).parent).rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, parent, "", "")) or address


# Reaching other machines.


def _opened(address: str) -> tuple["AbstractFileSystem", str]:
    """Return the file system of an address, and the path on it.

    Raises:
        FormatError: the scheme is unknown.
        MissingExtraError: what it needs is not installed.
    """
    import fsspec

    scheme = urlsplit(address).scheme
    options = {"get_client": _web_client, "client_kwargs": {"stated": urlsplit(address).hostname}}
    try:
        found = fsspec.core.url_to_fs(address, **(options if scheme in ("http", "https") else {}))
    except ImportError as fault:
        if scheme in _EXTRAS:
            raise MissingExtraError(f"reading {scheme}://…", _EXTRAS[scheme]) from fault
        raise FormatError(f"{shown_address(address)} cannot be read: {fault}") from fault
    except ValueError as fault:
        known = "s3, gs, hf, https, memory and others of fsspec"
        raise FormatError(
            f"{shown_address(address)} has an unknown scheme; known are {known}"
        ) from fault
    return found[0], str(found[1])


@contextlib.contextmanager
def _reaching(address: str) -> Iterator[None]:
    """Turn the exceptions of a scheme's library, which have no common base, into one sentence."""
    try:
        yield
    except (FormatError, MissingExtraError, DiskFullError):
        raise
    except FileNotFoundError as fault:
        cause = fault.__cause__  # the library for the web takes any failure for a missing file
        if not isinstance(cause, Exception) or getattr(cause, "status", None) == _NOT_FOUND:
            raise FormatError(f"there is nothing at {shown_address(address)}") from fault
        what = f"{shown_address(address)} cannot be read: {_why(cause, address)}"
        raise FormatError(what) from fault
    except Exception as fault:
        what = f"{shown_address(address)} cannot be read: {_why(fault, address)}"
        raise FormatError(what) from fault


def _why(fault: Exception, address: str) -> str:
    """Return what a library says, without an address that may hold a key, and what to do."""
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    said = re.sub(r"\w+://\S+", "…", lines[0]) if lines else ""
    named = f"{type(fault).__name__}: {said}" if said else type(fault).__name__
    variables = _CREDENTIALS.get(urlsplit(address).scheme)
    if variables and _DENIED.search(named):
        return f"{named}; credentials come from the environment ({variables})"
    if _UNREACHED.search(named):
        return f"it cannot be reached from here ({named}); copy it here, and name the copy"
    return named


async def _web_client(*, stated: str | None, loop: Any, **options: Any) -> Any:
    """Return a session that follows no redirect from the public web to a private address."""
    import aiohttp
    from yarl import URL

    from loupe.sources.web.addresses import parsed, public_addresses

    def refuse(host: str | None, addresses: list[str]) -> None:
        for text in addresses:
            address = parsed(text)
            if host != stated and address is not None and not public_addresses(address):
                raise OSError(f"a redirect leads to {host}, which is not on the public internet")

    async def on_redirect(_session: Any, _context: Any, params: Any) -> None:
        location = params.response.headers.get("Location", "")
        host = params.response.url.join(URL(location)).host
        refuse(host, [str(host)])

    class Resolver(aiohttp.ThreadedResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> Any:
            found = await super().resolve(host, port, family)
            refuse(host, [str(one["host"]) for one in found])
            return found

    traced = aiohttp.TraceConfig()
    traced.on_request_redirect.append(on_redirect)
    connector = aiohttp.TCPConnector(resolver=Resolver(loop=loop), loop=loop)
    return aiohttp.ClientSession(loop=loop, connector=connector, trace_configs=[traced], **options)
