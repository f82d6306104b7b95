"""The validation loop of captions (ReCoS, section 3.2), without a model, an embedder or a store."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from loupe.flows.answers import Words, words_of
from loupe.flows.engine.pages import BINS, HistogramBar, flow_pages, stacked_bars
from loupe.retrieval.discriminability import AcceptedInterval, check_not_degenerate, share_passing
from loupe.schemas.grouping import grouped
from loupe.schemas.records import Rejection
from loupe.schemas.recos import CaptionVerdict, DiscriminabilityReport, DiscriminabilitySettings
from loupe.schemas.taxonomy import RetrievalTask, in_order

STAGE = "validate_captions"


class Attempt(NamedTuple):
    """A text that was tried, and its result; `dis` is dis(t)."""

    text: str
    dis: float
    verdict: CaptionVerdict


class CaptionHistory(NamedTuple):
    """All texts tried for one caption.

    Attributes:
        key: unique name of the caption.
        image: name of the image that it describes.
        task: task of the image.
        attempts: oldest first, starting with the original text; never empty.
        unusable: why the model's last answer was unusable, if this ended the revision.
    """

    key: str
    image: str
    task: RetrievalTask
    attempts: tuple[Attempt, ...]
    unusable: Rejection | None = None

    @property
    def current(self) -> Attempt:
        """The text that was tried last."""
        return self.attempts[-1]

    @property
    def round(self) -> int:
        """The number of revisions."""
        return len(self.attempts) - 1

    def tried(self, verdict: CaptionVerdict) -> tuple[str, ...]:
        """Return earlier texts, without the current one, that failed with this verdict."""
        return tuple(one.text for one in self.attempts[:-1] if one.verdict is verdict)

    def best(self, interval: AcceptedInterval) -> Attempt:
        """Return the attempt nearest to passing, which people see first; the last of equal ones."""

        def beyond(attempt: Attempt) -> float:
            return max(interval.lower - attempt.dis, attempt.dis - interval.upper, 0.0)

        return min(reversed(self.attempts), key=beyond)

    @property
    def passes(self) -> bool:
        """Whether the current text passes; if no text does, the caption is left to people."""
        return self.current.verdict is CaptionVerdict.PASS

    def is_revised(self, settings: DiscriminabilitySettings) -> bool:
        """Return whether the caption is revised once more.

        It is not after as many revisions as the settings permit, or if the model's answer was
        unusable, because the same request would get the same answer.
        """
        return not self.passes and self.unusable is None and self.round < settings.rounds


def reports_of(
    history: CaptionHistory,
    settings: DiscriminabilitySettings,
    temperature: float,
    embedder: str,
) -> tuple[DiscriminabilityReport, ...]:
    """Return the report of every attempt, oldest first.

    Args:
        history: the texts tried.
        settings: when a caption passes.
        temperature: the temperature of similarities, calibrated or given.
        embedder: the embedder, as `name@revision`.
    """
    interval = AcceptedInterval.of(settings.k, settings.eta)
    return tuple(
        DiscriminabilityReport(
            round=number,
            dis=attempt.dis,
            **interval._asdict(),
            verdict=attempt.verdict,
            k=settings.k,
            temperature=temperature,
            embedder=embedder,
        )
        for number, attempt in enumerate(history.attempts)
    )


class Draft(NamedTuple):
    """A caption to validate: its unique name, its image and that image's task, its text."""

    key: str
    image: str
    task: RetrievalTask
    text: str


Measure = Callable[[Sequence[Draft]], Sequence[float]]
"""Returns dis(t) of each draft, in order. Called with texts that were not measured before."""
Rewrite = Callable[[Sequence[CaptionHistory]], Sequence[str | Rejection]]
"""Returns a new text or a rejection for each caption, in order; see
`loupe.flows.recos.captioning`.
"""


