from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.annotate.interfaces.registry import INTERFACES
from loupe.annotate.queues import (
    Candidate,
    Policy,
    Queue,
    apply_policy,
    candidates,
    chosen_queues,
    decide_by_policy,
    load_queues,
    needs_review,
    parse_policy,
    queues_in_use,
    search_items,
    shipped,
)
from loupe.db.entities import StoredEntity, fetch, new_entity
from loupe.schemas.base import digest_of
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.schemas.faithfulness import FaithfulnessReport
from loupe.schemas.proposals import Candidate as ContrastCandidate
from loupe.schemas.proposals import CaptionGroup
from loupe.schemas.provenance import Role
from loupe.schemas.quality import CaptionCheck
from loupe.schemas.records import Caption
from tests.annotate.interfaces.proposed import Proposal, a_candidate, a_group
from tests.annotate.world import DATASET, World

PROPOSED: dict[str, type[ContrastCandidate | CaptionGroup]] = {
    "candidates": ContrastCandidate,
    "groups": CaptionGroup,
}


def rewrite_queue(dataset: str, policy: Policy | None = None) -> Queue:
    return shipped().queue(dataset, "rewrites", policy)


def candidate(number: int, suspect: bool) -> Candidate:
    entity_id = digest_of("entity", str(number))
    entity = StoredEntity(number, entity_id, DATASET, "rewrite", None, None, "proposed", "{}")
    return Candidate(entity, suspect)


MANY = [candidate(number, suspect=number % 4 == 0) for number in range(4000)]


def test_policy_auto_decides_by_the_check_and_records_that_nobody_reviewed() -> None:
    queue = rewrite_queue(DATASET, Policy(policy="auto"))
    faithful, suspect = decide_by_policy(queue, [candidate(1, False), candidate(2, True)])
    assert (faithful.verdict, suspect.verdict) == ("accept", "reject")
    assert faithful.reason == "nobody looked (policy auto): the check found it faithful"
    assert faithful.agent.kind == "software"
    assert faithful.agent.name == f"gate:{DATASET}-rewrites"


def test_policy_sample_draws_at_its_rate_and_includes_all_suspects() -> None:
    queue = rewrite_queue(DATASET, Policy(policy="sample", rate=0.2))
    chosen = [found for found in MANY if needs_review(queue, found)]
    faithful = [found for found in chosen if not found.suspect]
    assert sum(found.suspect for found in chosen) == 1000
    assert 0.17 < len(faithful) / 3000 < 0.23
    decisions = decide_by_policy(queue, MANY)
    assert {decision.verdict for decision in decisions} == {"accept"}
    assert len(decisions) == len(MANY) - len(chosen)


def test_unmarked_suspects_outside_the_sample_are_rejected() -> None:
    queue = rewrite_queue(DATASET, Policy(policy="sample", rate=0)).model_copy(
        update={"marked_always": False}
    )
    (decision,) = decide_by_policy(queue, [candidate(4, suspect=True)])
    assert decision.verdict == "reject"


@given(st.randoms(use_true_random=False), st.integers(0, 5), st.floats(0, 1))
def test_a_sample_does_not_depend_on_order_or_other_items(
    rng: Random, seed: int, rate: float
) -> None:
    queue = rewrite_queue(DATASET, Policy(policy="sample", rate=rate, seed=seed))
    many = rng.sample(MANY, 40)
    few = many[::3]
    decided = {decision.entity_id for decision in decide_by_policy(queue, many)}
    alone = {decision.entity_id for decision in decide_by_policy(queue, sorted(few))}
    assert alone == decided & {found.entity.id for found in few}


def test_policies_are_parsed_and_written(subtests: pytest.Subtests) -> None:
    for text, policy in (
        ("required", Policy(policy="required")),
        ("auto", Policy(policy="auto")),
        ("sample:0.25", Policy(policy="sample", rate=0.25)),
        ("sample:1:7", Policy(policy="sample", rate=1, seed=7)),
    ):
        with subtests.test(text=text):
            assert parse_policy(text) == policy
            assert parse_policy(str(policy)) == policy


def test_invalid_policies_are_refused() -> None:
    for text in ("", "sample", "sample:2", "sample:x", "auto:1", "always", "a b"):
        with pytest.raises(UsageError, match="a policy must be 'required'"):
            parse_policy(text)


