"""A killed ReCoS build continues with the same captions, versions and costs."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from release.verify import verify_release
from sources.demonstration.stills import write_stills_world
from tests.flows.homes import bytes_of, contents_of, problems_of
from tests.flows.killing import KillableBuild, calls_in, kill_at
from tests.flows.recos_world import DATASET, small_build, write_build, write_profile
from tests.servers.captioning import caption_completion
from tests.servers.counting_server import CountingServer, counting_server

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("kill")]

KILLS = 5
MAX_IN_FLIGHT = 4
DELAY_SECONDS = 0.02
RELEASES = [Path("releases") / f"{DATASET}-{major}.1.0" for major in range(3)]


@pytest.fixture
def captioner() -> Iterator[CountingServer]:
    """A counting model; it survives the kills."""
    with counting_server(DELAY_SECONDS, caption_completion) as server:
        yield server


@pytest.fixture
def build(tmp_path: Path, captioner: CountingServer) -> KillableBuild:
    """A build with images of three tasks, captioned by the counting model."""
    stills = write_stills_world(tmp_path / "stills", seed=11, count=60)
    config = write_build(small_build(stills, tmp_path), tmp_path / "build.toml")
    counted = {
        "provider": "openai",
        "name": "counting",
        "revision": "1",
        "base_url": captioner.base_url,
        "max_in_flight": MAX_IN_FLIGHT,
    }
    profile = write_profile(tmp_path / "profile.toml", {"model": counted})
    return KillableBuild("build-recos", config, profile)


@pytest.mark.timeout(900)
def test_kills_change_neither_the_versions_nor_the_cost(
    tmp_path: Path, build: KillableBuild, captioner: CountingServer
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed of the kills: {seed}")  # noqa: T201 - shown with a failure, to repeat it
    chance = random.Random(seed)
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    stages = build.finish(undisturbed)
    wanted = Counter(captioner.ledger.counts)
    assert set(wanted.values()) == {1}
    assert len(wanted) == calls_in(undisturbed)
    captioner.ledger.reset()

    lost: list[int] = []
    for share in sorted(chance.random() for _ in range(KILLS)):
        run = build.start(killed)
        kill_at(run, captioner, share, len(wanted), stages, chance)
        lost.append(captioner.ledger.counts.total() - sum(lost) - calls_in(killed))
        print(f"killed at {share:.2f}, {lost[-1]} requests lost")  # noqa: T201
    build.finish(killed)

    seen = captioner.ledger.counts
    assert seen.keys() == wanted.keys()
    assert 0 <= max(lost) <= MAX_IN_FLIGHT
    assert seen.total() == len(wanted) + sum(lost), "each answer that arrived was paid for once"
    for release in RELEASES:
        assert bytes_of(killed / release) == bytes_of(undisturbed / release)
        assert verify_release(killed / release) == []
    assert problems_of(killed) == []
    assert contents_of(killed) == contents_of(undisturbed)
