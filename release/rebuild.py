"""Rebuilds a past release from the store alone, byte for byte.

Rows, captions and counts come from the past state of the store. Facts that are not computed from
the store, or have no history (audit samples, answers of testers, distances of samples, limits of
leaks), are taken from the manifest, which the store keeps.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from loupe.db.blobs import BlobStore
from loupe.db.releases import (
    StoredRelease,
    StoreVersion,
    list_releases,
    release_after,
    withdrawn_items,
)
from loupe.db.store import Store
from loupe.release.build import BuiltRelease, build_release
from loupe.release.card.leaks import DEFAULT_LIMITS
from loupe.release.contamination import Checks
from loupe.release.format.files import Progress
from loupe.release.format.manifest import MANIFEST, read_files
from loupe.schemas.errors import IntegrityError, MissingBlobError
from loupe.schemas.release import Manifest
from loupe.schemas.similarity import LeakLimits
from loupe.schemas.taxonomy import Tier

_BYTES = ("files_root", "files_count")
_PARQUET = ".parquet"
_SHOWN = 3


class RebuildInputs(NamedTuple):
    """The arguments of `loupe.release.build.build_release` to build a release again."""

    tier: Tier | None
    leak_limits: LeakLimits
    checks: Checks
    as_of: StoreVersion


class _CountsDifferError(Exception):
    """All rows are equal, but other facts differ."""


def rebuild_inputs(stored: StoredRelease) -> RebuildInputs:
    """The inputs that a release was built with.

    They can also build a patch that withdraws some rows, because `as_of` excludes rows withdrawn
    since. Only `checks.nearest` and `checks.contamination` were measured on all rows: a patch
    measures them again or leaves them out.
    """
    manifest = stored.manifest
    return RebuildInputs(
        manifest.tier,
        manifest.leaks.limits if manifest.leaks else DEFAULT_LIMITS,
        _stated_checks(manifest),
        StoreVersion(stored.mark),
    )


def _stated_checks(manifest: Manifest) -> Checks:
    """The checks that result in what a manifest states."""
    statistics = manifest.statistics
    nearest = statistics.contrasts and statistics.contrasts.nearest
    return Checks(
        nearest=(lambda _samples: nearest) if nearest else None,
        choices=statistics.choices,
        audits=statistics.audits,
        agreement=statistics.agreement,
        errors=lambda: statistics.errors,
        judges=lambda _tier: statistics.judges,
        unused=statistics.unused,
        gates=lambda: statistics.gates,
        originals=lambda: statistics.originals,
        quotas=lambda _tier: statistics.quotas,
        text_checks=statistics.text_checks,
        test_share=statistics.test_share,
        of_persons=manifest.of_persons,
        about=manifest.about,
        contamination=manifest.contamination,
        permitted_terms={one.source: one.basis for one in manifest.terms.permissions},
        images=manifest.encoding or "stored",
        certify=lambda _folder: manifest.shortcuts,
        strata=lambda _manifest, _rows: statistics.strata,
    )


def rebuild_release(
    store: Store,
    blobs: BlobStore,
    stored: StoredRelease,
    out: Path,
    *,
    on_progress: Progress = lambda _done, _total: None,
    adopt: bool = True,
) -> BuiltRelease:
    """Rebuild a release that the store knows at `out`, from the store alone.

    Items stored or decided since are ignored. The folder appears as a whole with the id of the
    release, or not at all. If the folder known to the store no longer holds the release, `out`
    becomes its folder unless `adopt` is False.

    Raises:
        UsageError: if `out` holds something else.
        IntegrityError: if items of it were withdrawn, its images are missing, or the result differs
            (the message says how).
    """
    _refuse_withdrawn(store, stored)
    inputs = rebuild_inputs(stored)
    contained = {one.id for one in stored.manifest.contains}
    known = (one.manifest for one in list_releases(store, stored.manifest.dataset))
    lower = [one for one in known if one.id in contained]

    def rebuild(as_of: StoreVersion, *, is_last: bool) -> BuiltRelease:
        def inspect(content: Path, manifest: Manifest) -> None:
            _refuse_other(stored, content, manifest, is_last=is_last)

        return build_release(
            store,
            blobs,
            stored.manifest.dataset,
            stored.manifest.version,
            out,
            **inputs._replace(as_of=as_of)._asdict(),
            lower=lower,
            on_progress=on_progress,
            inspect=inspect,
            adopt=adopt,
        )

    try:
        try:
            return rebuild(inputs.as_of, is_last=False)
        except _CountsDifferError:
            # an item outside of the release was withdrawn since, for example a rejected draft: it
            # counts as before and is not reported, because all released items are active
            return rebuild(inputs.as_of._replace(then_withdrawn=True), is_last=True)
    except MissingBlobError as error:
        raise IntegrityError(
            f"{stored.name} cannot be rebuilt, an image of it is gone: {error}"
        ) from error


def _refuse_withdrawn(store: Store, stored: StoredRelease) -> None:
    """Raise unless everything in a release may still be released.

    Raises:
        IntegrityError: if items of it were withdrawn; the message names withdrawal and replacement.
    """
    taken = withdrawn_items(store, stored.manifest.id)
    if taken is None:
        return
    by = ", ".join(f"{key[:12]} ({ground})" for key, ground in taken.withdrawals)
    were = "was" if taken.entities == 1 else "were"
    details = f"{taken.entities:,} of its entities {were} withdrawn"
    details += f" by withdrawal {by}" if by else ""
    later = release_after(store, stored)
    instead = f"use {later.name}" if later else "there is no newer release without it yet"
    raise IntegrityError(
        f"{stored.name} is not rebuilt: {details}, first {taken.first_kind} "
        f"{taken.first_id}; {instead}"
    )


def _differing(name: str, old: Any, new: Any) -> Iterator[str]:
    """The names of values that differ, with those inside of others after a dot."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        yield from [name] if old != new else []
        return
    for part in sorted(old.keys() | new.keys()):
        yield from _differing(f"{name}.{part}".removeprefix("."), old.get(part), new.get(part))


