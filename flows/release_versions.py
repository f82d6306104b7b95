"""Holds the version of a release that is being built against what it differs in from the last."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from db.blobs import BlobStore
from db.releases import StoredRelease, list_releases
from db.store import Store
from release.build import Inspection
from release.diff import compare_releases
from release.diff_records import Difference
from release.manifest import MANIFEST
from release.rebuild import rebuild_release
from release.versions import check_version, is_earlier
from schemas.errors import LoupeError, UsageError
from schemas.release import Manifest


class _Neighbours(NamedTuple):
    """The releases of the same dataset and tier that come before and after a version."""

    earlier: StoredRelease | None
    later: StoredRelease | None


def version_inspection(
    store: Store, blobs: BlobStore, warn: Callable[[str], None], *, strict: bool
) -> Inspection:
    """Compares what is built with the newest earlier release of the same dataset and tier.

    A number that is too small is told to `warn`, and so is an earlier release that is not in its
    folder or damaged there, so that nothing was compared. Where it is `strict`, that release is
    rebuilt for the comparison from the store, and a number that is too small, or that cannot be
    told, is refused with a UsageError before anything is published. A newer release of a higher
    version is only told.
    """

    def inspect(content: Path, manifest: Manifest) -> None:
        earlier, later = _neighbours(store, manifest)
        if later is not None:
            held = f"held against {earlier.manifest.version}" if earlier else "held against none"
            warn(
                f"{manifest.dataset} was released as {later.manifest.version} before; "
                f"{manifest.version} comes after it and is {held}"
            )
        if earlier is None:
            return
        version = earlier.manifest.version
        try:
            found = _compared(earlier, content)
        except LoupeError as error:
            if not strict:
                warn(
                    f"the version of {manifest.dataset} was held against nothing, as {version} "
                    f"cannot be compared with: {error}"
                )
                return
            found = _compared_with_rebuilt(store, blobs, earlier, content)
        if (fault := check_version(version, manifest.version, found)) is None:
            return
        told = f"the version of {manifest.dataset} {fault} since {version}"
        if strict:
            raise UsageError(f"{told}; nothing was released")
        warn(told)

    return inspect


def all_of(*inspections: Inspection) -> Inspection:
    """Several inspections, one after the other."""

    def inspect(content: Path, manifest: Manifest) -> None:
        for one in inspections:
            one(content, manifest)

    return inspect


def _compared(earlier: StoredRelease, content: Path) -> Difference:
    """With the earlier one as it lies in its folder."""
    folder = earlier.folder
    if not (folder / MANIFEST).is_file():
        raise UsageError(f"it is not in {folder} any more; `loupe release rebuild` makes it anew")
    found = compare_releases(folder, content, examples=0)
    if found.before.id != earlier.manifest.id:
        told = f"{found.before.dataset} {found.before.version} ({found.before.id[:12]})"
        raise UsageError(f"{told} lies in {folder} instead")
    return found


def _compared_with_rebuilt(
    store: Store, blobs: BlobStore, earlier: StoredRelease, content: Path
) -> Difference:
    """Likewise with what the store makes of the earlier one, beside `content` and for a while."""
    name = f"{earlier.manifest.dataset} {earlier.manifest.version}"
    try:
        out = content.parent / "earlier"
        rebuilt = rebuild_release(store, blobs, earlier, out, adopt=False)
        return compare_releases(rebuilt.folder, content, examples=0)
    except LoupeError as error:
        raise UsageError(
            f"nothing was released: a strict version is held against {name}, which is not sound "
            f"in {earlier.folder} and cannot be rebuilt: {error}"
        ) from error


def _neighbours(store: Store, manifest: Manifest) -> _Neighbours:
    """Those around `manifest`; none comes after a release that was built before."""
    known = [
        one for one in list_releases(store, manifest.dataset) if one.manifest.tier == manifest.tier
    ]
    earlier = [one for one in known if is_earlier(one.manifest.version, manifest.version)]
    is_new = all(one.manifest.id != manifest.id for one in known)
    later = [one for one in known if is_new and is_earlier(manifest.version, one.manifest.version)]
    return _Neighbours(earlier[-1] if earlier else None, later[-1] if later else None)
