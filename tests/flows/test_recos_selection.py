"""`build-recos` with review of the images of each task before captions are generated."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from loupe.db.decisions import last_agents
from loupe.db.entities import StoredEntity, children_of, find, parents_of
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.engine.context import RunContext
from loupe.flows.recos.run import images_of_tier
from loupe.release.format.row_files import read_release
from loupe.release.verify import verify_release
from loupe.schemas.build import RecosBuild, TaskSpec
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image
from loupe.schemas.recos import DiscriminabilitySettings, Selection
from loupe.schemas.taxonomy import RetrievalTask
from tests.annotate.answering import Regions
from tests.annotate.interfaces.regions import ticked
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.drawn_stills import DrawnStills
from tests.flows.recos_reviewers import answer, build_once, of_tier, proposed, sizes
from tests.flows.recos_world import DATASET, small_build, small_profile, stills_source
from tests.flows.runs import copied_run, new_run


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(60)


@pytest.fixture(scope="module")
def build(stills: StillsWorld, tmp_path_factory: pytest.TempPathFactory) -> RecosBuild:
    """Four images of each of two reviewed tasks, and two rendered images."""
    folder = tmp_path_factory.mktemp("build")
    values = {"selection_gate": "required", "further_rounds": 0}
    base = small_build(stills, folder, last="v0", **values)
    shown = [
        TaskSpec(task=RetrievalTask.COLOR, images=4, source="stills", query="a red thing"),
        TaskSpec(task=RetrievalTask.OBJECT, images=4, source="stills"),
    ]
    return base.model_copy(update={"tasks": (*shown, base.tasks[-1])})


@pytest.fixture(scope="module")
def waiting_build(
    build: RecosBuild, migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunContext, MemoryOffice]]:
    """A build that waits for answers on its images, read-only."""
    office = MemoryOffice()
    with new_run(migrated_sqlite, tmp_path_factory.mktemp("waiting_build")) as run:
        assert build_once(run, build, office).waiting == 8, "rendered images are not reviewed"
        yield run, office


@pytest.fixture
def waiting_run(
    waiting_build: tuple[RunContext, MemoryOffice], tmp_path: Path
) -> Iterator[RunContext]:
    """A copy of the waiting build that tests may change."""
    with copied_run(waiting_build[0], tmp_path / "home") as run:
        yield run


@pytest.fixture
def office(waiting_build: tuple[RunContext, MemoryOffice]) -> MemoryOffice:
    return deepcopy(waiting_build[1])


def fits(_shown: StoredEntity) -> Regions:
    return [ticked("verdict", "accept")]


def does_not_fit(_shown: StoredEntity) -> Regions:
    return [ticked("verdict", "reject"), ticked("problems", "does not fit the task")]


def image_of(run: RunContext, question: StoredEntity) -> str:
    return parents_of(run.store, [question.id], Role.SELECTS)[question.id][0]


def test_captions_are_generated_only_for_accepted_images(
    waiting_run: RunContext, build: RecosBuild, office: MemoryOffice
) -> None:
    run = waiting_run
    asked = proposed(run, Selection.kind)
    assert len(asked) == 8
    assert not list(find(run.store, DATASET, Caption.kind))
    reasons = {one.record(Selection).task: one.record(Selection).proposed_by for one in asked}
    assert reasons == {
        RetrievalTask.COLOR: "among those nearest to “a red thing”",
        RetrievalTask.OBJECT: "drawn at random",
    }
    refused = {asked[0].id, asked[1].id, asked[5].id}
    answer(run, office, lambda one: does_not_fit(one) if one.id in refused else fits(one))

    second = build_once(run, build, office)
    replacements = proposed(run, Selection.kind)
    assert second.waiting == len(replacements) == 3, "the next best images are proposed"
    assert not list(find(run.store, DATASET, Caption.kind))
    assert build_once(run, build, office).waiting == 3
    answer(run, office, fits)
    last = build_once(run, build, office)
    assert last.waiting == 0

    accepted = of_tier(run, "v0", "accepted")
    assert len(accepted) == 8
    rejected = of_tier(run, "v0", "rejected")
    assert {one.id for one in rejected} == {
        image_of(run, one) for one in asked if one.id in refused
    }
    described = children_of(run.store, [one.id for one in (*accepted, *rejected)], Role.DESCRIBES)
    assert described.keys() == {one.id for one in accepted}
    decided = last_agents(run.store, [one.id for one in (*accepted, *rejected)])
    assert {agent.kind for agent in decided.values()} == {"person"}
    pictures = [one.record(Image).sha256 for one in images_of_tier(run.store, DATASET, "v0")]
    assert len(set(pictures)) == len(pictures) == 8 + 3 + 2

    folder = run.settings.home / "releases" / f"{DATASET}-0.1.0"
    assert verify_release(folder).problems == []
    released = read_release(folder)
    assert last.release_id == released.manifest.id
    before = sizes(run)
    assert build_once(run, build, office).release_id == last.release_id
    assert sizes(run) == before


def test_an_exhausted_source_yields_fewer_images(
    run: RunContext, build: RecosBuild, stills: StillsWorld, tmp_path: Path
) -> None:
    office = MemoryOffice()
    names = tmp_path / "names.txt"
    files = sorted(path.name for path in stills.image_root.rglob("*.jpg"))[:9]
    names.write_text("\n".join(files), encoding="utf-8")
    task = TaskSpec(task=RetrievalTask.OBJECT, images=8, source="stills", names=names)
    only = build.model_copy(update={"tasks": (task,), "sources": (stills_source(stills),)})
    profile = small_profile(DiscriminabilitySettings(k=5, eta=0.3, rounds=0))

    def refuse_first() -> None:
        first = proposed(run, Selection.kind)[0]
        answer(run, office, lambda one: (does_not_fit if one.id == first.id else fits)(one))

    assert build_once(run, only, office, profile).waiting == 8
    refuse_first()
    assert build_once(run, only, office, profile).waiting == 1
    refuse_first()
    assert build_once(run, only, office, profile).waiting == 0
    assert len(of_tier(run, "v0", "accepted")) == 7
    assert len(of_tier(run, "v0", "rejected")) == 2
