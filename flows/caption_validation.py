"""Holds captions against the images that they could be mistaken for; has some written anew.

The whole loop is one computation (`stages.caption_validation.loop`): what a model answered and what
an embedder gave is in the store, so that a run that was stopped computes it again at no cost, and
comes to the same. What came of each image is then committed as any other work.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from annotate.candidates import EXAMINES
from annotate.drafts import PROMPTED_BY
from annotate.items import DESCRIBES
from db.decisions import NewDecision
from db.entities import NewEntity, StoredEntity, find_children, new_entity, parents_of
from db.work import WorkResult
from flows.asking import ask
from flows.captioning import WRITTEN_WITH, Captioner, caption_entity, facts_of, task_of
from flows.context import RunContext
from flows.discriminability_report import report_on
from flows.discriminability_report_page import write_report
from flows.embedding import CachedEmbedder
from flows.image_selection import turned_down
from flows.leases import sole_run
from flows.pages import thumbnail_uri
from flows.report import StageReport
from flows.rewriting import store_prompt
from flows.runner import Stage, run_stream
from flows.standing_validation import MEASURES, VALIDATED_WITH, standing_images
from flows.task_images import embed_stored, images_of_tier, picture_of
from models.embedding import Vectors
from prompts.loader import load_prompt
from retrieval.discriminability.validation import CaptionValidator
from schemas.base import EntityRecord
from schemas.chat import ChatAnswer, ChatFailure, ChatOutcome
from schemas.errors import ConfigurationError, ModelError
from schemas.quality import CaptionCheck
from schemas.records import Caption, Rejection
from schemas.recos import CaptionVerdict, DiscriminabilityReport
from stages.caption_images.answer import read_revision
from stages.caption_images.request import request_revision
from stages.caption_validation.history import STAGE, CaptionHistory, reports_of
from stages.caption_validation.loop import Draft, ValidationOutcome, run_validation
from stages.check_grammar.check import check_grammar, words_of

VERSION = "1"
REVISED_FROM = "revised_from"
"""The role of the caption in whose place one was written."""
_SIDE_PX = 160


class Validation(NamedTuple):
    """What came of all captions, and where that can be looked at.

    `page` is None where captions stand as they were validated before, and were not held against
    anything again.
    """

    report: StageReport
    page: Path | None


def validate_captions(
    captioner: Captioner,
    written_with: NewEntity,
    embedder: CachedEmbedder,
    before_storing: Callable[[], None] = lambda: None,
) -> Validation:
    """Validates the captions that were written with those settings, and stores what came of it.

    Of what was tried for a caption, the text nearest to what passes stays proposed; the others are
    rejected with what was found of them. What does not pass, or what the grammar check doubts, is
    marked for the people of the queue. `before_storing` is called when the loop came to its end.
    Where something was withdrawn since, captions of the images that were validated before stand as
    they are (`flows.standing_validation`).

    Runs side by side do this one after the other: what one had written anew, the next finds stored.

    Raises:
        DegenerateCriterionError: the criterion does not tell the captions apart.
        ConfigurationError: there are too few images, or no captions.
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is gone; what came back before is stored.
    """
    with sole_run(captioner.context, captioner.dataset, STAGE, VERSION):
        loop = _Loop(captioner, written_with, embedder)
        if (standing := loop.standing()) is not None:
            before_storing()
            return Validation(standing, None)
        loop.prepare()
        outcome = loop.run()
        before_storing()
        return Validation(loop.store(outcome), loop.show(outcome))


class _Loop:
    """One computation of the loop, and what it is made of."""

    def __init__(
        self, captioner: Captioner, written_with: NewEntity, embedder: CachedEmbedder
    ) -> None:
        self._captioner = captioner
        self._context: RunContext = captioner.context
        self._settings = captioner.settings.discriminability
        self._embedder = embedder
        self._prompt = load_prompt(captioner.settings.revision_prompt)
        not_selected = turned_down(self._context.store, captioner.dataset)
        self._images = [
            image
            for image in images_of_tier(self._context.store, captioner.dataset, "v0")
            if image.id not in not_selected
        ]
        self._place = {image.id: place for place, image in enumerate(self._images)}
        self._image_of: dict[str, str] = {}
        self._captions = self._written(written_with.id)
        self._standing = standing_images(
            self._context.store, captioner.dataset, self._image_of, self._place
        )

    def standing(self) -> StageReport | None:
        """How much stands as it was validated before; None where anything is to be validated."""
        described = {self._image_of[one] for one in self._captions}
        if not described <= self._standing:
            return None
        return StageReport(STAGE, already_done=len(described))

    def prepare(self) -> None:
        """Embeds images and captions, and sets what similarities are divided by.

        Raises:
            ConfigurationError: there are too few images.
        """
        if len(self._images) <= self._settings.k:
            raise ConfigurationError(
                f"captions of {self._captioner.dataset!r} are to be held against "
                f"{self._settings.k} other images each (captioning.discriminability.k), and v0 has "
                f"{len(self._images)}; take more images, or a smaller k"
            )
        self._facts = facts_of(self._context.store, list(self._place))
        rows = embed_stored(self._context, self._embedder, self._images)
        self._validator = CaptionValidator(rows, self._settings, name="the images of v0")
        self._calls: dict[tuple[str, str], str] = {}
        self._drafts = self._drafted()
        self._said: dict[str, dict[str, str]] = {}
        for draft in self._drafts:
            self._said.setdefault(draft.image, {})[draft.key] = draft.text
        texts, targets = self._embedded(self._drafts)
        self._temperature = self._validator.calibrate(texts, targets)

    def run(self) -> ValidationOutcome:
        """Validates, asks anew, validates again."""
        return run_validation(
            self._drafts, self._measure, self._rewrite, self._settings, self._temperature
        )

    def store(self, outcome: ValidationOutcome) -> StageReport:
        """Commits what came of every image's captions."""
        captioner = self._captioner
        told = captioner.settings_of(
            STAGE,
            VERSION,
            self._prompt,
            discriminability=self._settings.model_dump(mode="json"),
            temperature=self._temperature,
            embedder=str(self._embedder.ref),
            images=sorted(self._place),
            captions=sorted(self._captions),
        )
        prompt = store_prompt(self._context, captioner.dataset, self._prompt)
        stage = Stage(
            name=STAGE,
            version=VERSION,
            dataset=captioner.dataset,
            configuration={"settings": told.id},
            agents=(captioner.agent,),
            workers=1,
            label="validate captions",
        )
        of_images: dict[str, list[CaptionHistory]] = {}
        for history in outcome.histories:
            of_images.setdefault(history.image, []).append(history)
        items = [
            (image.seq, of_images[image.id])
            for image in self._images
            if image.id in of_images and image.id not in self._standing
        ]

        def work(items: Sequence[tuple[int, list[CaptionHistory]]]) -> list[WorkResult]:
            return [self._result(number, of_image, told, prompt) for number, of_image in items]

        return run_stream(self._context, stage, items, work, total=len(items))

    def show(self, outcome: ValidationOutcome) -> Path:
        """Writes the page that shows what came of the captions."""
        context = self._context
        report = report_on(
            self._captioner.dataset,
            outcome.histories,
            self._settings,
            self._temperature,
            str(self._embedder.ref),
        )
        path = context.settings.home / "reports" / f"{self._captioner.dataset}-captions.html"

        def thumbnail(image_id: str) -> str | None:
            return thumbnail_uri(context.blobs, picture_of(self._image(image_id)), _SIDE_PX)

        write_report(report, thumbnail, path)
        return path

    def _written(self, settings_id: str) -> dict[str, StoredEntity]:
        """The captions as they were first written, by id, in the order of images and positions."""
        captions = list(find_children(self._context.store, settings_id, WRITTEN_WITH))
        if not captions:
            raise ConfigurationError(
                f"no image of {self._captioner.dataset!r} has captions; look at: loupe quarantine "
                f"{self._captioner.dataset}"
            )
        self._image_of = {
            caption: found[0]
            for caption, found in parents_of(
                self._context.store, [one.id for one in captions], DESCRIBES
            ).items()
        }
        captions = [
            one
            for one in captions
            if self._image_of[one.id] in self._place and one.state != "withdrawn"
        ]
        captions.sort(
            key=lambda one: (self._place[self._image_of[one.id]], one.record(Caption).position)
        )
        return {one.id: one for one in captions}

    def _drafted(self) -> list[Draft]:
        return [
            Draft(
                id_,
                self._image_of[id_],
                task_of(self._image(self._image_of[id_])),
                caption.record(Caption).text,
            )
            for id_, caption in self._captions.items()
        ]

    def _image(self, image_id: str) -> StoredEntity:
        return self._images[self._place[image_id]]

    def _embedded(self, drafts: Sequence[Draft]) -> tuple[Vectors, NDArray[np.int64]]:
        texts = self._embedder.embed_texts([draft.text for draft in drafts])
        return texts, np.array([self._place[draft.image] for draft in drafts], np.int64)

    def _measure(self, drafts: Sequence[Draft]) -> list[float]:
        texts, targets = self._embedded(drafts)
        found: list[float] = self._validator.score(texts, targets, self._temperature).dis.tolist()
        return found

    def _rewrite(self, failing: Sequence[CaptionHistory]) -> list[str | Rejection]:
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
                self._captioner.picture(self._image(history.image)),
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

    def _result(
        self, number: int, histories: Sequence[CaptionHistory], told: NewEntity, prompt: NewEntity
    ) -> WorkResult:
        entities: list[NewEntity] = []
        decisions: list[NewDecision] = []
        for history in histories:
            revised = self._revised(history, told, prompt)
            entities += revised
            ids = [history.key, *(one.id for one in revised)]
            reports = reports_of(
                history, self._settings, self._temperature, str(self._embedder.ref)
            )
            entities += [
                self._about(report, MEASURES, id_, told)
                for report, id_ in zip(reports, ids, strict=True)
            ]
            chosen = history.attempts.index(history.best(self._validator.interval))
            entities.append(
                self._about(self._checked(history, chosen), EXAMINES, ids[chosen], told)
            )
            decisions += [
                NewDecision(id_, "reject", self._context.software, _why_not(report))
                for place, (id_, report) in enumerate(zip(ids, reports, strict=True))
                if place != chosen
            ]
        return WorkResult(number, entities=tuple(entities), decisions=tuple(decisions))

    def _revised(
        self, history: CaptionHistory, told: NewEntity, prompt: NewEntity
    ) -> list[NewEntity]:
        """What was written in the place of a caption, round by round."""
        image = self._image(history.image)
        position = self._captions[history.key].record(Caption).position
        texts: list[NewEntity] = []
        earlier = history.key
        for attempt in history.attempts[1:]:
            parents = [
                (PROMPTED_BY, prompt.id),
                (VALIDATED_WITH, told.id),
                (REVISED_FROM, earlier),
            ]
            call = self._calls[history.key, attempt.text]
            texts.append(
                caption_entity(self._captioner, image, attempt.text, position, parents, call)
            )
            earlier = texts[-1].id
        return texts

    def _checked(self, history: CaptionHistory, chosen: int) -> CaptionCheck:
        """What speaks against the text that was chosen."""
        attempt = history.attempts[chosen]
        known = words_of(self._facts.get(history.image, ()))
        doubts = [finding.message for finding in check_grammar(attempt.text, known_words=known)]
        if attempt.verdict is not CaptionVerdict.PASS:
            words = attempt.verdict.value.replace("_", "-")
            doubts.append(f"It is {words} after {_rounds(history.round)}.")
        return CaptionCheck(doubts=tuple(doubts))

    def _about(
        self, record: EntityRecord, role: str, caption_id: str, told: NewEntity
    ) -> NewEntity:
        parents = [(role, caption_id), (VALIDATED_WITH, told.id)]
        return new_entity(record, self._captioner.dataset, parents=parents)


def _why_not(report: DiscriminabilityReport) -> str:
    if report.verdict is CaptionVerdict.PASS:
        return "another text was nearer to what passes"
    words = report.verdict.value.replace("_", "-")
    return f"{words}: dis(t) {report.dis:.3f} is not in [{report.lower:.3f}, {report.upper:.3f}]"


def _rounds(number: int) -> str:
    return "1 round" if number == 1 else f"{number} rounds"
