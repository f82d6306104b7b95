"""The validation loop of captions (ReCoS, section 3.2), without a model, an embedder or a store."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from flows.answers import Words, words_of
from schemas.evaluation import AcceptedInterval, check_not_degenerate, share_passing
from schemas.records import Rejection
from schemas.recos import CaptionVerdict, DiscriminabilityReport, DiscriminabilitySettings
from schemas.retrieval_task import RetrievalTask

STAGE = "validate_captions"


class Step(StrEnum):
    """The next step of a caption."""

    PASS = "pass"  # noqa: S105 - no password
    REVISE = "revise"
    ASK_PEOPLE = "ask_people"


class Attempt(NamedTuple):
    """A text that was tried, and what was found; `dis` is dis(t)."""

    text: str
    dis: float
    verdict: CaptionVerdict


class CaptionHistory(NamedTuple):
    """All that was tried for one caption.

    Attributes:
        key: the caption's name, unique among all.
        image: the name of the image that it describes.
        task: what the image is for.
        attempts: the oldest first, the text as it was first written; never empty.
        unusable: why the last answer of the model could not be used, where that ended it.
    """

    key: str
    image: str
    task: RetrievalTask
    attempts: tuple[Attempt, ...]
    unusable: Rejection | None = None

    @property
    def current(self) -> Attempt:
        """What was tried last."""
        return self.attempts[-1]

    @property
    def round(self) -> int:
        """How often the caption was revised."""
        return len(self.attempts) - 1

    def tried(self, verdict: CaptionVerdict) -> tuple[str, ...]:
        """Earlier texts, the current one left out, that failed like this."""
        return tuple(one.text for one in self.attempts[:-1] if one.verdict is verdict)

    def best(self, interval: AcceptedInterval) -> Attempt:
        """The attempt nearest to what passes: what people are shown first. The last of equals."""

        def beyond(attempt: Attempt) -> float:
            return max(interval.lower - attempt.dis, attempt.dis - interval.upper, 0.0)

        return min(reversed(self.attempts), key=beyond)

    def next_step(self, settings: DiscriminabilitySettings) -> Step:
        """Whether the caption passes, is revised, or goes to people.

        It goes to people when it was revised as often as the settings allow, or when the model gave
        nothing that could be used: the same request would get the same answer.
        """
        if self.current.verdict is CaptionVerdict.PASS:
            return Step.PASS
        if self.unusable is not None or self.round >= settings.rounds:
            return Step.ASK_PEOPLE
        return Step.REVISE


def reports_of(
    history: CaptionHistory,
    settings: DiscriminabilitySettings,
    temperature: float,
    embedder: str,
) -> tuple[DiscriminabilityReport, ...]:
    """What was found of every attempt, the oldest first.

    Args:
        history: what was tried.
        settings: when a caption passes.
        temperature: what similarities were divided by, calibrated or not.
        embedder: what made the embeddings, `name@revision`.
    """
    interval = AcceptedInterval.of(settings.k, settings.eta)
    return tuple(
        DiscriminabilityReport(
            round=number,
            dis=attempt.dis,
            lower=interval.lower,
            upper=interval.upper,
            verdict=attempt.verdict,
            k=settings.k,
            temperature=temperature,
            embedder=embedder,
        )
        for number, attempt in enumerate(history.attempts)
    )


class Draft(NamedTuple):
    """A caption to be validated: its unique name, its image and that image's task, its text."""

    key: str
    image: str
    task: RetrievalTask
    text: str


Measure = Callable[[Sequence[Draft]], Sequence[float]]
"""dis(t) of each draft, in order. Called with texts that were not measured before."""
Rewrite = Callable[[Sequence[CaptionHistory]], Sequence[str | Rejection]]
"""A new text for each caption, in order, or why there is none. See `flows.recos.captioning`."""


class ValidationOutcome(NamedTuple):
    """The outcome of all captions, in the order in which they were given.

    Attributes:
        histories: everything that was tried.
        calls: how many new texts were asked for.
    """

    histories: tuple[CaptionHistory, ...]
    calls: int


