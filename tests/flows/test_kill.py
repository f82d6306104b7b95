"""Builds killed with SIGKILL at random moments give the same releases for the same cost.

Six kills of one build; `make soak` does twenty, and kills the other builds, too.
"""

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from loupe.demo.worlds.stills import write_stills_world
from loupe.release.verify import verify_release
from loupe.schemas.records import Granularity
from tests.flows import recos_world
from tests.flows.ccd_world import contrast_build, searched_folder, write_contrast_profile
from tests.flows.homes import bytes_of, contents_of, files_of, problems_of
from tests.flows.killing import KillableBuild, calls_in, kill_at
from tests.flows.worlds import write_people, write_toml
from tests.servers.captioning import caption_completion
from tests.servers.contrasting import remembered, sometimes_cut, spoiled
from tests.servers.counting_server import Complete, CountingServer, counting_server

pytestmark = pytest.mark.xdist_group("kill")  # takes minutes: start early

MAX_IN_FLIGHT = 4


def people_build(folder: Path, model: dict[str, Any]) -> KillableBuild:
    """A build with more images, captions and rewrites than fit a chunk, some of them unusable."""
    street, square = folder / "street", folder / "square"
    coarse = write_people(street, Granularity.COARSE, identities=52, images=4, captions=2)
    fine = write_people(square, Granularity.FINE, identities=15, images=2, captions=1)
    (street / "0003_1.jpg").write_bytes(b"no image")
    sources = [
        {
            "name": images.name,
            "format": "cuhk-pedes",
            "annotations": file,
            "images": images,
            "images_per_identity": 2,
            "permitted_by": "drawn here",
        }
        for images, file in ((street, coarse), (square, fine))
    ]
    values = {"dataset": "people", "identities_per_source": 45, "gate": "auto", "sources": sources}
    builtin = {"provider": "builtin", "style": "flowing", "seed": 1}
    profile = {
        "description": "one counted, one built in",
        "judge": False,
        "rewrite": {"models": [model, builtin]},
    }
    return KillableBuild(
        "build-ufine3c",
        write_toml(folder / "build.toml", values),
        write_toml(folder / "profile.toml", profile),
    )


def recos_build(folder: Path, model: dict[str, Any]) -> KillableBuild:
    """A build with images of three tasks, captioned by the counting model."""
    stills = write_stills_world(folder / "stills", seed=11, count=60)
    build = recos_world.small_build(stills, folder)
    return KillableBuild(
        "build-recos",
        recos_world.write_build(build, folder / "build.toml"),
        recos_world.write_profile(folder / "profile.toml", {"model": model}),
    )


def ccd_build(folder: Path, model: dict[str, Any]) -> KillableBuild:
    """A build of four anchors, whose contrastive images are found in a folder or edited."""
    stills = write_stills_world(folder / "stills", seed=11, count=40)
    pictures = searched_folder(stills, folder / "pictures")
    build = contrast_build(stills, anchors=4, methods=("search", "edit"), search_folder=pictures)
    model = {**model, "max_retries": 0}
    contrast = {"strategist": model, "refiner": model, "choice": {"doubtful_misfit": 0.3}}
    return KillableBuild(
        "build-ccd",
        recos_world.write_build(build, folder / "build.toml"),
        write_contrast_profile(folder / "profile.toml", contrast),
    )


class Kills(NamedTuple):
    """How a build is killed: how often, and its model, which survives the kills."""

    build: Callable[[Path, dict[str, Any]], KillableBuild]
    times: int
    seconds: float
    """How long the model takes to answer."""
    complete: Callable[[], Complete | None] = lambda: None

    def __str__(self) -> str:
        return f"{self.build.__name__}-{self.times}"


FEW = Kills(people_build, 6, 0.05)
MANY = (
    FEW._replace(times=20),
    Kills(recos_build, 5, 0.1, lambda: caption_completion),
    Kills(ccd_build, 5, 0.1, lambda: remembered(spoiled(sometimes_cut))),
)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    "kills", [FEW, *(pytest.param(one, marks=pytest.mark.soak) for one in MANY)], ids=str
)
def test_kills_change_neither_the_releases_nor_the_cost(tmp_path: Path, kills: Kills) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed of the kills: {seed}")  # noqa: T201 - shown with a failure, to repeat it
    chance = random.Random(seed)
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    with counting_server(kills.seconds, kills.complete()) as model:
        counted: dict[str, Any] = {"provider": "openai", "name": "counting", "revision": "1"}
        counted |= {"base_url": model.base_url, "max_in_flight": MAX_IN_FLIGHT}
        build = kills.build(tmp_path, counted)
        stages = build.finish(undisturbed)
        wanted = Counter(model.ledger.counts)
        assert set(wanted.values()) == {1}
        assert len(wanted) == calls_in(undisturbed)
        model.ledger.reset()

        lost: list[int] = []
        places: list[int] = []
        shares = sorted(chance.random() for _ in range(kills.times))
        shares[0] /= 2  # before most requests
        for number, share in enumerate(shares):
            requests = len(wanted) if number % 2 else None
            run = build.start(killed)
            place = kill_at(run, model, share, stages, chance, requests)
            places += [] if place is None else [place]
            lost.append(total(model) - sum(lost) - calls_in(killed))
            print(f"killed after {place} of {stages} stages, {lost[-1]} lost")  # noqa: T201
        build.finish(killed)

    assert len(places) >= kills.times // 2
    assert len(set(places)) >= min(3, kills.times // 3), places
    assert model.ledger.counts.keys() == wanted.keys()
    assert 0 < max(lost) <= MAX_IN_FLIGHT
    assert total(model) == len(wanted) + sum(lost), "each answer that arrived was paid for once"
    releases = sorted(path.name for path in (undisturbed / "releases").iterdir())
    assert releases
    for name in releases:
        assert verify_release(killed / "releases" / name).problems == []
    assert bytes_of(killed / "releases") == bytes_of(undisturbed / "releases")
    assert files_of(killed) == files_of(undisturbed)
    assert problems_of(killed) == []
    assert contents_of(killed) == contents_of(undisturbed)


def total(model: CountingServer) -> int:
    """Return the number of requests so far, once no request is on its way."""
    before = None
    while (now := model.ledger.counts.total()) != before:
        before = now
        time.sleep(2 * model.delay_seconds)
    return now
