"""The validation loop: convergence, budget, and no repeated measurement."""

import math
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.flows.recos.validation_loop import (
    Attempt,
    CaptionHistory,
    Draft,
    reports_of,
    run_validation,
)
from loupe.retrieval.discriminability import AcceptedInterval
from loupe.schemas.errors import DegenerateCriterionError
from loupe.schemas.records import Rejection
from loupe.schemas.recos import CaptionVerdict, DiscriminabilitySettings
from loupe.schemas.taxonomy import RetrievalTask

SETTINGS = DiscriminabilitySettings(k=10, eta=0.4, rounds=3)
INTERVAL = AcceptedInterval.of(10, 0.4)
LONGEST = 20
PASS, OVER, UNDER = CaptionVerdict


class World:
    """A model of captions in which dis(t) falls with the number of words."""

    def __init__(self) -> None:
        self.measured: Counter[tuple[str, str]] = Counter()
        self.asked: Counter[tuple[str, str]] = Counter()
        self.failed: list[tuple[CaptionVerdict, int]] = []

    def measure(self, drafts: Sequence[Draft]) -> list[float]:
        self.measured.update((draft.key, draft.text) for draft in drafts)
        return [math.log(10) * (1 - len(draft.text.split()) / LONGEST) for draft in drafts]

    def rewrite(self, failing: Sequence[CaptionHistory]) -> list[str | Rejection]:
        self.asked.update((history.key, history.current.text) for history in failing)
        return [self.revise(history) for history in failing]

    def revise(self, history: CaptionHistory) -> str | Rejection:
        """Return a caption half-way toward the requested length."""
        words = len(history.current.text.split())
        self.failed.append((history.current.verdict, words))
        if history.current.verdict is OVER:
            bound = max((len(one.split()) for one in history.tried(UNDER)), default=0)
        else:
            bound = min((len(one.split()) for one in history.tried(OVER)), default=LONGEST)
        return text_of(history.key, (words + bound) // 2)


class Stubborn(World):
    def revise(self, history: CaptionHistory) -> str | Rejection:
        return f"{history.key} {history.round} " + "detail " * (LONGEST - 3)


class Silent(World):
    def revise(self, history: CaptionHistory) -> str | Rejection:
        return Rejection(stage="revise_caption", reason="empty", detail="The answer is empty.")


class Parrot(World):
    def revise(self, history: CaptionHistory) -> str | Rejection:
        return history.current.text


class OneForAll(World):
    def revise(self, history: CaptionHistory) -> str | Rejection:
        return text_of("same", 10)


def text_of(key: str, words: int) -> str:
    return " ".join([f"{key}{number}" for number in range(words)])


def drafts_of(lengths: Sequence[int], of_image: int = 5) -> list[Draft]:
    tasks = list(RetrievalTask)
    return [
        Draft(
            f"c{at}", f"i{at // of_image}", tasks[at // of_image % 12], text_of(f"c{at}_", length)
        )
        for at, length in enumerate(lengths)
    ]


lengths = st.lists(st.integers(0, LONGEST), min_size=1, max_size=15)


@settings(max_examples=25)
@given(lengths, st.integers(0, 4))
def test_the_budget_is_kept_and_no_caption_is_measured_twice(found: list[int], rounds: int) -> None:
    chosen = SETTINGS.model_copy(update={"rounds": rounds})
    for world in (World(), Stubborn(), Silent(), Parrot(), OneForAll()):
        drafts = drafts_of(found)
        histories = run_validation(drafts, world.measure, world.rewrite, chosen, 0.1)
        assert world.asked.total() <= rounds * len(drafts)
        assert set(world.asked.values()) <= {1}
        assert set(world.measured.values()) == {1}
        assert [history.key for history in histories] == [draft.key for draft in drafts]
        for draft, history in zip(drafts, histories, strict=True):
            assert history.attempts[0].text == draft.text
            assert history.round <= rounds
            assert history.passes == (history.current.verdict is PASS)
            assert not history.is_revised(chosen)
            assert all(attempt.verdict is not PASS for attempt in history.attempts[:-1])


@settings(max_examples=25)
@given(lengths)
def test_a_model_that_follows_its_instructions_converges(found: list[int]) -> None:
    world = World()
    histories = run_validation(drafts_of(found), world.measure, world.rewrite, SETTINGS, 0.1)
    assert {history.current.verdict for history in histories} == {PASS}
    for verdict, words in world.failed:
        assert (words > LONGEST / 2) is (verdict is OVER)


def test_captions_that_keep_failing_go_to_annotators_with_all_attempts() -> None:
    world = Stubborn()
    histories = run_validation(drafts_of([20, 10]), world.measure, world.rewrite, SETTINGS, 0.1)
    failed, passed = histories
    assert failed.round == 3
    assert not failed.passes
    assert not failed.is_revised(SETTINGS)
    assert world.asked.total() == 3
    assert failed.best(INTERVAL).text != failed.attempts[0].text
    assert passed.passes


def test_an_unusable_answer_is_not_requested_again(subtests: pytest.Subtests) -> None:
    for world, reason in [(Silent(), "empty"), (Parrot(), "tried_before")]:
        with subtests.test(world=world, reason=reason):
            histories = run_validation(
                drafts_of([20, 1]), world.measure, world.rewrite, SETTINGS, 0.1
            )
            assert world.asked.total() == 2
            for history in histories:
                assert history.unusable is not None
                assert history.unusable.reason == reason
                assert not history.passes
                assert not history.is_revised(SETTINGS)


def test_captions_of_an_image_stay_different() -> None:
    world = OneForAll()
    histories = run_validation(drafts_of([20, 1, 20]), world.measure, world.rewrite, SETTINGS, 0.1)
    texts = [history.current.text for history in histories]
    assert len(set(texts)) == 3
    assert [history.passes for history in histories] == [True, False, False]
    assert not any(history.is_revised(SETTINGS) for history in histories)
    assert {one.unusable.reason for one in histories if one.unusable} == {"same_captions"}
    others = run_validation(
        drafts_of([20, 1, 20], of_image=1), world.measure, world.rewrite, SETTINGS, 0.1
    )
    assert {history.current.verdict for history in others} == {PASS}


def test_a_degenerate_criterion_raises_before_any_revision() -> None:
    world = World()
    with pytest.raises(DegenerateCriterionError, match="0 of 30 pass"):
        run_validation(drafts_of([1] * 30), world.measure, world.rewrite, SETTINGS, 1.0)
    assert world.asked == {}


def test_success_in_revisions_is_not_degeneracy() -> None:
    world = World()
    histories = run_validation(
        drafts_of([20] * 90 + [10] * 10), world.measure, world.rewrite, SETTINGS, 0.1
    )
    assert {history.current.verdict for history in histories} == {PASS}


def test_every_round_of_every_caption_is_reported() -> None:
    histories = run_validation(drafts_of([20]), World().measure, Stubborn().rewrite, SETTINGS, 0.1)
    history = histories[0]
    reports = reports_of(history, SETTINGS, 0.1, "words@1")
    assert [report.round for report in reports] == [0, 1, 2, 3]
    assert [report.dis for report in reports] == [one.dis for one in history.attempts]
    assert {report.verdict for report in reports} == {OVER}
    assert {(report.lower, report.upper) for report in reports} == {tuple(INTERVAL)}
    assert reports[0].embedder == "words@1"
    assert (reports[0].k, reports[0].temperature) == (10, 0.1)


def test_duplicate_keys_are_refused() -> None:
    world = World()
    with pytest.raises(ValueError, match="same key"):
        run_validation(drafts_of([10]) * 2, world.measure, world.rewrite, SETTINGS, 0.1)


def test_the_best_attempt_is_nearest_to_the_interval() -> None:
    tried = (Attempt("a", 0.1, OVER), Attempt("b", 2.0, UNDER), Attempt("c", 0.05, OVER))
    history = CaptionHistory("c", "i", RetrievalTask.COLOR, tried)
    assert history.best(INTERVAL).text == "b"
    assert history.tried(OVER) == ("a",)
