"""Revises captions that are too general or too detailed."""

from collections import Counter
from collections.abc import Mapping, Sequence

from db.work import WorkResult
from flows.engine.model_step import Ask, Unparsable, ask_and_parse, result_without_value
from flows.recos.caption_pool import CaptionPool
from flows.recos.captioning import Captioner, read_revision, request_revision
from flows.recos.validation_loop import STAGE, CaptionHistory
from prompts.loader import Prompt
from schemas.chat import ChatFailure
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
        asks = [
            Ask(
                history,
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
                ),
            )
            for history in failing
        ]
        found = ask_and_parse(self._captioner.model, asks, lambda _, answer: read_revision(answer))
        answers: dict[str, str | Rejection] = {}
        for history, one in zip(failing, found, strict=True):
            if isinstance(one, Unparsable):
                answers[history.key] = self._rejection(one)
            else:
                answers[history.key] = one.value
                self._calls[history.key, one.value] = one.call
                self._said[history.image][history.key] = one.value
        return answers

    def _others(self, history: CaptionHistory) -> list[str]:
        """What the other captions of its image say now."""
        said = self._said[history.image]
        return [text for key, text in said.items() if key != history.key]

    def _rejection(self, found: Unparsable) -> Rejection:
        result = result_without_value(0, STAGE, found)
        if isinstance(result, WorkResult) and result.rejection is not None:
            return result.rejection
        reason = found.outcome.reason if isinstance(found.outcome, ChatFailure) else "not asked"
        raise ModelError(
            f"{self._captioner.author} did not revise the captions ({reason}); what came back is "
            f"stored, run again when it answers"
        )