def _refuse_other(
    stored: StoredRelease, content: Path, manifest: Manifest, *, is_last: bool
) -> None:
    """Raise unless `content` holds the stored release."""
    wanted = stored.manifest
    if manifest.id == wanted.id:
        return
    if manifest.entities_sha256 == wanted.entities_sha256 and not is_last:
        raise _CountsDifferError
    old, new = (one.model_dump(mode="json", exclude={"id", *_BYTES}) for one in (wanted, manifest))
    if names := list(_differing("", old, new)):
        if (written := wanted.encoding) and "encoding.libraries" in names:
            names.remove("encoding.libraries")
            names.insert(0, f"encoding.libraries (it was encoded by {written.libraries})")
        more = f" and {len(names) - _SHOWN:,} more values" if len(names) > _SHOWN else ""
        shown = ", ".join(names[:_SHOWN]) + more
        what = (
            f"its manifest would differ in {shown}; this version of Loupe builds releases "
            f"differently"
        )
    else:
        what = _named_files(stored.folder, content)
    raise IntegrityError(
        f"{stored.name} would not be identical ({wanted.id[:12]}, now {manifest.id[:12]}), "
        f"and nothing was written: {what}"
    )


def _named_files(folder: Path, content: Path) -> str:
    """The files whose bytes differ although the manifest's statements are equal."""
    arrow = (
        f"Parquet files name the version of pyarrow, which is {pa.__version__} now: "
        f"install the one that it was built with"
    )
    try:
        old = {file.path: file.sha256 for file in read_files(folder / MANIFEST)}
        new = {file.path: file.sha256 for file in read_files(content / MANIFEST)}
    except IntegrityError:
        return f"its manifest would be equal, but files have other bytes; {arrow}"
    files = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
    if files and all(path.endswith(_PARQUET) for path in files):
        return f"only {', '.join(files[:_SHOWN])} differ; {arrow}"
    return f"{', '.join(files[:_SHOWN])} differ; this version of Loupe writes them differently"
