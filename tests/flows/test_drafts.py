"""Drafts: one of the two annotators who describe an image starts from a draft."""

from collections.abc import Callable

import pytest

from loupe.annotate.backend import OPENED_WITH, NewTask
from loupe.annotate.interfaces.text_pages import DRAFT, LEAST_WORDS, count_words
from loupe.db.entities import StoredEntity, fetch, find, parents_of
from loupe.demo.worlds.street import StreetWorld
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.ufine6926.pipeline import ufine6926_pipeline
from loupe.models.profiles.loader import load_profile
from loupe.release.verify import verify_release
from loupe.schemas.build import UFine6926Build, VideoSourceSpec
from loupe.schemas.profile import BuiltinDescriber, DescribeSettings, Profile
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image
from loupe.schemas.tracking import FilterSettings, TrackingSettings
from tests.annotate.interfaces.regions import ticked, written
from tests.annotate.memory_desk import MemoryOffice
from tests.annotate.office import hire
from tests.flows.street import KnownStreet

DATASET = "walkers"
MODEL = "loupe-colour-describer@1"
LENIENT = FilterSettings(
    least_height_px=24,
    least_width_px=8,
    least_sharpness=0,
    darkest=5,
    brightest=250,
    most_images=3,
    pose_model=None,
)
OWN_WORDS = " ".join(["A person in a coat walks by, seen by somebody who writes"] * 2)
RunBuild = Callable[..., BuildReport]


@pytest.fixture
def office(run: RunContext) -> MemoryOffice:
    office = MemoryOffice()
    for name in ("ada", "bob"):
        hire(run.store, office, name)
    return office


@pytest.fixture
def run_build(
    run: RunContext, office: MemoryOffice, street: StreetWorld, known_street: KnownStreet
) -> RunBuild:
    spec = VideoSourceSpec(
        name="street", videos=tuple(map(str, street.videos)), licence="CC0-1.0", citation="none"
    )

    def build(
        *, drafts: bool = True, gate: str = "required", version: str = "0.1.0"
    ) -> BuildReport:
        chosen = UFine6926Build(
            dataset=DATASET,
            version=version,
            test_share=0.5,
            descriptions_gate=gate,
            drafts=drafts,
            sources=(spec,),
        )
        return run_pipeline(
            run,
            ufine6926_pipeline(make_detector=known_street.detector),
            chosen,
            profile(),
            lambda: office,
        )

    return build


def profile() -> Profile:
    tracking = TrackingSettings(checkpoint_frames=50, observations=4)
    long = BuiltinDescriber(style="flowing")  # drafts long enough to be kept unchanged
    describe = DescribeSettings(models=(long, BuiltinDescriber(name="loupe-plain-describer")))
    update = {"tracking": tracking, "filter": LENIENT, "describe": describe}
    return load_profile("builtin").model_copy(update=update)


def sent(office: MemoryOffice) -> list[tuple[str, NewTask]]:
    return [(name, task) for name, desk in office.desks.items() for task in desk.sent]


def draft_in(task: NewTask) -> str | None:
    """Return the draft that the page of a task opens with, or None."""
    return task.data[DRAFT] or None


def write(office: MemoryOffice, change: Callable[[str, str | None], str]) -> int:
    """Describe all open tasks of all annotators; return how many opened with a draft."""
    with_draft = 0
    for name, desk in office.desks.items():
        drafts = {task.key: draft_in(task) for task in desk.sent}
        for task in desk.open_tasks():
            text = change(name, drafts[task.key])
            with_draft += drafts[task.key] is not None
            desk.submit(task.id, [ticked("verdict", "accept"), written("text", text)])
    return with_draft


def captions(run: RunContext, *states: str) -> list[StoredEntity]:
    return list(find(run.store, DATASET, Caption.kind, states=states or None))


def test_one_of_two_annotators_starts_from_a_draft_and_the_card_counts_it(
    run: RunContext, office: MemoryOffice, run_build: RunBuild
) -> None:
    report = run_build()
    images = list(find(run.store, DATASET, Image.kind, states=("proposed",)))
    assert report.waiting == len(images) > 0
    shown = [(name, task) for name, task in sent(office) if draft_in(task)]
    assert len(sent(office)) == 2 * len(images)
    assert len({task.data["image"] for _, task in shown}) == len(shown) == len(images)
    assert {name for name, _ in shown} == {"reviewer-ada", "reviewer-bob"}
    assert all(MODEL in task.data["draft_note"] for _, task in shown)
    assert not any(OPENED_WITH in task.data for _, task in sent(office) if not draft_in(task))
    drafts = fetch(run.store, [task.data[OPENED_WITH] for _, task in shown])
    assert {one.record(Caption).text for one in drafts.values()} == {
        draft_in(task) for _, task in shown
    }

    def keeps(name: str, draft: str) -> bool:
        return name == "reviewer-ada" and count_words(draft) >= LEAST_WORDS

    def answer(name: str, draft: str | None) -> str:
        if draft is None:
            return f"{OWN_WORDS} as {name}"
        return draft if keeps(name, draft) else f"{draft} {OWN_WORDS}"

    assert write(office, answer) == len(images)
    built = run_build()
    assert built.release is not None
    assert verify_release(built.release).problems == []
    unchanged = sum(keeps(name, draft_in(task) or "") for name, task in shown)
    assert 0 < unchanged < len(images)
    card = (built.release / "README.md").read_text("utf-8")
    line = (
        f"{len(images)} descriptions started as a draft by {MODEL}, {unchanged} of them unchanged."
    )
    assert line in card
    assert f"| written by a person | {len(images)} (50 %) |" in card
    assert f"| edited by a person from another text | {len(images) - unchanged} " in card
    assert {one.state for one in fetch(run.store, drafts).values()} == {"superseded"}
    accepted = [one.id for one in captions(run, "accepted")]
    edited_from = parents_of(run.store, accepted, Role.EDITED_FROM)
    assert sorted(draft for found in edited_from.values() for draft in found) == sorted(drafts)
    assert run_build().release_id == built.release_id


def test_a_replacement_annotator_gets_no_draft(
    run: RunContext, office: MemoryOffice, run_build: RunBuild
) -> None:
    hire(run.store, office, "eve")
    run_build()
    drafted = [(name, task.key) for name, task in sent(office) if draft_in(task)]
    for name, key in drafted:
        desk = office(name)
        (number,) = [
            one.id for tasks in desk.tasks.values() for one in tasks.values() if one.key == key
        ]
        desk.annotate(number, [], cancelled=True)
    run_build()
    assert len([task for _, task in sent(office) if draft_in(task)]) == len(drafted)
    assert len(sent(office)) == 3 * len(drafted)
    unused = [one.state for one in captions(run) if one.record(Caption).author == MODEL]
    assert unused == ["proposed"] * len(drafted)


def test_drafts_are_deactivated_if_the_setting_is_removed(
    run: RunContext, run_build: RunBuild
) -> None:
    run_build()
    before = {one.id for one in captions(run, "proposed")}
    assert before
    run_build(drafts=False)
    assert captions(run, "proposed") == []
    run_build()
    assert {one.id for one in captions(run, "proposed")} == before
    report = run_build(gate="auto")
    assert report.release is not None
    assert before < {one.id for one in captions(run, "accepted")}
