"""Reports of stages and builds: what was done, rejected and deferred, what it cost."""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from db.calls import CostRow, cost_rows
from db.store import Store
from db.work import WorkResult


class Deferred(NamedTuple):
    """An input that could not be worked on for now; it stays pending for the next run.

    `detail` is what there is to say beside the reason, such as what a server answered.
    """

    input: int
    reason: str
    detail: str = ""


StageResult = WorkResult | Deferred


@dataclass
class StageReport:
    """What a run of a stage did; safe to add to from several threads.

    `stalled`: a whole chunk had to be deferred (a model server is gone, say), and the stage stops
    instead of trying every further input. Where inputs are independent of each other (`may_stall`
    is False), it does not stop. `plan_id` is that of a stage that asks a chat model.
    """

    stage: str
    done: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    already_done: int = 0
    seconds: float = 0.0
    stalled: bool = False
    may_stall: bool = True
    plan_id: int | None = None
    _deferred: dict[int, str] = field(default_factory=dict, repr=False)
    _details: dict[str, str] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _more: threading.Event = field(default_factory=threading.Event, repr=False)

    def add(self, results: Sequence[StageResult]) -> None:
        """Counts the results of one chunk; of an input that was tried again, the last."""
        with self._lock:
            for result in results:
                self._count(result)
            if results and all(isinstance(result, Deferred) for result in results):
                self.stalled = self.may_stall
        self._more.set()

    def defer(self, results: Sequence[StageResult]) -> None:
        """Notes the deferred inputs before their claim ends, when others may claim them."""
        with self._lock:
            for result in results:
                if isinstance(result, Deferred):
                    self._deferred[result.input] = result.reason

    def wait_for_more(self, seconds: float) -> None:
        """Waits until something is added, or was since the last time; no longer than `seconds`."""
        if self._more.wait(seconds):
            self._more.clear()

    def _count(self, result: StageResult) -> None:
        if isinstance(result, Deferred):
            self._deferred[result.input] = result.reason
            if result.detail:
                self._details[result.reason] = result.detail
            return
        self._deferred.pop(result.input, None)
        if result.rejection is not None:
            self.rejected[result.rejection.reason] += 1
        else:
            self.done += 1

    @property
    def deferred(self) -> Counter[str]:
        """How many inputs are left for later, by reason."""
        return Counter(self._deferred.values())

    @property
    def details(self) -> dict[str, str]:
        """The last detail of inputs left for later, by reason."""
        with self._lock:
            left = set(self._deferred.values())
            return {reason: last for reason, last in self._details.items() if reason in left}

    @property
    def deferred_inputs(self) -> frozenset[int]:
        """The inputs that are left for later."""
        with self._lock:
            return frozenset(self._deferred)

    @property
    def finished(self) -> int:
        """How many inputs have got their work row in this run."""
        return self.done + self.rejected.total()

    def as_json(self) -> dict[str, Any]:
        """The counts, for `--json`."""
        return {
            "stage": self.stage,
            "done": self.done,
            "done_before": self.already_done,
            "rejected": dict(self.rejected),
            "deferred": dict(self.deferred),
            "seconds": round(self.seconds, 3),
        }

    @property
    def summary(self) -> str:
        """One line for people."""
        parts = [f"{self.done:,} done"]
        if self.already_done:
            parts.append(f"{self.already_done:,} done before")
        for counts, word in ((self.rejected, "rejected"), (self.deferred, "left for later")):
            if counts:
                reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(counts.items()))
                parts.append(f"{counts.total():,} {word} ({reasons})")
        return f"{', '.join(parts)}  in {self.seconds:.1f} s"


class RunReport(Protocol):
    """The result of a flow, as Prefect's page shows it."""

    @property
    def artifact(self) -> str:
        """A name for the report, the same in every run of one kind."""
        ...

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        ...

    @property
    def markdown(self) -> str:
        """The whole report."""
        ...


def known_sum(value: float | None, unknown: int) -> str:
    """A sum over calls, of which `unknown` have no known part in it, as it is shown."""
    if value is None:
        return "unknown" if unknown else "–"
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"
    return f"at least {shown}" if unknown else shown


@dataclass
class BuildReport:
    """The result of a run of a pipeline.

    `waiting_in` counts the items that people have to decide on, by gate; gates without any are left
    out. `release` is the newest one; None while people have to decide before there can be one.
    `warnings` are sentences on releases that somebody should act upon.
    """

    dataset: str
    stages: list[StageReport] = field(default_factory=list)
    costs: list[CostRow] = field(default_factory=list)
    waiting_in: dict[str, int] = field(default_factory=dict)
    release: Path | None = None
    release_id: str | None = None
    warnings: list[str] = field(default_factory=list)

    def count_costs(self, store: Store) -> None:
        """Counts calls of models and services so far, without those that cost nothing."""
        rows = cost_rows(store, self.dataset)
        self.costs = [row for row in rows if row.tokens_in or row.unknown_usage or row.requests]

    @property
    def waiting(self) -> int:
        """How many items people have to decide on."""
        return sum(self.waiting_in.values())

    @property
    def artifact(self) -> str:
        """The key of the report's artifact."""
        return f"{self.dataset}-report"

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        gates = ", ".join(f"{count} in {gate}" for gate, count in self.waiting_in.items())
        waiting = (
            f"{self.waiting} items of {self.dataset} wait for people ({gates}); "
            f"run again when they have decided"
        )
        if self.release is None:
            return waiting
        built = f"release {(self.release_id or '')[:12]} of {self.dataset} is in {self.release}"
        return f"{waiting}; {built}" if self.waiting else built

    @property
    def markdown(self) -> str:
        """The report for Prefect's page: result, stages, model cost."""
        lines = [f"**{self.sentence}**", "", *(f"- warning: {one}" for one in self.warnings)]
        lines += [*([""] if self.warnings else []), "| stage | inputs |", "|---|---|"]
        lines += [f"| {stage.stage} | {stage.summary} |" for stage in self.stages]
        if self.costs:
            lines += [
                "",
                "| model or service | calls | tokens in | tokens out | requests | cost |",
                "|---|---|---|---|---|---|",
            ]
        for row in self.costs:
            unknown = row.unknown_usage
            tokens = known_sum(row.tokens_in, unknown), known_sum(row.tokens_out, unknown)
            cost = known_sum(row.cost, unknown if row.currency else 0)
            counts = row.calls, *tokens, row.requests, f"{cost} {row.currency or ''}".strip()
            lines.append(f"| {row.model} | {' | '.join(map(str, counts))} |")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The report, for `--json`."""
        return {
            "dataset": self.dataset,
            "waiting": self.waiting,
            "waiting_in": self.waiting_in,
            "release": str(self.release) if self.release else None,
            "release_id": self.release_id,
            "warnings": self.warnings,
            "stages": [stage.as_json() for stage in self.stages],
            "costs": [row._asdict() for row in self.costs],
        }