def test_queues_are_named_after_their_dataset() -> None:
    assert shipped().queue_named("ufine3c-rewrites") == rewrite_queue("ufine3c")
    assert shipped().queue_named("my-own-people-captions").dataset == "my-own-people"
    for wrong in ("ufine3c", "-rewrites"):
        with pytest.raises(UsageError, match=r"no queue '.*named DATASET-STEP, .* of tracklets, "):
            shipped().queue_named(wrong)
    with pytest.raises(UsageError, match=r"'ufine3c-rewrite'; did you mean ufine3c-rewrites\?$"):
        shipped().queue_named("ufine3c-rewrite")


def test_every_step_has_an_interface() -> None:
    assert {step.interface for step in shipped().steps.values()} == INTERFACES.keys()


def write(folder: Path, text: str) -> Path:
    path = folder / "queues.toml"
    path.write_text(text)
    return path


def test_a_custom_file_changes_steps_and_single_queues(tmp_path: Path) -> None:
    own = write(
        tmp_path,
        """
        [steps.rewrites]
        overlap = 2
        policy = "sample:0.5:7"
        [queues.people-rewrites]
        overlap = 3
        annotators = ["Ann", "Bea", "Cem"]
        """,
    )
    declared = load_queues(own)
    assert declared.queue("streets", "rewrites").overlap == 2
    people = declared.queue("people", "rewrites")
    assert (people.overlap, people.policy) == (3, Policy(policy="sample", rate=0.5, seed=7))
    assert people.annotators == ("Ann", "Bea", "Cem")
    assert declared.queue("people", "rewrites", Policy(policy="auto")).policy == Policy(
        policy="auto"
    )
    assert declared.queue("people", "captions") == shipped().queue("people", "captions")
    assert load_queues(tmp_path / "absent.toml").steps is shipped().steps


WRONG_FILES = (
    ("[steps", "is not valid TOML"),
    ("[rewrites]", "in .*: unknown key 'rewrites'; known keys are queues, steps"),
    ("steps = 3", "in .*: steps: .* got 3"),
    ("[steps.rewritings]", r"\[steps.rewritings\]: a step must be one of .*rewrites"),
    ("[steps.rewrites]\noverlap = 0", r"\[steps.rewrites\]: overlap: .* got 0"),
    ("[steps.rewrites]\ngold = 1", r"\[steps.rewrites\]: unknown key 'gold'"),
    ("[steps.rewrites]\npolicy = 'often'", r"\[steps.rewrites\]: .*must be 'required'"),
    ("[steps.rewrites]\ninterface = 'image-selection'", "rewrites: interface cannot be changed"),
    ("[queues.people-rewrites]\ndataset = 'x'", "people-rewrites: dataset cannot be changed"),
    ("[steps.rewrites]\nannotators = ['Ann', 'Ann']", "annotators: the names must differ, got"),
    ("[queues.people-rewrites]\ngold_rate = 2", r"\[queues.people-rewrites\]: gold_rate"),
    (
        "[steps.rewrites]\naccuracy_least = 30",
        r"accuracy_least \(30\) must not be above accuracy_window \(20\)",
    ),
)


def test_an_invalid_custom_file_is_a_short_error(tmp_path: Path) -> None:
    for text, problem in WRONG_FILES:
        with pytest.raises(ConfigurationError, match=problem) as caught:
            load_queues(write(tmp_path, text))
        assert "\n" not in str(caught.value), text


def test_a_table_of_a_queue_that_no_pipeline_has_used_yet_stops_no_other(tmp_path: Path) -> None:
    text = "[queues.kinds-places]\noverlap = 0\n[queues.people-rewrites]\noverlap = 2\n"
    own = write(tmp_path, text)
    declared = load_queues(own)
    assert (declared.queue("people", "rewrites").overlap, [*declared.queues]) == (
        2,
        ["people-rewrites"],
    )
    (warning,) = declared.warnings
    assert "[queues.kinds-places] of the queues file changes nothing: there is no" in warning
    gate = shipped().steps["captions"].model_copy(update={"interface": "own-text"})
    used = Queue(**{**dict(gate), "name": "kinds-places", "dataset": "kinds"})
    folder = own.with_suffix("")  # where a run of its pipeline declares it
    folder.mkdir()
    (folder / "kinds.json").write_text(f"[{used.model_dump_json()}]", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"\[queues.kinds-places\]: overlap: .* got 0"):
        load_queues(own)


