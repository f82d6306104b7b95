"""`build-ccd` as a user runs it: real Prefect, a real desk, two people and one who settles."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from db.annotators import set_annotator_state
from db.entities import LIVE, StoredEntity, fetch, find, parents_of
from db.reviews import tasks_by_key
from db.store import Store
from flows.ccd.pipeline import ccd_pipeline
from release.reading import read_release
from schemas.proposals import Candidate, CaptionGroup, Strategy
from schemas.provenance import Role
from schemas.records import Image
from sources.demonstration.stills import write_stills_world
from tests.annotate.answering import Regions, about
from tests.flows.ccd_reviewers import GATES, Opinion, but, mended_group, right, wrong
from tests.flows.ccd_world import DATASET, contrast_build
from tests.flows.prefect_runs import Prefect
from tests.flows.recos_world import write_build
from tests.flows.scripted_annotators import ScriptedAnnotator, hire
from tests.flows.worlds import loupe
from tests.services.fixtures import LabelStudioServer

pytestmark = [pytest.mark.prefect, pytest.mark.label_studio, pytest.mark.slow]

EDITED = "What a reviewer made of it, in words of their own."
STEPS = ("strategies", "candidates", "groups")
TARGETS = {Strategy.kind: "caption", Candidate.kind: "wanted", CaptionGroup.kind: "pictures"}
"""What answers are about, on the page of each kind."""


class Staff(NamedTuple):
    """Who works at the benchmark, and where."""

    installation: Prefect
    store: Store
    annotators: list[ScriptedAnnotator]
    adjudicator: ScriptedAnnotator

    def waiting(self, kind: str, config: Path) -> list[StoredEntity]:
        """The items that wait for people after another run, as it reports them."""
        said = self.installation.run_here(ccd_pipeline(), config, "builtin")
        found = list(find(self.store, DATASET, kind, states=("proposed",)))
        assert f"{len(found)} in {dict(zip(TARGETS, STEPS, strict=True))[kind]}" in said
        return found

    def answer(self, person: ScriptedAnnotator, step: str, says: Opinion) -> int:
        """Somebody answers what waits for them; gives how many that were."""

        def regions(_name: str, data: dict[str, Any]) -> Regions:
            (task,) = tasks_by_key(self.store, [data["key"]]).values()
            shown = fetch(self.store, [task.entity_id])[task.entity_id]
            return about(TARGETS[shown.kind], says(shown))

        return person.answer_all(f"{DATASET}-{step}", regions)


@pytest.fixture
def staff(installation: Prefect, label_studio: LabelStudioServer) -> Iterator[Staff]:
    """Two people and one who settles, who leave in the end: other tests have their own."""
    store, settings = installation.store, installation.settings
    names = ("Ines Contrasts", "Jon Contrasts", "Kim Contrasts")
    annotators = hire(store, settings, label_studio, *names[:2])
    (adjudicator,) = hire(store, settings, label_studio, names[2], role="adjudicator")
    queues = settings.home / "queues.toml"
    text = f"annotators = {json.dumps(names[:2])}\nadjudicators = {json.dumps(names[2:])}\n"
    queues.write_text("".join(f"[queues.{DATASET}-{step}]\n{text}" for step in STEPS))
    yield Staff(installation, store, annotators, adjudicator)
    queues.unlink()
    for name in names:
        set_annotator_state(store, name, "left")
    store.close()


@pytest.mark.timeout(1500)
def test_contrasts_are_built_with_two_people_and_one_who_settles(
    staff: Staff, tmp_path: Path
) -> None:
    stills = write_stills_world(tmp_path / "stills", seed=11, count=40)
    build = contrast_build(stills, anchors=3, **GATES)
    config = write_build(build, tmp_path / "build.toml")

    strategies = staff.waiting(Strategy.kind, config)
    refused, disputed, saved = strategies[:3]
    first = but(right, {refused.id: wrong, disputed.id: wrong, saved.id: wrong})
    second = but(right, {refused.id: wrong})
    for person, says in zip(staff.annotators, (first, second), strict=True):
        assert staff.answer(person, "strategies", says) == len(strategies)

    assert len(staff.waiting(Strategy.kind, config)) == 2
    settled = but(right, {disputed.id: wrong})
    assert staff.answer(staff.adjudicator, "strategies", settled) == 2

    candidates = staff.waiting(Candidate.kind, config)
    made_for = parents_of(staff.store, [one.id for one in candidates], Role.MADE_FOR)
    served = {found[0] for found in made_for.values()}
    assert not {refused.id, disputed.id} & served
    out = candidates[-1]
    says = but(right, {out.id: wrong})
    given = [staff.answer(person, "candidates", says) for person in staff.annotators]
    assert sum(given) == len(candidates)
    assert min(given) > 0, "the work is shared"

    groups = staff.waiting(CaptionGroup.kind, config)
    says = but(right, {groups[0].id: mended_group({(1, 0): EDITED})})
    assert sum(staff.answer(one, "groups", says) for one in staff.annotators) == len(groups)

    last = staff.installation.run("build-ccd/default", config=config, profile="builtin")
    assert last.state == "COMPLETED", last.message
    folder = staff.installation.settings.home / "releases" / f"{DATASET}-{build.version}"
    assert str(folder.parent) in last.message
    verified = loupe(staff.installation.settings.home, "release", "verify", folder, "--json")
    assert verified.wait() == 0, verified.output
    assert_it_holds_what_was_said(staff, folder, groups, out)


def assert_it_holds_what_was_said(
    staff: Staff, folder: Path, groups: list[StoredEntity], out: StoredEntity
) -> None:
    """The edit is in the release, what was turned down is not; pseudonyms stand for people."""
    assert not read_release(folder).manifest.unreviewed
    rows = json.loads((folder / f"{DATASET}.json").read_text())
    assert [row["captions"][1] for row in rows].count(EDITED) == 1
    assert sum(len(one.record(CaptionGroup).members) for one in groups) == len(rows)
    contrasts = [row["contrast"] for row in rows if row["contrast"]]
    assert {one["way"] for one in contrasts} == {"edit"}
    images = find(staff.store, DATASET, Image.kind, states=LIVE)
    assert out.record(Candidate).image.sha256 not in {
        image.record(Image).sha256 for image in images
    }
    edited = find(staff.store, DATASET, CaptionGroup.kind, states=("accepted",))
    authors = {
        one.record(CaptionGroup).author
        for one in edited
        if parents_of(staff.store, [one.id], Role.EDITED_FROM)
    }
    assert len(authors) == 1
    assert authors <= {one.pseudonym for one in staff.annotators}
    text = "".join(path.read_text() for path in (folder / "README.md", folder / "manifest.json"))
    assert not any(one.name in text for one in (*staff.annotators, staff.adjudicator))
