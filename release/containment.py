"""Whether a release of a higher tier holds all rows of one of a lower tier."""

from collections.abc import Iterable

from sqlalchemy import Connection

from db.entities import StoredEntity
from db.release_rows import entities_by_id, released_rows
from db.releases import list_releases
from db.store import Store
from release.scratch import Scratch
from release.tiers import tiers_within, version_in
from schemas.errors import IntegrityError
from schemas.records import Caption, Image
from schemas.release import ContainedRelease, Manifest
from schemas.retrieval_task import Tier


def lower_releases(
    store: Store, dataset: str, version: str, tier: Tier | None
) -> tuple[Manifest, ...]:
    """The releases of lower tiers, of the state that `version` is of, the lowest first."""
    if tier is None:
        return ()
    wanted = {(lower, version_in(lower, version)) for lower in tiers_within(tier)[:-1]}
    found = (one.manifest for one in list_releases(store, dataset))
    return tuple(one for one in found if (one.tier, one.version) in wanted)


def contained(
    connection: Connection, lower: Iterable[Manifest], scratch: Scratch, name: str
) -> tuple[ContainedRelease, ...]:
    """The releases `lower`, all rows of which are among the items of `scratch`, as it is stated.

    Raises:
        IntegrityError: something of them is missing in the release called `name`.
    """
    return tuple(_contained(connection, one, scratch, name) for one in lower)


def _contained(
    connection: Connection, lower: Manifest, scratch: Scratch, name: str
) -> ContainedRelease:
    if missing := scratch.lacking(released_rows(connection, lower.id)):
        found = entities_by_id(connection, missing).values()
        images = sum(one.kind == Image.kind for one in found)
        raise IntegrityError(
            f"{name} must contain {lower.dataset} {lower.version}, of which {images:,} images and "
            f"{len(missing) - images:,} captions are missing: first {min(map(_named, found))}; "
            f"accept again what was rejected since, or release tier {lower.tier} again"
        )
    assert lower.tier is not None  # noqa: S101 - `lower_releases` has seen to it
    return ContainedRelease(
        tier=lower.tier,
        version=lower.version,
        id=lower.id,
        images=lower.statistics.images,
        captions=lower.statistics.captions,
    )


def _named(entity: StoredEntity) -> str:
    if entity.kind == Image.kind:
        image = entity.record(Image)
        return f"image {image.file_path!r} of {image.source} (entity {entity.id})"
    if entity.kind == Caption.kind:
        return f"the caption {entity.record(Caption).text!r} (entity {entity.id})"
    return f"{entity.kind} {entity.id}"
