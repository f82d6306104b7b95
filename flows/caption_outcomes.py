"""What the validation of an image's captions leaves in the store."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from annotate.candidates import EXAMINES
from annotate.drafts import PROMPTED_BY
from db.decisions import NewDecision
from db.entities import NewEntity, new_entity
from db.work import WorkResult
from flows.caption_pool import CaptionPool
from flows.caption_revision import CaptionReviser
from flows.captioning import Captioner, caption_entity
from flows.standing_validation import MEASURES, VALIDATED_WITH
from schemas.base import EntityRecord
from schemas.discriminability import AcceptedInterval
from schemas.quality import CaptionCheck
from schemas.recos import CaptionVerdict, DiscriminabilityReport, DiscriminabilitySettings
from stages.caption_validation.history import CaptionHistory, reports_of
from stages.check_grammar.check import check_grammar, words_of

REVISED_FROM = "revised_from"
"""The role of the caption in whose place one was written."""


class ValidatedWith(NamedTuple):
    """How captions were validated: `told` are these settings as an entity, `prompt` as well.

    `temperature` is what similarities were divided by, `embedder` what made the embeddings.
    """

    told: NewEntity
    prompt: NewEntity
    settings: DiscriminabilitySettings
    temperature: float
    embedder: str


class CaptionOutcomes:
    """Makes entities and decisions of what came of captions."""

    def __init__(
        self,
        captioner: Captioner,
        pool: CaptionPool,
        reviser: CaptionReviser,
        facts: Mapping[str, Sequence[str]],
        validated: ValidatedWith,
    ) -> None:
        self._captioner = captioner
        self._pool = pool
        self._reviser = reviser
        self._facts = facts
        self._with = validated
        self._interval = AcceptedInterval.of(validated.settings.k, validated.settings.eta)

    def result(self, number: int, histories: Sequence[CaptionHistory]) -> WorkResult:
        """What is stored of the captions of one image, whose number is `seq`.

        The text nearest to what passes stays proposed, the others are rejected.
        """
        entities: list[NewEntity] = []
        decisions: list[NewDecision] = []
        for history in histories:
            revised = self._revised(history)
            ids = [history.key, *(one.id for one in revised)]
            reports = self._reports(history)
            chosen = history.attempts.index(history.best(self._interval))
            entities += revised
            entities += [
                self._about(report, MEASURES, id_) for report, id_ in zip(reports, ids, strict=True)
            ]
            entities.append(self._about(self._checked(history, chosen), EXAMINES, ids[chosen]))
            decisions += [
                NewDecision(id_, "reject", self._captioner.context.software, _why_not(report))
                for place, (id_, report) in enumerate(zip(ids, reports, strict=True))
                if place != chosen
            ]
        return WorkResult(number, entities=tuple(entities), decisions=tuple(decisions))

    def _revised(self, history: CaptionHistory) -> list[NewEntity]:
        """What was written in the place of a caption, round by round."""
        image = self._pool.image(history.image)
        position = self._pool.position(history.key)
        texts: list[NewEntity] = []
        earlier = history.key
        for attempt in history.attempts[1:]:
            parents = [
                (PROMPTED_BY, self._with.prompt.id),
                (VALIDATED_WITH, self._with.told.id),
                (REVISED_FROM, earlier),
            ]
            call = self._reviser.call_of(history.key, attempt.text)
            texts.append(
                caption_entity(self._captioner, image, attempt.text, position, parents, call)
            )
            earlier = texts[-1].id
        return texts

    def _reports(self, history: CaptionHistory) -> tuple[DiscriminabilityReport, ...]:
        how = self._with
        return reports_of(history, how.settings, how.temperature, how.embedder)

    def _checked(self, history: CaptionHistory, chosen: int) -> CaptionCheck:
        """What speaks against the text that was chosen."""
        attempt = history.attempts[chosen]
        known = words_of(self._facts.get(history.image, ()))
        doubts = [finding.message for finding in check_grammar(attempt.text, known_words=known)]
        if attempt.verdict is not CaptionVerdict.PASS:
            words = attempt.verdict.value.replace("_", "-")
            doubts.append(f"It is {words} after {_rounds(history.round)}.")
        return CaptionCheck(doubts=tuple(doubts))

    def _about(self, record: EntityRecord, role: str, caption_id: str) -> NewEntity:
        parents = [(role, caption_id), (VALIDATED_WITH, self._with.told.id)]
        return new_entity(record, self._captioner.dataset, parents=parents)


def _why_not(report: DiscriminabilityReport) -> str:
    if report.verdict is CaptionVerdict.PASS:
        return "another text was nearer to what passes"
    words = report.verdict.value.replace("_", "-")
    return f"{words}: dis(t) {report.dis:.3f} is not in [{report.lower:.3f}, {report.upper:.3f}]"


def _rounds(number: int) -> str:
    return "1 round" if number == 1 else f"{number} rounds"
