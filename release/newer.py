"""Finds newer releases of the same dataset and tier; an old release verifies as well as they do."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from loupe.release.format.manifest import MANIFEST, id_of, peeked_manifest
from loupe.release.format.signing import read_signature
from loupe.schemas.release import Manifest
from loupe.schemas.withdrawal import version_numbers


class NewerRelease(NamedTuple):
    """A newer release, by version, id and folder."""

    version: str
    id: str
    folder: str


def newest_of(
    manifest: Manifest, known: Iterable[tuple[Manifest, Path]], public_key: str | None = None
) -> NewerRelease | None:
    """The newest of the known releases that is newer than that of `manifest`, if any.

    With a `public_key`, only releases that it signed count.
    """
    newest: NewerRelease | None = None
    version = manifest.version
    for other, folder in known:
        is_same = (other.dataset, other.tier) == (manifest.dataset, manifest.tier)
        if not is_same or version_numbers(other.version) <= version_numbers(version):
            continue
        if public_key is None or _is_signed(folder, other.id, public_key):
            version = other.version
            newest = NewerRelease(other.version, other.id, str(folder))
    return newest


def releases_beside(folder: Path) -> Iterator[tuple[Manifest, Path]]:
    """The releases in the folder that contains `folder`, without those of damaged manifests."""
    here = folder.resolve()
    try:
        beside = sorted(here.parent.iterdir())
    except OSError:
        return
    for other in beside:
        if other == here or not (other / MANIFEST).is_file():
            continue
        manifest = peeked_manifest(other)
        if manifest is not None and id_of(manifest) == manifest.id:
            yield manifest, other


def _is_signed(folder: Path, release_id: str, public_key: str) -> bool:
    try:
        signature = read_signature(folder)
    except (ValueError, OSError):
        return False
    if signature is None or (signature.release, signature.public_key) != (release_id, public_key):
        return False
    return signature.is_right()
