"""`images_gate`: people look at drawn images before models are paid for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loupe.annotate.pull import pull
from loupe.annotate.queues import shipped
from loupe.db.decisions import last_agents
from loupe.db.entities import LIVE, StoredEntity, find
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.ufine3c.pipeline import ufine3c_pipeline
from loupe.models.profiles.loader import load_profile
from loupe.release.row_files import read_release
from loupe.release.verify import verify_release
from loupe.schemas.build import SourceSpec, UFine3CBuild
from loupe.schemas.proposals import ImageQuestion, Strategy
from loupe.schemas.records import Caption, Granularity, Image, Rewrite
from tests.annotate.interfaces.regions import Regions, ticked
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.ccd_reviewers import answer, build_once, open_office
from tests.flows.ccd_world import DATASET, contrast_build
from tests.flows.drawn_stills import DrawnStills
from tests.flows.worlds import write_people

QUEUE = shipped().queue("people", "images")
Build = Callable[..., BuildReport]


def accept(_shown: StoredEntity) -> Regions:
    return [ticked("verdict", "accept")]


def reject(_shown: StoredEntity) -> Regions:
    return [ticked("verdict", "reject"), ticked("problems", "poor quality")]


@pytest.fixture
def office(run: RunContext) -> tuple[MemoryOffice, str]:
    office, (ann, _) = open_office(run)
    return office, ann


@pytest.fixture
def build(run: RunContext, office: tuple[MemoryOffice, str], tmp_path: Path) -> Build:
    """Three people with two images each, and no other gate that asks people."""
    annotations = write_people(
        tmp_path / "source", Granularity.FINE, identities=3, images=2, captions=2
    )
    spec = SourceSpec(
        name="source",
        format="cuhk-pedes",
        annotations=annotations,
        images=annotations.parent,
        licence="CC0-1.0",
    )

    def build(**values: Any) -> BuildReport:
        chosen = UFine3CBuild(dataset="people", sources=(spec,), **values)
        desks = lambda: office[0]  # noqa: E731 - a function without a name
        return run_pipeline(run, ufine3c_pipeline(), chosen, load_profile("builtin"), desks)

    return build


def count(run: RunContext, kind: str, *states: str) -> int:
    return len(list(find(run.store, "people", kind, states=states or LIVE)))


def answer_alone(run: RunContext, desks: MemoryOffice, rejected: int) -> None:
    """Let the annotators reject the first images, in the order of their draw."""
    asked = list(find(run.store, "people", ImageQuestion.kind, states=("proposed",)))
    unusable = {one.id for one in asked[:rejected]}
    for person in list(desks.desks):
        answer(run, desks, person, lambda one: (reject if one.id in unusable else accept)(one))


def test_what_derives_from_a_rejected_image_goes(
    run: RunContext, build: Build, office: tuple[MemoryOffice, str]
) -> None:
    assert build(images_gate="required").waiting_in == {"images": 6}
    assert not count(run, Rewrite.kind), "models are asked after people have looked"
    question = next(find(run.store, "people", ImageQuestion.kind)).record(ImageQuestion)
    assert (len(question.captions), len(question.others)) == (2, 1)

    answer_alone(run, office[0], rejected=1)
    report = build(images_gate="required")
    assert (count(run, Image.kind), count(run, Caption.kind)) == (5, 10)
    (rejected,) = find(run.store, "people", Image.kind, states=("rejected",))
    assert last_agents(run.store, [rejected.id])[rejected.id].kind == "person"
    groups = {one.group for one in find(run.store, "people", Rewrite.kind)}
    assert len(groups) == 5, "nothing was paid for the rejected image"
    assert rejected.id not in groups
    folder = run.settings.home / "releases" / "people-0.1.0"
    assert verify_release(folder).problems == []
    manifest = read_release(folder).manifest
    assert (report.release_id, manifest.statistics.images) == (manifest.id, 5)
    assert {one.gate: one.by_people for one in manifest.statistics.gates}["images"] == 6


def test_a_changed_answer_brings_an_image_back(
    run: RunContext, build: Build, office: tuple[MemoryOffice, str]
) -> None:
    build(images_gate="required")
    answer_alone(run, office[0], rejected=1)
    build(images_gate="required")
    for desk in office[0].desks.values():
        for task in [one for many in desk.tasks.values() for one in many.values()]:
            for annotation in task.annotations:
                desk.submit(task.id, [ticked("verdict", "accept")], annotation_id=annotation.id)
    pull(run.store, office[0], QUEUE)
    build(images_gate="required", version="0.2.0")
    assert (count(run, Image.kind), count(run, Caption.kind)) == (6, 12)
    assert len({one.group for one in find(run.store, "people", Rewrite.kind)}) == 6


def test_spot_checks_ask_about_a_share_and_are_off_unless_stated(
    run: RunContext, build: Build
) -> None:
    off = build()
    assert off.waiting == 0
    assert not count(run, ImageQuestion.kind)
    sampled = build(images_gate="sample:0.3", version="0.2.0")
    assert 0 < sampled.waiting_in["images"] < 6


def test_nothing_is_proposed_for_a_rejected_anchor(
    run: RunContext, drawn_stills: DrawnStills, office: tuple[MemoryOffice, str]
) -> None:
    build = contrast_build(drawn_stills(24), anchors=2, images_gate="required")
    assert build_once(run, build, office[0]).waiting_in == {"images": 2}
    assert not list(find(run.store, DATASET, Strategy.kind))
    asked = list(find(run.store, DATASET, ImageQuestion.kind))
    first = asked[0]
    for person in list(office[0].desks):
        answer(run, office[0], person, lambda one: (reject if one.id == first.id else accept)(one))
    assert build_once(run, build, office[0]).release_id
    assert {one.group for one in find(run.store, DATASET, Strategy.kind)} == {asked[1].group}
