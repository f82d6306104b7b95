"""`build-recos` as a user runs it: real Prefect, a real desk, and somebody who works there."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from db.entities import StoredEntity, fetch, find, parents_of
from db.evaluations import evaluations_of
from db.store import Store
from flows.recos.pipeline import recos_pipeline
from flows.recos.task_images import images_of_tier
from release.reading import read_release
from schemas.provenance import Role
from schemas.quality import Confusion
from schemas.records import Caption, Image
from sources.demonstration.stills import write_stills_world
from tests.flows.prefect_runs import Prefect
from tests.flows.recos_world import DATASET, small_build, write_build, write_profile
from tests.flows.scripted_annotators import chosen, hire, written
from tests.flows.worlds import loupe
from tests.services.fixtures import LabelStudioServer

pytestmark = [pytest.mark.prefect, pytest.mark.label_studio, pytest.mark.slow]

NAME = "Cleo Tasks"
EDITED = "What a reviewer made of it, in words of their own."
Regions = list[dict[str, Any]]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A small build with people at both gates, and its profile."""
    stills = write_stills_world(tmp_path / "stills", seed=11, count=80)
    gates = {"captions_gate": "required", "confusions_gate": "required"}
    build = small_build(stills, tmp_path, **gates)
    config = write_build(build, tmp_path / "build.toml")
    return config, write_profile(tmp_path / "profile.toml")


@pytest.mark.timeout(1500)
def test_three_versions_are_built_with_people_and_scored_by_task(
    installation: Prefect, label_studio: LabelStudioServer, files: tuple[Path, Path]
) -> None:
    store, home = installation.store, installation.settings.home
    let_work_alone(home, NAME)
    (person,) = hire(store, installation.settings, label_studio, NAME)

    first = installation.run_here(recos_pipeline(), *files)
    captions = list(find(store, DATASET, Caption.kind, states=("proposed",)))
    assert first.startswith(f"{len(captions)} items of {DATASET} wait for people")
    edited = captions[0].record(Caption).text
    answered = person.answer_all(f"{DATASET}-captions", lambda _, data: on_caption(data, edited))
    assert answered == len(captions) == 50

    second = installation.run_here(recos_pipeline(), *files)
    questions = list(find(store, DATASET, Confusion.kind, states=("proposed",)))
    assert second.startswith(f"{len(questions)} items of {DATASET} wait for people")
    unlucky = images_of_tier(store, DATASET, "v1")[0]
    sha256 = unlucky.record(Image).sha256
    queue = f"{DATASET}-confusions"
    assert person.answer_all(queue, lambda _, data: on_question(data, sha256)) == len(questions)

    third = installation.run_here(recos_pipeline(), *files)
    again = list(find(store, DATASET, Confusion.kind, states=("proposed",)))
    assert third.startswith(f"{len(again)} items of {DATASET} wait for people")
    assert person.answer_all(queue, lambda _, data: on_question(data, sha256)) == len(again) > 0

    config, profile = files
    last = installation.run("build-recos/default", config=config, profile=profile)
    assert last.state == "COMPLETED", last.message
    assert str(home / "releases") in last.message
    releases = {tier: home / "releases" / f"{DATASET}-{tier[1]}.1.0" for tier in ("v0", "v1", "v2")}
    for folder in releases.values():
        verified = loupe(home, "release", "verify", folder, "--json")
        assert verified.wait() == 0, verified.output
        assert not read_release(folder).manifest.unreviewed
    assert_they_hold_what_was_said(store, releases, edited, unlucky)
    assert_tasks_are_scored(installation, store, releases["v1"])
    store.close()


def let_work_alone(home: Path, name: str) -> None:
    """In the queues of the benchmark only."""
    tables = [
        f'[queues.{DATASET}-{step}]\nannotators = ["{name}"]\n'
        for step in ("captions", "confusions")
    ]
    (home / "queues.toml").write_text("\n".join(tables), encoding="utf-8")


def on_caption(data: dict[str, Any], edited: str) -> Regions:
    """Accepts everything but one caption, which is corrected; each page names its task."""
    assert data["heading"].startswith("Caption for the task ")
    if data["text"] == edited:
        return [written("text", "caption", EDITED), chosen("verdict", "caption", "edit")]
    return [written("text", "caption", data["text"]), chosen("verdict", "caption", "accept")]


def on_question(data: dict[str, Any], sha256: str) -> Regions:
    """Captions fit their own image only, but for those that could be confused with one image."""
    return [chosen("fit", "caption", "both" if data["other"].endswith(sha256) else "own")]


def assert_they_hold_what_was_said(
    store: Store, releases: dict[str, Path], edited: str, unlucky: StoredEntity
) -> None:
    """The edit is in every version, and what was dropped in none as a confused one."""
    rows = {
        tier: json.loads((folder / f"{DATASET}.json").read_text())
        for tier, folder in releases.items()
    }
    for found in rows.values():
        texts = Counter(text for row in found for text in row["captions"])
        assert (texts[EDITED], texts[edited]) == (1, 0)
    assert {row["tier"] for row in rows["v1"]} == {"v0", "v1"}
    assert any(row["tier"] == "v2" for row in rows["v2"])
    (new,) = (
        one.id
        for one in find(store, DATASET, Caption.kind, states=("accepted",))
        if one.record(Caption).text == EDITED
    )
    accepted = [one.id for one in find(store, DATASET, Caption.kind, states=("accepted",))]
    assert [new] in parents_of(store, accepted, Role.CONFUSES).values()
    described = parents_of(store, accepted, Role.DESCRIBES)
    assert unlucky.id not in {found[0] for found in described.values()}
    assert fetch(store, [unlucky.id])[unlucky.id].state == "rejected"


def assert_tasks_are_scored(installation: Prefect, store: Store, folder: Path) -> None:
    """`evaluate/default` scores every task, in both directions, and writes the leaderboard."""
    run = installation.run("evaluate/default", release=folder, profile="builtin")
    assert run.state == "COMPLETED", run.message
    read = read_release(folder)
    (stored,) = evaluations_of(store, read.manifest.id)
    scored = {
        (one.group, one.direction)
        for one in stored.result.groups
        if one.dimension == "task" and "R@1" in one.scores
    }
    score = stored.result.directions[0].scores["R@1"].value
    assert f" {score:.1f} %" in run.message
    assert Path(run.message.rpartition("the leaderboard is ")[2]).is_file()
    assert f" | {score:.2f}" in installation.artifacts()[f"{DATASET}-leaderboard"]
    tasks = {row.task.value for row in read.rows if row.task}
    assert len(tasks) == 3
    assert scored == {
        (task, direction) for task in tasks for direction in ("image-to-text", "text-to-image")
    }
