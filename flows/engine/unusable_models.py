"""Models whose answers are mostly unusable: nothing is released that was built with them."""

from collections.abc import Iterable, Sequence
from math import ceil

from loupe.annotate.queues import Queue, dropped_by_gates
from loupe.db.configurations import JUDGING_STAGES, plans_like
from loupe.db.quarantine import (
    REPEATS_SIBLING,
    dropped_share,
    quarantined,
    unused_answers,
    used_answers,
)
from loupe.db.reviews import DROPPED
from loupe.db.store import Store
from loupe.flows.engine.asked import made_with_others, settings_of_steps
from loupe.flows.engine.report import StageReport
from loupe.schemas.errors import ModelError
from loupe.schemas.records import Rejection

_EXAMPLE_CHARACTERS = 200
_TEXTS = ("rewrite", "text")
_ANSWERS = ("answer", "raw")  # the text of a rejected answer is what was asked about


def refuse_unusable_models(
    store: Store,
    dataset: str,
    reports: Iterable[StageReport],
    most: float,
    queues: Iterable[Queue] = (),
) -> None:
    """Stop a build before its release if most answers of a model are unusable.

    Args:
        store: the store.
        dataset: the dataset that is built.
        reports: the reports of the stages of the run.
        most: the maximum share of a model's answers that may be unusable, in (0, 1].
        queues: the queues of the build; those `of_model` say which dropped items count.

    Raises:
        ModelError: a larger share is; the message gives the reasons with two examples.
    """
    others = made_with_others(store, dataset)
    settings = {one.id for one in settings_of_steps(store, dataset)}
    of_models = [queue.name for queue in queues if queue.of_model]
    for report in reports:
        if not report.asked_model:
            continue
        plans = plans_like(store, report.plan_id, settings)
        # Of texts that repeat each other one is used, which says nothing against their model.
        unused = [
            one
            for one in unused_answers(store, dataset, plans, others)
            if one.reason != REPEATS_SIBLING
        ]
        used = used_answers(store, dataset, report.plan_id)
        dropped, share = dropped_share(store, dataset, plans, of_models)
        dropped = min(dropped, ceil(share * used))  # an answer may have several results
        failed = sum(one.answers for one in unused if one.stage not in JUDGING_STAGES)
        lost, asked = sum(one.answers for one in unused) + dropped, failed + used
        if lost <= most * asked:
            continue
        worst = max(unused, key=lambda one: one.answers, default=None)
        if worst is None or dropped > worst.answers:
            reason, answers, keys = DROPPED, dropped, _TEXTS
            found = iter(dropped_by_gates(store, dataset, 2, plans))
        else:
            reason, answers = worst.reason, worst.answers
            found = quarantined(store, dataset, reason, 2, worst.stage, others)
            keys = _TEXTS if worst.stage in JUDGING_STAGES else _ANSWERS
        examples = [f"{number}. {_example(one, keys)}" for number, one in enumerate(found, start=1)]
        shown = "; ".join(examples)
        raise ModelError(
            f"{lost:,} of {asked:,} answers of {report.asked_model} cannot be used, most of them "
            f"({answers:,}) as {reason}: {shown.rstrip('.')}. Nothing was released. "
            f"Change the model or its prompt, or allow a larger share (max_unusable_share of the "
            f"dataset); all are listed by: loupe quarantine {dataset}"
        )


def _example(rejection: Rejection, keys: Sequence[str]) -> str:
    """Return what is wrong, and what the model wrote: the first of these in the context."""
    texts = (rejection.context.get(key) for key in keys)
    written = next(filter(None, texts), "")
    said = f" It answered: {str(written)[:_EXAMPLE_CHARACTERS]!r}" if written else ""
    return f"{rejection.detail}{said}"
