"""Small releases of every kind, with statements of their curators."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import NamedTuple

from loupe.release.build import build_release
from loupe.release.contamination import Checks
from loupe.schemas.release import AgreementStatistics, Creator, Manifest, ReleaseAbout
from loupe.schemas.taxonomy import Tier
from tests.release import ccd_world, recos_world, street_world, worlds

ABOUT = ReleaseAbout(
    title='Streets: "fine", 100 % — and 日本 😀',
    description="People and scenes.\nIn fine detail: {all} of it.",
    creators=(
        Creator(
            family_names="Lovelace",
            given_names="Ada",
            affiliation="Analytical Society",
            orcid="https://orcid.org/0000-0002-1825-0097",
        ),
        Creator(name="Example Laboratory", website="https://example.org/lab"),
    ),
    contact="https://example.org/withdraw",
    homepage="https://example.org/streets",
    date_released=date(2026, 11, 22),
    doi="10.5281/zenodo.1234567",
    licence="CC-BY-NC-SA-4.0",
)
AGREEMENT = AgreementStatistics(
    queue="ufine3c-rewrites",
    control="verdict",
    kind="choice",
    items=40,
    annotators=3,
    observed=0.85,
    coefficient=0.61,
    low=0.5,
    high=0.7,
)
STATED = Checks(about=ABOUT, agreement=(AGREEMENT,))
KINDS = ("plain", "tiers", "contrasts", "street")


class Built(NamedTuple):
    """A release and its manifest."""

    folder: Path
    manifest: Manifest


def contents_of(kind: str) -> tuple[worlds.Contents, str, str, Tier | None]:
    """Contents of the store, name of the dataset, version and tier."""
    match kind:
        case "plain":
            return worlds.small_world().contents(), worlds.DATASET, "1.0.0", None
        case "tiers":
            return recos_world.benchmark().world.contents(), recos_world.RECOS, "2.1.0", "v2"
        case "contrasts":
            made = ccd_world.benchmark()
            for number, image in enumerate(made.groups[0].contrasts):
                text = f"一张图片 {number}"
                ccd_world.drafted(made.world, image, ccd_world.COCO, text, number, "zh")
            return made.world.contents(), ccd_world.CCD, "1.0.0", None
        case _:
            return street_world.street_world().contents(), street_world.DATASET, "1.0.0", None


@contextmanager
def built(kind: str, home: Path, checks: Checks = STATED) -> Iterator[Built]:
    """Build a release of a kind from a new store below `home`."""
    contents, dataset, version, tier = contents_of(kind)
    world = worlds.store_world(home / "world", contents)
    try:
        made = build_release(
            world.store, world.blobs, dataset, version, home / "out", tier=tier, checks=checks
        )
        yield Built(made.folder, made.manifest)
    finally:
        world.store.close()