def run_validation(
    drafts: Sequence[Draft],
    measure: Measure,
    rewrite: Rewrite,
    settings: DiscriminabilitySettings,
    temperature: float,
) -> ValidationOutcome:
    """Validates captions until each passes or goes to people.

    A caption is revised at most `settings.rounds` times, so there are at most that many requests
    for each caption. Only what changed is measured again.

    Args:
        drafts: captions as they were first written.
        measure: gives dis(t).
        rewrite: revises captions.
        settings: when a caption passes.
        temperature: what `measure` divides similarities by, for messages.

    Raises:
        DegenerateCriterionError: the criterion does not distinguish the captions; nothing was
            revised.
        ValueError: two drafts have one name, or a callable gave another number of results.
    """
    if len({draft.key for draft in drafts}) < len(drafts):
        raise ValueError("two captions have the same key")
    interval = AcceptedInterval.of(settings.k, settings.eta)
    found = measure(drafts)
    check_not_degenerate(found, settings, temperature)
    histories = {
        draft.key: CaptionHistory(
            draft.key, draft.image, draft.task, (Attempt(draft.text, dis, interval.verdict(dis)),)
        )
        for draft, dis in zip(drafts, found, strict=True)
    }
    calls = 0
    while failing := [
        history for history in histories.values() if history.next_step(settings) is Step.REVISE
    ]:
        calls += len(failing)
        siblings: dict[str, set[Words]] = defaultdict(set)
        for history in histories.values():
            siblings[history.image].add(words_of(history.current.text))
        revised = next_round(failing, rewrite(failing), siblings, measure, interval)
        histories.update({history.key: history for history in revised})
    return ValidationOutcome(tuple(histories.values()), calls)


def next_round(
    failing: Sequence[CaptionHistory],
    answers: Sequence[str | Rejection],
    siblings: Mapping[str, set[Words]],
    measure: Measure,
    interval: AcceptedInterval,
) -> list[CaptionHistory]:
    """The histories of captions that failed, after what was written in their place.

    Args:
        failing: what was asked for.
        answers: what was written, in the same order.
        siblings: the words of the current captions of each image; those of what is written join
            them.
        measure: gives dis(t) of what was written.
        interval: what passes.
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
    """A new text, or why it cannot replace a caption: it was tried before, or is another's."""
    if words_of(text) in {words_of(one.text) for one in history.attempts}:
        detail = f"The model wrote a caption again that had failed: {text!r}."
        reason = "tried_before"
    elif words_of(text) in siblings:
        detail = f"The model wrote what another caption of the image says: {text!r}."
        reason = "same_captions"
    else:
        return text
    return Rejection(stage=STAGE, reason=reason, detail=detail, context={"text": text})


# The figures of a validation: shares that pass, by round and by task.


class RoundSummary(NamedTuple):
    """All captions after a round; those that had passed stay as they were.

    Attributes:
        round: how often captions had been revised; 0 is as they were first written.
        written: how many captions were written in this round; all in round 0.
        attempts: the text of each caption after it.
    """

    round: int
    written: int
    attempts: tuple[Attempt, ...]

    @property
    def counts(self) -> dict[CaptionVerdict, int]:
        """How many captions had which verdict."""
        verdicts = [attempt.verdict for attempt in self.attempts]
        return {verdict: verdicts.count(verdict) for verdict in CaptionVerdict}

    @property
    def share_passing(self) -> float:
        """The share, in [0, 1], of captions that passed."""
        return share_passing([attempt.verdict for attempt in self.attempts])


class TaskSummary(NamedTuple):
    """The share, in [0, 1], of a task's captions that passed at first and in the end."""

    task: RetrievalTask
    captions: int
    first: float
    last: float
    for_people: int


def summary_by_round(histories: Sequence[CaptionHistory]) -> list[RoundSummary]:
    """A summary for each round, the first included; none of no captions."""
    last = max((history.round for history in histories), default=-1)
    return [
        RoundSummary(
            number,
            sum(history.round >= number for history in histories),
            tuple(history.attempts[min(number, history.round)] for history in histories),
        )
        for number in range(last + 1)
    ]


def summary_by_task(
    histories: Iterable[CaptionHistory], settings: DiscriminabilitySettings
) -> list[TaskSummary]:
    """A summary for each task that has captions, in the order of `RetrievalTask`."""
    by_task: dict[RetrievalTask, list[CaptionHistory]] = {task: [] for task in RetrievalTask}
    for history in histories:
        by_task[history.task].append(history)
    return [
        TaskSummary(
            task,
            len(found),
            share_passing([history.attempts[0].verdict for history in found]),
            share_passing([history.current.verdict for history in found]),
            sum(history.next_step(settings) is Step.ASK_PEOPLE for history in found),
        )
        for task, found in by_task.items()
        if found
    ]
