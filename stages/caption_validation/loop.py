"""Captions held against their likes, and written anew where they fail, round by round."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from schemas.discriminability import AcceptedInterval, check_not_degenerate
from schemas.records import Rejection
from schemas.recos import DiscriminabilitySettings
from schemas.retrieval_task import RetrievalTask
from stages.caption_validation.history import STAGE, Attempt, CaptionHistory, Step
from stages.caption_words import Words, words_of


class Draft(NamedTuple):
    """A caption to be validated: its unique name, its image and that image's task, its text."""

    key: str
    image: str
    task: RetrievalTask
    text: str


Measure = Callable[[Sequence[Draft]], Sequence[float]]
"""dis(t) of each draft, in order. Called with texts that were not measured before."""
Rewrite = Callable[[Sequence[CaptionHistory]], Sequence[str | Rejection]]
"""A new text for each caption, in order, or why there is none. See `stages.caption_images`."""


class ValidationOutcome(NamedTuple):
    """What came of all captions, in the order in which they were given.

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

    A caption is written anew at most `settings.rounds` times, so no more than that times the number
    of captions is asked for. Only what changed is measured again.

    Args:
        drafts: captions as they were first written.
        measure: gives dis(t).
        rewrite: writes captions anew.
        settings: when a caption passes.
        temperature: what `measure` divides similarities by, for messages.

    Raises:
        DegenerateCriterionError: the criterion does not tell the captions apart; nothing was
            written anew.
        ValueError: two drafts have one name, or a callable gave another number of results.
    """
    if len({draft.key for draft in drafts}) < len(drafts):
        raise ValueError("two captions have the same key")
    interval = AcceptedInterval.of(settings.k, settings.eta)
    histories = first_round(drafts, measure, interval)
    dis = [history.current.dis for history in histories.values()]
    check_not_degenerate(dis, settings, temperature)
    calls = 0
    while failing := [
        history for history in histories.values() if history.next_step(settings) is Step.REVISE
    ]:
        calls += len(failing)
        siblings = _words_by_image(histories.values())
        revised = next_round(failing, rewrite(failing), siblings, measure, interval)
        histories.update({history.key: history for history in revised})
    return ValidationOutcome(tuple(histories.values()), calls)


def first_round(
    drafts: Sequence[Draft], measure: Measure, interval: AcceptedInterval
) -> dict[str, CaptionHistory]:
    """The captions as they were first written, by their keys."""
    return {
        draft.key: CaptionHistory(
            draft.key, draft.image, draft.task, (Attempt(draft.text, dis, interval.verdict(dis)),)
        )
        for draft, dis in zip(drafts, measure(drafts), strict=True)
    }


def next_round(
    failing: Sequence[CaptionHistory],
    answers: Sequence[str | Rejection],
    siblings: dict[str, set[Words]],
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
        of_image = siblings.setdefault(history.image, set())
        refusal = answer if isinstance(answer, Rejection) else _refusal(history, answer, of_image)
        judged.append((history, refusal or answer))
        if refusal is None and isinstance(answer, str):
            of_image.add(words_of(answer))
    fresh = [
        Draft(history.key, history.image, history.task, answer)
        for history, answer in judged
        if isinstance(answer, str)
    ]
    found = iter(measure(fresh) if fresh else ())
    return [
        history._replace(unusable=answer)
        if isinstance(answer, Rejection)
        else _measured(history, answer, next(found), interval)
        for history, answer in judged
    ]


def _measured(
    history: CaptionHistory, text: str, dis: float, interval: AcceptedInterval
) -> CaptionHistory:
    return history.with_attempt(Attempt(text, dis, interval.verdict(dis)))


def _refusal(history: CaptionHistory, text: str, siblings: set[Words]) -> Rejection | None:
    """Why a text is no use in the place of a caption, if it is not."""
    if refused := history.refusal_of(text):
        return refused
    if words_of(text) not in siblings:
        return None
    detail = f"The model wrote what another caption of the image says: {text!r}."
    return Rejection(stage=STAGE, reason="same_captions", detail=detail, context={"text": text})


def _words_by_image(histories: Iterable[CaptionHistory]) -> dict[str, set[Words]]:
    words: dict[str, set[Words]] = {}
    for history in histories:
        words.setdefault(history.image, set()).add(words_of(history.current.text))
    return words