def run_validation(
    drafts: Sequence[Draft],
    measure: Measure,
    rewrite: Rewrite,
    settings: DiscriminabilitySettings,
    temperature: float,
    *,
    taken: Mapping[str, Sequence[str]] = MappingProxyType({}),
    is_first: bool = True,
) -> tuple[CaptionHistory, ...]:
    """Validate captions until each passes or is left to people; return all texts tried, in order.

    A caption is revised at most `settings.rounds` times, with one request each. Only changed
    captions are measured again.

    Args:
        drafts: captions as first written.
        measure: returns dis(t).
        rewrite: revises captions.
        settings: when a caption passes.
        temperature: the temperature of `measure`, for messages.
        taken: other captions of images, from which new texts must differ.
        is_first: whether these are the first captions of a dataset, by which the criterion is
            judged; further ones were written where others failed.

    Raises:
        DegenerateCriterionError: the criterion does not distinguish the captions; none was revised.
        ValueError: two drafts have the same name, or a callable returned a wrong number of results.
    """
    if len({draft.key for draft in drafts}) < len(drafts):
        raise ValueError("two captions have the same key")
    interval = AcceptedInterval.of(settings.k, settings.eta)
    found = measure(drafts)
    if is_first:
        check_not_degenerate(found, settings, temperature)
    histories = {
        draft.key: CaptionHistory(
            draft.key, draft.image, draft.task, (Attempt(draft.text, dis, interval.verdict(dis)),)
        )
        for draft, dis in zip(drafts, found, strict=True)
    }
    while failing := [one for one in histories.values() if one.is_revised(settings)]:
        siblings: dict[str, set[Words]] = defaultdict(set)
        for image, texts in taken.items():
            siblings[image] = set(map(words_of, texts))
        for history in histories.values():
            siblings[history.image].add(words_of(history.current.text))
        revised = _next_round(failing, rewrite(failing), siblings, measure, interval)
        histories.update({history.key: history for history in revised})
    return tuple(histories.values())


def _next_round(
    failing: Sequence[CaptionHistory],
    answers: Sequence[str | Rejection],
    siblings: Mapping[str, set[Words]],
    measure: Measure,
    interval: AcceptedInterval,
) -> list[CaptionHistory]:
    """Return the histories of failed captions with the answers to the requests.

    Args:
        failing: captions that were to be rewritten.
        answers: the new texts, in the same order.
        siblings: words of the current captions of each image; those of new texts are added.
        measure: returns dis(t) of the new texts.
        interval: the values of dis(t) that pass.
    """
    judged: list[tuple[CaptionHistory, str | Rejection]] = []
    for history, answer in zip(failing, answers, strict=True):
        of_image = siblings[history.image]
        usable = answer if isinstance(answer, Rejection) else _usable(history, answer, of_image)
        judged.append((history, usable))
        if isinstance(usable, str):
            of_image.add(words_of(usable))
    fresh = [
        Draft(history.key, history.image, history.task, answer)
        for history, answer in judged
        if isinstance(answer, str)
    ]
    found = iter(measure(fresh) if fresh else ())
    after: list[CaptionHistory] = []
    for history, answer in judged:
        if isinstance(answer, Rejection):
            after.append(history._replace(unusable=answer))
        else:
            dis = next(found)
            attempt = Attempt(answer, dis, interval.verdict(dis))
            after.append(history._replace(attempts=(*history.attempts, attempt)))
    return after


def _usable(history: CaptionHistory, text: str, siblings: set[Words]) -> str | Rejection:
    """Return a new text, or why it cannot replace a caption: it was tried or is another's."""
    if words_of(text) in {words_of(one.text) for one in history.attempts}:
        detail = f"The model wrote a caption again that had failed: {text!r}."
        reason = "tried_before"
    elif words_of(text) in siblings:
        detail = f"The model wrote what another caption of the image says: {text!r}."
        reason = "same_captions"
    else:
        return text
    return Rejection.of(STAGE, reason, detail, text=text)


# The results of the validation loop for its page: dis(t) by round, shares by task, examples.


