"""What was tried for one caption, and what comes next."""

from enum import StrEnum
from typing import NamedTuple

from schemas.discriminability import AcceptedInterval
from schemas.records import Rejection
from schemas.recos import CaptionVerdict, DiscriminabilityReport, DiscriminabilitySettings
from schemas.retrieval_task import RetrievalTask
from stages.caption_words import words_of

STAGE = "validate_captions"


class Step(StrEnum):
    """What becomes of a caption next."""

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
        """How often the caption was written anew."""
        return len(self.attempts) - 1

    def tried(self, verdict: CaptionVerdict) -> tuple[str, ...]:
        """Earlier texts, the current one left out, that failed like this."""
        return tuple(one.text for one in self.attempts[:-1] if one.verdict is verdict)

    def best(self, interval: AcceptedInterval) -> Attempt:
        """The attempt nearest to what passes: what people are shown first. The last of equals."""
        return min(reversed(self.attempts), key=lambda one: _beyond(one.dis, interval))

    def next_step(self, settings: DiscriminabilitySettings) -> Step:
        """What becomes of the caption: it passes, is written anew, or goes to people.

        It goes to people when it was written anew as often as the settings allow, or when the model
        gave nothing that could be used: the same request would get the same answer.
        """
        if self.current.verdict is CaptionVerdict.PASS:
            return Step.PASS
        if self.unusable is not None or self.round >= settings.rounds:
            return Step.ASK_PEOPLE
        return Step.REVISE

    def with_attempt(self, attempt: Attempt) -> "CaptionHistory":
        """The history after another round."""
        return self._replace(attempts=(*self.attempts, attempt))

    def refusal_of(self, text: str) -> Rejection | None:
        """Why a new text is no use, though it is a caption: it was tried before."""
        if words_of(text) not in {words_of(one.text) for one in self.attempts}:
            return None
        detail = f"The model wrote a caption again that had failed: {text!r}."
        return Rejection(stage=STAGE, reason="tried_before", detail=detail, context={"text": text})


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


def _beyond(dis: float, interval: AcceptedInterval) -> float:
    """How far dis(t) is from what passes; 0 where it does."""
    return max(interval.lower - dis, dis - interval.upper, 0.0)