def test_a_misspelt_queue_is_answered_with_the_queues_there_are(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add("A woman in a red coat.", suspect=False)
    (queue,) = queues_in_use(world.store, shipped())
    dataset = queue.dataset
    for wrong in (f"{dataset}-rewrite", f"{dataset[:-1]}-rewrites"):
        expected = f"no queue '{wrong}'; did you mean {queue.name}\\?; queues in use: {queue.name}"
        with pytest.raises(UsageError, match=expected):
            chosen_queues(world.store, shipped(), wrong)


def test_only_checked_undecided_items_are_candidates(tmp_path: Path) -> None:
    world = World(tmp_path)
    faithful = world.add("A woman in a red coat.", suspect=False)
    suspect = world.add()
    unchecked = world.add("A man.", checked=False)
    queue = rewrite_queue(DATASET, Policy(policy="auto"))
    assert [(f.entity.id, f.suspect) for f in candidates(world.store, queue)] == [
        (faithful, False),
        (suspect, True),
    ]
    assert apply_policy(world.store, queue) == 2
    states = {key: entity.state for key, entity in fetch(world.store, [faithful, suspect]).items()}
    assert states == {faithful: "accepted", suspect: "rejected"}
    assert fetch(world.store, [unchecked])[unchecked].state == "proposed"
    assert apply_policy(world.store, queue) == 0


def test_an_item_with_warnings_in_its_record_is_suspect(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    cases: list[tuple[str, Proposal, Proposal]] = [
        ("candidates", a_candidate(), a_candidate(warnings=("A tree moved.", "So did a bench."))),
        ("groups", a_group(), a_group(warnings=("A tree moved.", "So did a bench."))),
    ]
    for step, trusted, doubted in cases:
        with subtests.test(step=step):
            (folder := tmp_path / step).mkdir()
            world = World(folder)
            entities = [
                new_entity(one.shown.record(PROPOSED[step]), DATASET) for one in (trusted, doubted)
            ]
            world.keep(*entities)
            queue = shipped().queue(DATASET, step, Policy(policy="auto"))
            found = list(candidates(world.store, queue))
            assert [(one.entity.id, one.suspect) for one in found] == [
                (entities[0].id, False),
                (entities[1].id, True),
            ]
            accepted, rejected = decide_by_policy(queue, found)
            assert (accepted.verdict, rejected.verdict) == ("accept", "reject")
            whys = (
                "the checks found nothing against it",
                ("something speaks against it: A tree moved. (and 1 more)"),
            )
            for decision, why in zip((accepted, rejected), whys, strict=True):
                assert decision.reason == f"nobody looked (policy auto): {why}"
            sample = shipped().queue(DATASET, step, Policy(policy="sample", rate=0))
            assert [needs_review(sample, one) for one in found] == [False, sample.marked_always]


def test_a_decision_without_people_says_whether_there_was_a_check(tmp_path: Path) -> None:
    world = World(tmp_path)
    captions = [
        new_entity(Caption(source="s", text="A thing.", position=place), DATASET)
        for place in range(3)
    ]
    warnings = {0: (), 1: ("It is odd.",)}
    checks = [
        new_entity(
            CaptionCheck(warnings=said), DATASET, parents=[(Role.EXAMINES, captions[place].id)]
        )
        for place, said in warnings.items()
    ]
    world.keep(*captions, *checks)
    queue = Queue(
        kind="caption",
        interface="caption-verification",
        name=f"{DATASET}-ok",
        dataset=DATASET,
        policy=Policy(policy="auto"),
    )
    decided = decide_by_policy(queue, candidates(world.store, queue))
    reasons = {one.entity_id: one.reason.partition(": ")[2] for one in decided}
    assert [reasons[one.id] for one in captions] == [
        "the checks found nothing against it",
        "something speaks against it: It is odd.",
        "there is no check",
    ]


def test_only_the_newest_check_counts(tmp_path: Path) -> None:
    world = World(tmp_path)
    rewrite = world.add(suspect=True)
    again = FaithfulnessReport(verdict="faithful", findings=())
    world.keep(new_entity(again, DATASET, parents=[(Role.CHECKS, rewrite)]))
    (found,) = candidates(world.store, rewrite_queue(DATASET))
    assert not found.suspect


def test_a_found_item_shows_its_text_without_spaces(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add("一位长发女子", suspect=False)
    (found,) = search_items(world.store, rewrite_queue(DATASET))
    assert found.text == "一位长发女子"