class RoundSummary(NamedTuple):
    """All captions after a round; captions that passed earlier are unchanged.

    Attributes:
        round: number of revisions; 0 for the original captions.
        written: number of captions written in this round; all in round 0.
        attempts: the text of each caption after it.
    """

    round: int
    written: int
    attempts: tuple[Attempt, ...]

    @property
    def counts(self) -> Counter[CaptionVerdict]:
        """The number of captions of each verdict."""
        return Counter(attempt.verdict for attempt in self.attempts)

    @property
    def share_passing(self) -> float:
        """The share of captions that passed, in [0, 1]."""
        return share_passing([attempt.verdict for attempt in self.attempts])


class TaskSummary(NamedTuple):
    """The shares of a task's captions that passed at first and in the end, in [0, 1]."""

    task: RetrievalTask
    captions: int
    first: float
    last: float
    for_people: int


EXAMPLES = 6
"""The number of captions shown at each end."""
VERDICTS = (CaptionVerdict.OVER_DETAILED, CaptionVerdict.PASS, CaptionVerdict.UNDER_DETAILED)
"""The parts of a bar from the bottom."""


@dataclass(frozen=True)
class ValidationReport:
    """The figures of a validation.

    Attributes:
        dataset: the dataset of the captions.
        histories: everything that was tried.
        settings: when a caption passes; without a temperature if it was calibrated.
        temperature: the temperature of similarities.
        embedder: the embedder, as `name@revision`.
    """

    dataset: str
    histories: Sequence[CaptionHistory]
    settings: DiscriminabilitySettings
    temperature: float
    embedder: str

    @property
    def interval(self) -> AcceptedInterval:
        """The values of dis(t) that pass."""
        return AcceptedInterval.of(self.settings.k, self.settings.eta)

    @cached_property
    def rounds(self) -> list[RoundSummary]:
        """A summary of each round including round 0; empty without captions."""
        last = max((history.round for history in self.histories), default=-1)
        return [
            RoundSummary(
                number,
                sum(history.round >= number for history in self.histories),
                tuple(one.attempts[min(number, one.round)] for one in self.histories),
            )
            for number in range(last + 1)
        ]

    @property
    def tasks(self) -> list[TaskSummary]:
        """A summary of each task that has captions, in the order of `in_order`."""
        by_task = grouped((history.task, history) for history in self.histories)
        return [
            TaskSummary(
                task,
                len(found),
                share_passing([history.attempts[0].verdict for history in found]),
                share_passing([history.current.verdict for history in found]),
                sum(not history.passes for history in found),
            )
            for task, found in ((task, by_task[task]) for task in in_order(by_task))
        ]

    @property
    def for_people(self) -> int:
        """The number of captions left to people."""
        return sum(not history.passes for history in self.histories)

    @property
    def by_first_dis(self) -> list[CaptionHistory]:
        """The captions by dis(t) of their first text, lowest first."""
        return sorted(self.histories, key=lambda one: (one.attempts[0].dis, one.key))

    @cached_property
    def bars(self) -> tuple[list[tuple[HistogramBar, ...]], int]:
        """The bars of dis(t) after each round, from 0 to log k, and the count of the highest."""
        return stacked_bars(
            np.linspace(0, math.log(self.settings.k), BINS + 1),
            [
                [
                    np.array([one.dis for one in summary.attempts if one.verdict is verdict])
                    for verdict in VERDICTS
                ]
                for summary in self.rounds
            ],
            digits=".3f",
        )


# The report on the validation of captions, as one self-contained HTML page.

Thumbnail = Callable[[str], str | None]
"""Returns an image as a small `data:` URI by its name in the histories, or None if missing."""


def render_report(report: ValidationReport, thumbnail: Thumbnail) -> str:
    """Render the report as one HTML page."""
    log_k = math.log(report.settings.k)
    template = flow_pages().get_template("discriminability_report.html.j2")
    return template.render(
        report=report,
        examples=(report.by_first_dis[:EXAMPLES], report.by_first_dis[::-1][:EXAMPLES]),
        thumbnail=thumbnail,
        verdicts=VERDICTS,
        words={verdict: verdict.value.replace("_", "-") for verdict in VERDICTS},
        log_k=log_k,
        ends=[(round(100 * end / log_k, 3), end) for end in report.interval],
        marks=[(25 * quarter, log_k * quarter / 4) for quarter in range(5)],
    )
