"""A killed CCD build continues with the same images, captions and costs."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from release.verify import verify_release
from sources.demonstration.stills import write_stills_world
from tests.flows.ccd_world import (
    DATASET,
    contrast_build,
    counted_model,
    searched_folder,
    write_contrast_profile,
)
from tests.flows.homes import bytes_of, contents_of, problems_of
from tests.flows.killing import KillableBuild, calls_in, kill_at
from tests.flows.recos_world import write_build
from tests.servers.contrasting import remembered, sometimes_cut, spoiled
from tests.servers.counting_server import CountingServer, counting_server

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("kill")]

KILLS = 5
MAX_IN_FLIGHT = 4
DELAY_SECONDS = 0.1
RELEASE = Path("releases") / f"{DATASET}-0.1.0"


@pytest.fixture
def model() -> Iterator[CountingServer]:
    """A counting model that sometimes needs a second request; it survives the kills."""
    with counting_server(DELAY_SECONDS, remembered(spoiled(sometimes_cut))) as server:
        yield server


@pytest.fixture
def build(tmp_path: Path, model: CountingServer) -> KillableBuild:
    """A build of four anchors, whose contrastive images are found in a folder or edited."""
    stills = write_stills_world(tmp_path / "stills", seed=11, count=40)
    folder = searched_folder(stills, tmp_path / "pictures")
    wanted = contrast_build(stills, anchors=4, methods=("search", "edit"), search_folder=folder)
    counted = counted_model(model.base_url, max_in_flight=MAX_IN_FLIGHT).model_dump(
        include={"provider", "name", "revision", "base_url", "max_in_flight", "max_retries"}
    )
    profile = write_contrast_profile(
        tmp_path / "profile.toml",
        {"strategist": counted, "refiner": counted, "choice": {"doubtful_misfit": 0.3}},
    )
    return KillableBuild("build-ccd", write_build(wanted, tmp_path / "build.toml"), profile)


@pytest.mark.timeout(900)
def test_kills_change_neither_the_groups_nor_the_cost(
    tmp_path: Path, build: KillableBuild, model: CountingServer
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed of the kills: {seed}")  # noqa: T201 - shown with a failure, to repeat it
    chance = random.Random(seed)
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    stages = build.finish(undisturbed)
    wanted = Counter(model.ledger.counts)
    assert set(wanted.values()) == {1}
    assert len(wanted) == calls_in(undisturbed)
    model.ledger.reset()

    lost: list[int] = []
    for share in sorted(chance.random() for _ in range(KILLS)):
        run = build.start(killed)
        kill_at(run, model, share, len(wanted), stages, chance)
        lost.append(model.ledger.counts.total() - sum(lost) - calls_in(killed))
        print(f"killed at {share:.2f}, {lost[-1]} requests lost")  # noqa: T201
    build.finish(killed)

    seen = model.ledger.counts
    assert seen.keys() == wanted.keys()
    assert 0 <= max(lost) <= MAX_IN_FLIGHT
    assert seen.total() == len(wanted) + sum(lost), "each answer that arrived was paid for once"
    assert verify_release(killed / RELEASE) == []
    assert bytes_of(killed / RELEASE) == bytes_of(undisturbed / RELEASE)
    assert problems_of(killed) == []
    assert contents_of(killed) == contents_of(undisturbed)
