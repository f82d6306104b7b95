"""Reseal a changed release: adapt its documents, digests and id to its content."""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from loupe.release.card.croissant import croissant_text
from loupe.release.card.documents import OF_MANIFEST
from loupe.release.format.files import CROISSANT, digest_of_file
from loupe.release.format.manifest import MANIFEST, manifest_text, named, read_files, read_manifest
from loupe.release.format.signing import SIGNATURE
from loupe.release.withdrawn.files import WITHDRAWALS
from loupe.schemas.release import Manifest, ReleasedFile


def listable_files(folder: Path) -> list[str]:
    """Sorted paths of all files except the manifest and the signature."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if path not in (MANIFEST, SIGNATURE))


def reseal(
    folder: Path,
    paths: Iterable[str] | None = None,
    change: Callable[[Manifest], Manifest] = lambda same: same,
    left: Collection[str] = (),
) -> None:
    """Write documents, digests, sizes, root and id again for all files or for `paths`.

    `left` are documents that are not rewritten.
    """
    manifest = change(read_manifest(folder))
    entities = {one.path: one.entity_id for one in read_files(folder / MANIFEST)}
    there = sorted(listable_files(folder) if paths is None else paths)

    def listed(path: str) -> ReleasedFile:
        return ReleasedFile(
            path=path,
            sha256=digest_of_file(folder / path),
            size_bytes=(folder / path).stat().st_size,
            entity_id=entities.get(path),
        )

    for path in OF_MANIFEST.keys() & set(there) - set(left):
        _write(folder / path, OF_MANIFEST[path](manifest))
    files = {path: listed(path) for path in there}
    if CROISSANT in files and CROISSANT not in left:
        details = [one for path, one in files.items() if path not in (CROISSANT, WITHDRAWALS)]
        _write(folder / CROISSANT, croissant_text(manifest, details))
        files[CROISSANT] = listed(CROISSANT)
    text = manifest_text(named(manifest, list(files.values())), list(files.values()))
    _write(folder / MANIFEST, b"".join(text).decode())


def _write(path: Path, text: str) -> None:
    path.unlink()  # may be a link to a file of a valid release
    path.write_bytes(text.encode())
