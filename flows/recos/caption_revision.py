"""Has captions written anew that are too general or too detailed."""

from collections import Counter
from collections.abc import Mapping, Sequence

from flows.engine.model_step import ask
from flows.recos.caption_pool import CaptionPool
from flows.recos.captioning import Captioner, read_revision, request_revision
from flows.recos.validation_loop import STAGE, CaptionHistory
from prompts.loader import Prompt
from schemas.chat import ChatAnswer, ChatFailure, ChatOutcome
from schemas.errors import ModelError
from schemas.records import Rejection
from schemas.recos import CaptionVerdict


class CaptionReviser:
    """Asks for new texts, and knows what the captions of each image say by now."""

    def __init__(
        self,
        captioner: Captioner,
        prompt: Prompt,
        pool: CaptionPool,
        facts: Mapping[str, Sequence[str]],
    ) -> None:
        self._captioner = captioner
        self._prompt = prompt
        self._pool = pool
        self._facts = facts
        self._calls: dict[tuple[str, str], str] = {}
        self._said: dict[str, dict[str, str]] = {}
        for draft in pool.drafts:
            self._said.setdefault(draft.image, {})[draft.key] = draft.text

    def call_of(self, key: str, text: str) -> str:
        """The model call that gave this text for the caption with that key."""
        return self._calls[key, text]

    def rewrite(self, failing: Sequence[CaptionHistory]) -> list[str | Rejection]:
        """New texts; captions of one image are asked for one after the other, so as to differ."""
        answers: dict[str, str | Rejection] = {}
        waves: dict[int, list[CaptionHistory]] = {}
        asked: Counter[str] = Counter()
        for history in failing:
            waves.setdefault(asked[history.image], []).append(history)
            asked[history.image] += 1
        for wave in waves.values():
            answers.update(self._ask(wave))
        return [answers[history.key] for history in failing]

    def _ask(self, failing: Sequence[CaptionHistory]) -> dict[str, str | Rejection]:
        """A new text for each of captions of different images."""
        requests = [
            request_revision(
                self._captioner.picture(self._pool.image(history.image)),
                history.task,
                self._facts.get(history.image, ()),
                history.current.text,
                history.current.verdict,
                self._prompt,
                too_detailed=history.tried(CaptionVerdict.OVER_DETAILED),
                too_general=history.tried(CaptionVerdict.UNDER_DETAILED),
                taken=self._others(history),
            )
            for history in failing
        ]
        outcomes = ask(self._captioner.model, requests)
        answers: dict[str, str | Rejection] = {}
        for place, (history, request) in enumerate(zip(failing, requests, strict=True)):
            answer = answers[history.key] = self._read(outcomes.get(place))
            if isinstance(answer, str):
                self._calls[history.key, answer] = self._captioner.model.key(request)
                self._said[history.image][history.key] = answer
        return answers

    def _others(self, history: CaptionHistory) -> list[str]:
        """What the other captions of its image say now."""
        said = self._said[history.image]
        return [text for key, text in said.items() if key != history.key]

    def _read(self, outcome: ChatOutcome | None) -> str | Rejection:
        if isinstance(outcome, ChatAnswer):
            return read_revision(outcome)
        if isinstance(outcome, ChatFailure) and not outcome.retriable:
            context = {"raw": outcome.raw}
            return Rejection(
                stage=STAGE, reason=outcome.reason, detail=outcome.detail, context=context
            )
        reason = outcome.reason if outcome else "not asked"
        raise ModelError(
            f"{self._captioner.author} did not write captions anew ({reason}); what came back is "
            f"stored, run again when it answers"
        )
