"""Predict which items people will accept, from the evidence that is stored with them.

It decides nothing: it is shown with its error on held-out groups.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from annotate.queues import Candidate, Queue, candidates, judged, needs_review
from db.entities import fetch
from db.review_audits import item_progress
from db.store import Store
from retrieval.logistic import held_out_accuracy, held_out_probabilities, predicted
from retrieval.ranking import Floats
from schemas.base import Record
from schemas.errors import UsageError

_LEAST_SHARE = 0.05
"""Evidence that fewer of the decided items have is left out."""
_LONGEST_VALUE = 40  # characters of a text that may be a category

Evidence = Mapping[str, float]


class AcceptanceError(Record):
    """How often the model is right, on items of groups that it was not fitted on.

    Attributes:
        decided: items that people decided, on which it is fitted.
        accepted: how many of these they accepted unchanged.
        evidence: the names of what it looks at.
        accuracy: the percentage it is right about, with a 95 % interval over groups.
        most_frequent: the percentage that always naming the more frequent outcome is right about.
        brier: mean squared error of its probability.
        brier_of_share: that of the share of accepted items.
        least_trusted: the share of the items not accepted that is in the quarter of items with the
            lowest probability; by chance 0.25.
    """

    queue: str
    decided: int
    accepted: int
    evidence: tuple[str, ...]
    accuracy: float
    low: float
    high: float
    most_frequent: float
    brier: float
    brier_of_share: float
    least_trusted: float

    @property
    def is_better(self) -> bool:
        """Whether it is surely right more often than always naming the more frequent outcome."""
        return self.low > self.most_frequent

    @property
    def sentence(self) -> str:
        """The error in words."""
        verdict = "" if self.is_better else " So it is not shown to predict anything here."
        return (
            f"{self.queue}: of {self.decided:,} decided items people accepted {self.accepted:,} "
            f"unchanged. Of items of other groups the model is right about {self.accuracy:.1f} % "
            f"({self.low:.1f}–{self.high:.1f} %), always naming the more frequent outcome about "
            f"{self.most_frequent:.1f} %. Its probability has a mean squared error of "
            f"{self.brier:.3f}, the share of accepted items {self.brier_of_share:.3f}. The quarter "
            f"of items that it trusts least has {self.least_trusted:.0%} of those not accepted."
            f"{verdict}"
        )


class Acceptance(NamedTuple):
    """The model of a queue: its error, and the probability of acceptance of each open item."""

    error: AcceptanceError
    open: dict[str, float]


def acceptance(store: Store, queue: Queue) -> Acceptance:
    """Fit the model on the items that people decided, and predict the undecided ones.

    Raises:
        UsageError: too few items are decided, accepted or not accepted.
    """
    states = {id_: one.state for id_, one in item_progress(store, queue.name).items()}
    outcomes = {"accepted": True, "superseded": False, "rejected": False}
    ids = [id_ for id_, state in states.items() if state in outcomes]
    known = list(judged(store, queue, list(fetch(store, ids).values())))
    labels = np.array([outcomes[one.entity.state] for one in known], dtype=np.bool_)
    groups = [one.entity.group or one.entity.id for one in known]
    evidence = [dict(_evidence(one)) for one in known]
    names = _frequent(evidence)
    features = _matrix(evidence, names)
    accuracy = held_out_accuracy(features, labels, groups)
    if accuracy is None:
        raise UsageError(
            f"{queue.name}: {len(known):,} items are decided by people, {labels.sum():,} of them "
            "accepted unchanged; a model needs 5 of each outcome, from 5 groups"
        )
    probabilities = held_out_probabilities(features, labels, groups)
    trusted = np.argsort(probabilities, kind="stable")
    error = AcceptanceError(
        queue=queue.name,
        decided=len(known),
        accepted=int(labels.sum()),
        evidence=names,
        accuracy=accuracy.value,
        low=accuracy.low,
        high=accuracy.high,
        most_frequent=100 * float(max(labels.mean(), 1 - labels.mean())),
        brier=float(((probabilities - labels) ** 2).mean()),
        brier_of_share=float(((labels.mean() - labels) ** 2).mean()),
        least_trusted=float((~labels)[trusted[: len(known) // 4]].sum() / (~labels).sum()),
    )
    waiting = [one for one in candidates(store, queue) if needs_review(queue, one)]
    asked = _matrix([dict(_evidence(one)) for one in waiting], names)
    found = predicted(features, labels, asked).tolist() if waiting else []
    return Acceptance(error, dict(zip((one.entity.id for one in waiting), found, strict=True)))


def _evidence(candidate: Candidate) -> Iterator[tuple[str, float]]:
    yield "flagged", float(candidate.suspect)
    yield "flags", float(len(candidate.warnings))
    yield from _leaves(json.loads(candidate.entity.payload), "")


def _leaves(value: Any, name: str) -> Iterator[tuple[str, float]]:
    """The numbers in a record, the lengths of its lists and texts, and its short texts as such."""
    match value:
        case dict():
            for key, one in value.items():
                yield from _leaves(one, f"{name}.{key}" if name else key)
        case list():
            yield f"{name}: number", float(len(value))
        case str():
            yield f"{name}: words", float(len(value.split()))
            if len(value) <= _LONGEST_VALUE:
                yield f"{name} = {value}", 1.0
        case int() | float():
            yield name, float(value)


def _frequent(evidence: Sequence[Evidence]) -> tuple[str, ...]:
    """The evidence that enough items have, and that is not the same everywhere."""
    counts = Counter(name for one in evidence for name in one)
    values: dict[str, set[float | None]] = {
        name: {one.get(name) for one in evidence}
        for name, count in counts.items()
        if count >= _LEAST_SHARE * len(evidence)
    }
    return tuple(sorted(name for name, found in values.items() if len(found) > 1))


def _matrix(evidence: Sequence[Evidence], names: Sequence[str]) -> Floats:
    """The evidence by item and name; what an item lacks is 0."""
    return np.array([[one.get(name, 0.0) for name in names] for one in evidence]).reshape(
        len(evidence), len(names)
    )
