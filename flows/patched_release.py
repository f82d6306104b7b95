"""The release that a run ends with when a withdrawal came between: the one that took its place."""

from typing import NamedTuple

from db.releases import StoredRelease, list_releases, release_after, withdrawn_items
from db.store import Store
from db.withdrawal_notices import dataset_notices
from db.withdrawals import list_withdrawals
from schemas.errors import UsageError
from schemas.release import Manifest


class PatchedRelease(NamedTuple):
    """What stands in the place of a version, and why it is not built again, in one sentence."""

    release: StoredRelease
    sentence: str


def patched_release(store: Store, dataset: str, version: str) -> PatchedRelease | None:
    """What stands in the place of a version that was released before something was withdrawn.

    None where that version was not released, or nothing of its dataset's releases was withdrawn
    since: it can be built. Else it cannot, for what it held is gone, or other releases have notices
    by now that it does not carry.

    Raises:
        UsageError: something of it was withdrawn, and nothing stands in its place.
    """
    built = next(
        (one for one in list_releases(store, dataset) if one.manifest.version == version), None
    )
    if built is None or not _has_notices_since(store, built):
        return None
    gone = withdrawn_items(store, built.manifest.id)
    instead = release_after(store, built) or (built if gone is None else None)
    name = f"{dataset} {version}"
    raised = "raise the version in the build file"
    if instead is None:
        raise UsageError(
            f"something of {name} was withdrawn and nothing stands in its place: go on with: loupe "
            f"withdraw --resume; if every withdrawal is finished, {raised}"
        )
    if instead.manifest.id == built.manifest.id:
        told = f"{name} stands as it is: nothing of it was withdrawn, only of other releases"
    else:
        why = "something of it" if gone else "something of a release beside it"
        told = f"{_name(instead.manifest)} stands in the place of {name}: {why} was withdrawn"
    return PatchedRelease(
        instead, f"{told}; to release what was decided or brought in since, {raised}"
    )


def _has_notices_since(store: Store, built: StoredRelease) -> bool:
    """Whether holders of the dataset's releases are told of withdrawals that came after one."""
    last = max((one.id for one in list_withdrawals(store)), default=0)
    with store.read() as connection:
        before, now = (
            dataset_notices(connection, built.manifest.dataset, mark)
            for mark in (built.mark.withdrawal, last)
        )
    return before != now


def _name(manifest: Manifest) -> str:
    return f"{manifest.dataset} {manifest.version}"
