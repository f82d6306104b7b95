"""The loop that runs a pipeline: which steps run while items wait for people."""

from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loupe.db.decisions import append_decisions
from loupe.db.entities import AgentRef, NewDecision, NewEntity
from loupe.flows.engine.context import BuildReport, PipelineRun, RunContext
from loupe.flows.engine.pipeline import (
    Gate,
    Loop,
    PipelineSpec,
    Step,
    never,
    run_build,
    run_pipeline,
)
from loupe.models.profiles.loader import load_profile
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.services.diagnosis import lacking
from tests.db.samples import DATASET, caption, store_entities
from tests.flows.runs import new_run

Run = PipelineRun[Any]
PERSON = AgentRef("person", "annotator-1")
ANYWAY = {"per_item": lambda _run: True}


@pytest.fixture
def run(migrated_sqlite: Path, tmp_path: Path) -> Iterator[RunContext]:
    with new_run(migrated_sqlite, tmp_path) as started:
        yield started


@pytest.fixture
def done() -> list[str]:
    """Names of the steps that were run, in order."""
    return []


def step(done: list[str], name: str, **values: Any) -> Step[Run]:
    return Step(lambda _run: done.append(name), **values)


def waits(gate: str) -> Step[Run]:
    """A step after which an item waits at a gate."""
    return Step(lambda run: run.report.waiting_in.update({gate: 1}), **ANYWAY)


def spec_of(*steps: Any, gates: dict[str, str] | None = None) -> PipelineSpec[Any, Run]:
    build = SimpleNamespace(dataset=DATASET, sources=(), against=(), gates=gates or {})
    return PipelineSpec(SimpleNamespace, lambda _: build, PipelineRun, steps, lambda _: "0.1.0")


def run_steps(run: RunContext, *steps: Any, **gates: str) -> BuildReport:
    spec = spec_of(*steps, gates=gates)
    return run_pipeline(
        run, spec, spec.demonstrate(Path()), load_profile("builtin"), lambda: None, wait=False
    )


def test_while_items_wait_steps_run_up_to_the_first_that_needs_all_decisions(
    run: RunContext, done: list[str]
) -> None:
    report = run_steps(
        run,
        step(done, "before"),
        waits("a gate"),
        step(done, "of each item", **ANYWAY),
        step(done, "disabled", enabled=never),
        step(done, "of all items"),
        step(done, "after it", **ANYWAY),
    )
    assert done == ["before", "of each item"]
    assert report.waiting_in == {"a gate": 1}


def test_each_pass_of_a_loop_asks_again_and_its_passes_are_closed(
    run: RunContext, done: list[str]
) -> None:
    opened: list[Generator[None]] = []  # kept, so that only the loop closes them

    def passes(_run: Run) -> Generator[None]:
        opened.append(numbered())
        return opened[-1]

    def numbered() -> Generator[None]:
        try:
            for number in range(2):
                done.append(f"pass {number}")
                yield
        finally:
            done.append("closed")

    def look(run: Run) -> None:
        done.append(f"waiting {run.report.waiting}")

    gate: Gate[Run] = Gate("originals", "originals_gate", enabled=never)
    loop: Loop[Run] = Loop(passes, (Step(look), gate, waits("originals")))
    report = run_steps(run, loop)
    assert done == ["pass 0", "waiting 0", "pass 1", "waiting 0", "closed"]
    assert report.waiting_in == {"originals": 1}
    done.clear()

    def fail(_run: Run) -> None:
        raise UsageError("no")

    with pytest.raises(UsageError):
        run_steps(run, Loop(passes, (Step(fail),)))
    assert done == ["pass 0", "closed"]


def decide(run: RunContext, entity: NewEntity, verdict: Any) -> None:
    with run.store.write() as connection:
        append_decisions(connection, [NewDecision(entity.id, verdict, PERSON)])


def test_a_gate_waits_until_people_have_decided_and_applies_what_they_decided_so_far(
    run: RunContext, done: list[str]
) -> None:
    first, second = caption(1), caption(2)
    store_entities(run.store, [first, second])

    def build(policy: str = "required") -> BuildReport:
        gate: Gate[Run] = Gate("captions", "gate", lambda _run: done.append("applied"))
        return run_steps(run, gate, step(done, "after"), gate=policy)

    report = build()
    assert (report.waiting_in, report.lacks_desk) == ({"captions": 2}, True)
    decide(run, first, "accept")
    assert build().waiting_in == {"captions": 1}
    assert done == ["applied", "applied"]
    decide(run, second, "reject")
    assert build().waiting == 0
    assert done == ["applied"] * 3 + ["after"]


def test_a_gate_that_is_come_to_again_waits_no_more_if_all_is_decided(run: RunContext) -> None:
    entity = caption(1)
    store_entities(run.store, [entity])
    gate: Gate[Run] = Gate("captions", "gate", per_item=lambda _run: True)
    deciding: Step[Run] = Step(lambda _run: decide(run, entity, "accept"), **ANYWAY)
    assert run_steps(run, gate, deciding, gate, gate="required").waiting_in == {}


def test_what_was_withdrawn_meanwhile_is_looked_for_at_the_end_also_of_a_failed_run(
    run: RunContext, done: list[str]
) -> None:
    def fail(_run: Run) -> None:
        raise UsageError("no")

    def at_end(_run: RunContext) -> None:
        done.append("at the end")

    run_build(run, spec_of(step(done, "a step")), None, None, at_end)
    with pytest.raises(UsageError):
        run_build(run, spec_of(Step(fail)), None, None, at_end)
    assert done == ["a step", "at the end", "at the end"]


def test_a_run_that_cannot_finish_lists_all_that_is_missing_and_starts_nothing(
    run: RunContext, done: list[str]
) -> None:
    spec = spec_of(step(done, "a step"))
    broken = replace(spec, checks=lambda _build, _profile: missing())
    with pytest.raises(ConfigurationError, match=r"(?s)first: no.*fix: a.*second: no.*fix: b"):
        run_build(run, broken, None, None, lambda _run: done.append("at the end"))
    assert done == []


def missing() -> Iterator[Any]:
    yield lacking("first", "no", "a")
    yield lacking("second", "no", "b")
