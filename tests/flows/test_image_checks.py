"""`images_gate`: people look at drawn images before models are paid for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loupe.annotate.instructions import instructions_of, instructions_version
from loupe.annotate.pull import pull
from loupe.annotate.queues import shipped
from loupe.db.annotations import given_answers
from loupe.db.decisions import last_agents
from loupe.db.entities import LIVE, StoredEntity, find
from loupe.db.withdrawal_graph import WithdrawalTarget
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.ufine3c.pipeline import ufine3c_pipeline
from loupe.flows.withdrawal.execution import carry_out
from loupe.flows.withdrawal.plan import confirm, plan_withdrawal, request_of
from loupe.models.profiles.loader import load_profile
from loupe.release.format.row_files import read_release
from loupe.release.verify import verify_release
from loupe.schemas.build import SourceSpec, UFine3CBuild
from loupe.schemas.proposals import ImageQuestion, Strategy
from loupe.schemas.records import Caption, Granularity, Image, Rewrite
from tests.annotate.interfaces.regions import Regions, ticked
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.ccd_reviewers import (
    answer_all,
    build_once,
    change_answer,
    except_for,
    open_office,
)
from tests.flows.ccd_world import contrast_build, entities
from tests.flows.drawn_stills import DrawnStills
from tests.flows.withdrawals import OPERATOR
from tests.flows.worlds import write_people

QUEUE = shipped().queue("people", "images")
Build = Callable[..., BuildReport]


def accept(_shown: StoredEntity) -> Regions:
    return [ticked("verdict", "accept")]


def reject(_shown: StoredEntity) -> Regions:
    return [ticked("verdict", "reject"), ticked("problems", "poor quality")]


@pytest.fixture
def office(run: RunContext) -> MemoryOffice:
    return open_office(run)[0]


@pytest.fixture
def build(run: RunContext, office: MemoryOffice, tmp_path: Path) -> Build:
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
        profile = load_profile("builtin")
        return run_pipeline(run, ufine3c_pipeline(), chosen, profile, lambda: office)

    return build


def count(run: RunContext, kind: str, *states: str) -> int:
    return len(list(find(run.store, "people", kind, states=states or LIVE)))


def reject_first(run: RunContext, office: MemoryOffice) -> None:
    """Let the annotators reject the first image and accept the others."""
    first = next(find(run.store, "people", ImageQuestion.kind))
    answer_all(run, office, tuple(office.desks), except_for(accept, {first.id: reject}))


def test_what_derives_from_a_rejected_image_goes(
    run: RunContext, build: Build, office: MemoryOffice
) -> None:
    assert build(images_gate="required").waiting_in == {"images": 6}
    assert not count(run, Rewrite.kind), "models are asked after people have looked"
    question = next(find(run.store, "people", ImageQuestion.kind)).record(ImageQuestion)
    assert (len(question.captions), len(question.others)) == (2, 1)

    reject_first(run, office)
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
    (gate,) = (one for one in manifest.statistics.gates if one.gate == "images")
    people = {one.person for one in given_answers(run.store, "people-images")}
    assert (gate.by_people, gate.people) == (6, len(people))
    ((digest, answers),) = gate.instructions
    queue = shipped().queue("people", "images")
    assert digest == instructions_version(instructions_of(queue, "review", ()))
    assert answers == sum(1 for _ in given_answers(run.store, "people-images"))


def test_a_changed_answer_brings_an_image_back(
    run: RunContext, build: Build, office: MemoryOffice
) -> None:
    build(images_gate="required")
    reject_first(run, office)
    build(images_gate="required")
    for desk in office.desks.values():
        for task in [one for many in desk.tasks.values() for one in many.values()]:
            for annotation in task.annotations:
                desk.submit(task.id, [ticked("verdict", "accept")], annotation_id=annotation.id)
    pull(run.store, office, QUEUE)
    build(images_gate="required", version="0.2.0")
    assert (count(run, Image.kind), count(run, Caption.kind)) == (6, 12)
    assert len({one.group for one in find(run.store, "people", Rewrite.kind)}) == 6


def test_a_question_withdrawn_with_what_it_showed_is_asked_again(
    run: RunContext, build: Build, office: MemoryOffice
) -> None:
    build(images_gate="required")
    first, *_ = find(run.store, "people", Caption.kind)
    target = WithdrawalTarget(sort="entity", name=first.id)
    plan = plan_withdrawal(run.store, request_of(target, "privacy", None))
    withdrawal = confirm(run.store, plan, "somebody asked for it", OPERATOR)
    carry_out(run, withdrawal, desks=office)
    assert count(run, ImageQuestion.kind) == 5
    assert build(images_gate="required").waiting_in == {"images": 6}
    asked = list(find(run.store, "people", ImageQuestion.kind, states=("proposed",)))
    assert sorted(len(one.record(ImageQuestion).captions) for one in asked) == [1, 2, 2, 2, 2, 2]


def test_spot_checks_ask_about_a_share_and_are_off_unless_stated(
    run: RunContext, build: Build
) -> None:
    off = build()
    assert off.waiting == 0
    assert not count(run, ImageQuestion.kind)
    sampled = build(images_gate="sample:0.3", version="0.2.0")
    assert 0 < sampled.waiting_in["images"] < 6


def test_strategies_of_a_rejected_anchor_wait_for_nobody(
    run: RunContext, drawn_stills: DrawnStills, office: MemoryOffice
) -> None:
    asking = {"images_gate": "required", "strategies_gate": "required"}
    build = contrast_build(drawn_stills(24), anchors=2, **asking)
    assert build_once(run, build, office).waiting_in == {"images": 2}
    assert not entities(run, Strategy.kind)
    first, second = entities(run, ImageQuestion.kind)
    answer_all(run, office, tuple(office.desks), accept)
    build_once(run, build, office)
    proposed = {one.group for one in entities(run, Strategy.kind, "proposed")}
    assert proposed == {first.group, second.group}
    change_answer(run, office, first, reject, "images")
    build_once(run, build, office)
    assert {one.group for one in entities(run, Strategy.kind, "proposed")} == {second.group}
