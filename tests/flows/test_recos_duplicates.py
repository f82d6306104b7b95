"""Review of possible duplicates among the images of v2; duplicates are removed."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from loupe.annotate.pull import pull
from loupe.annotate.queues import shipped
from loupe.db.decisions import last_agents
from loupe.db.entities import StoredEntity, fetch, find, parents_of
from loupe.flows.engine.context import RunContext
from loupe.release.format.row_files import read_release
from loupe.release.verify import verify_release
from loupe.schemas.build import RecosBuild
from loupe.schemas.profile import Profile
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image
from loupe.schemas.recos import DuplicateQuestion
from tests.annotate.answering import Regions
from tests.annotate.interfaces.regions import ticked
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.recos_reviewers import (
    DoubtedTasks,
    answer,
    build_once,
    change_answer,
    of_tier,
    sizes,
)
from tests.flows.recos_world import DATASET, DOUBTING, doubting_profile
from tests.flows.runs import copied_run

pytestmark = pytest.mark.xdist_group("recos_people")  # the shared build is made once


@pytest.fixture
def profile() -> Profile:
    return doubting_profile()


@pytest.fixture
def build(doubted_tasks: DoubtedTasks) -> RecosBuild:
    return doubted_tasks.build


@pytest.fixture
def run(doubted_tasks: DoubtedTasks, tmp_path: Path) -> Iterator[RunContext]:
    """A copy of the waiting build that tests may change."""
    with copied_run(doubted_tasks.run, tmp_path / "home") as copied:
        yield copied


@pytest.fixture
def office(doubted_tasks: DoubtedTasks) -> MemoryOffice:
    return deepcopy(doubted_tasks.office)


def different(_shown: StoredEntity) -> Regions:
    return [ticked("verdict", "accept")]


def the_same(_shown: StoredEntity) -> Regions:
    return [ticked("verdict", "reject")]


def questions(run: RunContext) -> list[StoredEntity]:
    return list(find(run.store, DATASET, DuplicateQuestion.kind))


def released(run: RunContext, version: str) -> int:
    """The number of images in a release."""
    folder = run.settings.home / "releases" / f"{DATASET}-{version}"
    assert verify_release(folder).problems == []
    return len(read_release(folder).rows)


def test_images_that_reviewers_call_duplicates_are_removed_before_the_release(
    doubted_tasks: DoubtedTasks,
    run: RunContext,
    build: RecosBuild,
    office: MemoryOffice,
    profile: Profile,
) -> None:
    report = doubted_tasks.report
    asked = questions(run)
    assert report.waiting == len(asked) > 1
    assert report.release is not None
    assert report.release.name.endswith("-1.1.0"), "v2 waits"
    before = of_tier(run, "v2")
    assert_each_pair_has_a_new_image(run, asked)
    settled = sizes(run)
    assert build_once(run, build, office, profile).waiting == len(asked)
    assert sizes(run) == settled, "no question is created twice"

    twice = asked[0]
    leaving = twice.record(DuplicateQuestion).second.image_id
    answer(run, office, lambda one: the_same(one) if one.id == twice.id else different(one))
    report = build_once(run, build, office, profile)
    assert report.waiting == 0
    assert {one.id for one in before} - {one.id for one in of_tier(run, "v2")} == {leaving}
    assert leaving is not None
    assert last_agents(run.store, [leaving])[leaving].kind == "person"
    assert released(run, "2.1.0") == released(run, "1.1.0") + len(before) - 1
    settled = sizes(run)
    assert build_once(run, build, office, profile).release_id == report.release_id
    assert sizes(run) == settled

    change_answer(run, office, twice, different(twice))
    pull(run.store, office, shipped().queue(DATASET, "duplicates"))
    build_once(run, build.model_copy(update={"revision": "1.1"}), office, profile)
    assert of_tier(run, "v2") == before, "a changed answer restores the image"
    assert released(run, "2.1.1") == released(run, "2.1.0") + 1


def assert_each_pair_has_a_new_image(run: RunContext, asked: list[StoredEntity]) -> None:
    compared = parents_of(run.store, [one.id for one in asked], Role.COMPARES)
    images = fetch(run.store, {one for found in compared.values() for one in found})
    for one in asked:
        record = one.record(DuplicateQuestion)
        ids = [record.first.image_id, record.second.image_id]
        assert sorted(compared[one.id]) == sorted(id_ for id_ in ids if id_)
        first, second = (images[id_ or ""].record(Image) for id_ in ids)
        assert second.tier == "v2", "the image that would be removed has no captions"
        assert (record.first.sha256, record.second.sha256) == (first.sha256, second.sha256)
        assert record.similarity is not None
        assert record.similarity >= 1 - DOUBTING.embedding_distance
