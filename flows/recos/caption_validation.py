"""Validates captions by dis(t), round by round, and what came of it."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from db.decisions import NewDecision
from db.entities import NewEntity, StoredEntity, find, find_children, new_entity, parents_of
from db.store import Store
from db.work import WorkResult
from flows.engine.embedding import CachedEmbedder
from flows.engine.model_step import Ask, Unparsable, ask_and_parse, result_without_value
from flows.engine.pages import thumbnail_uri
from flows.engine.report import StageReport
from flows.engine.runner import Stage, run_stream, sole_run
from flows.grammar import check_grammar, words_of
from flows.recos.captioning import (
    Captioner,
    caption_entity,
    facts_of,
    read_revision,
    request_revision,
    task_of,
)
from flows.recos.discriminability_report import report_on, write_report
from flows.recos.image_selection import turned_down
from flows.recos.task_images import embed_stored, images_of_tier, picture_of
from flows.recos.validation_loop import (
    STAGE,
    CaptionHistory,
    Draft,
    ValidationOutcome,
    reports_of,
    run_validation,
)
from models.embedding import Vectors
from prompts.loader import Prompt, load_prompt
from retrieval.discriminability import CaptionValidator
from schemas.base import EntityRecord
from schemas.chat import ChatFailure
from schemas.errors import ConfigurationError, ModelError
from schemas.evaluation import AcceptedInterval
from schemas.provenance import Role
from schemas.quality import CaptionCheck
from schemas.records import Caption, Rejection
from schemas.recos import CaptionVerdict, DiscriminabilityReport, DiscriminabilitySettings
from schemas.video import StageSettings


class CaptionPool:
    """The images that captions are compared with, and the captions.

    Attributes:
        images: the images of v0 that were not turned down.
        place: the position of each image among them, by its id.
        captions: the captions as they were first written, by id, in the order of images and
            positions; those that were withdrawn are left out.
        image_of: the image of each caption, also of those that are left out.
    """

    def __init__(self, store: Store, dataset: str, settings_id: str) -> None:
        """Reads the captions that were written with those settings.

        Raises:
            ConfigurationError: there are none.
        """
        not_selected = turned_down(store, dataset)
        self.images = [
            image for image in images_of_tier(store, dataset, "v0") if image.id not in not_selected
        ]
        self.place = {image.id: place for place, image in enumerate(self.images)}
        written = list(find_children(store, settings_id, Role.WRITTEN_WITH))
        if not written:
            raise ConfigurationError(
                f"no image of {dataset!r} has captions; look at: loupe quarantine {dataset}"
            )
        described = parents_of(store, [one.id for one in written], Role.DESCRIBES)
        self.image_of = {caption: found[0] for caption, found in described.items()}
        self.captions = {
            one.id: one for one in sorted(filter(self._counts, written), key=self._order)
        }

    def _counts(self, caption: StoredEntity) -> bool:
        return self.image_of[caption.id] in self.place and caption.state != "withdrawn"

    def _order(self, caption: StoredEntity) -> tuple[int, int]:
        return self.place[self.image_of[caption.id]], caption.record(Caption).position

    def image(self, image_id: str) -> StoredEntity:
        """The image with that id."""
        return self.images[self.place[image_id]]

    def position(self, caption_id: str) -> int:
        """Which of its image's captions one is."""
        return self.captions[caption_id].record(Caption).position

    @cached_property
    def drafts(self) -> list[Draft]:
        """The captions as the loop begins with them."""
        return [
            Draft(
                id_,
                self.image_of[id_],
                task_of(self.image(self.image_of[id_])),
                caption.record(Caption).text,
            )
            for id_, caption in self.captions.items()
        ]

    def targets(self, drafts: Sequence[Draft]) -> NDArray[np.int64]:
        """The places of the images that drafts describe, of shape (n,)."""
        return np.array([self.place[draft.image] for draft in drafts], np.int64)


class CaptionReviser:
    """Asks for new texts, and keeps track of the current captions of each image."""

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


# Captions stay as they were validated, though an image they were compared with is withdrawn: how
# well a caption distinguishes its image depends on all images, and what people have decided on or
# what was released must not change with that.


def active_images(
    store: Store, dataset: str, image_of: Mapping[str, str], pool: Mapping[str, int]
) -> frozenset[str]:
    """The images whose captions were validated before something of that validation was withdrawn.

    None where nothing was. `image_of` gives the image of each caption as it was first written,
    `pool` has the images that captions are compared with now.
    """
    standing: set[str] = set()
    for settings in find(store, dataset, StageSettings.kind):
        record = settings.record(StageSettings)
        if record.stage != STAGE:
            continue
        came = list(find_children(store, settings.id, Role.VALIDATED_WITH))
        is_whole = pool.keys() >= set(record.values["images"])
        if not is_whole or any(one.state == "withdrawn" for one in came):
            standing.update(_measured(store, came, image_of))
    return frozenset(standing)


def _measured(store: Store, came: list[StoredEntity], image_of: Mapping[str, str]) -> set[str]:
    """The images whose captions were measured."""
    reports = [one.id for one in came if one.kind == DiscriminabilityReport.kind]
    measured = parents_of(store, reports, Role.MEASURES)
    return {
        image_of[caption]
        for captions in measured.values()
        for caption in captions
        if caption in image_of
    }


# What the validation of an image's captions leaves in the store.


class ValidatedWith(NamedTuple):
    """How captions were validated; `entity` holds these settings, `prompt` the prompt of revisions.

    `temperature` is what similarities were divided by, `embedder` what made the embeddings.
    """

    entity: NewEntity
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
                self._about(report, Role.MEASURES, id_)
                for report, id_ in zip(reports, ids, strict=True)
            ]
            entities.append(self._about(self._checked(history, chosen), Role.EXAMINES, ids[chosen]))
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
                (Role.PROMPTED_BY, self._with.prompt.id),
                (Role.VALIDATED_WITH, self._with.entity.id),
                (Role.REVISED_FROM, earlier),
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

    def _about(self, record: EntityRecord, role: Role, caption_id: str) -> NewEntity:
        parents = [(role, caption_id), (Role.VALIDATED_WITH, self._with.entity.id)]
        return new_entity(record, self._captioner.dataset, parents=parents)


def _why_not(report: DiscriminabilityReport) -> str:
    if report.verdict is CaptionVerdict.PASS:
        return "another text was nearer to what passes"
    words = report.verdict.value.replace("_", "-")
    return f"{words}: dis(t) {report.dis:.3f} is not in [{report.lower:.3f}, {report.upper:.3f}]"


def _rounds(number: int) -> str:
    return "1 round" if number == 1 else f"{number} rounds"


# The whole loop is one computation (`flows.recos.validation_loop`): what a model answered and what
# an embedder gave is in the store, so that a run that was stopped computes it again at no cost, and
# comes to the same. The outcome of each image is then committed as any other work.

VERSION = "1"
_SIDE_PX = 160


class Validation(NamedTuple):
    """The outcome of all captions, and the page that shows it.

    `page` is None where captions stay as they were validated before, and nothing was compared
    again.
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
    marked for the people of the queue. `before_storing` is called when the loop has ended.
    Where something was withdrawn since, captions of the images that were validated before stand as
    they are (`flows.recos.caption_validation`).

    Runs side by side do this one after the other: what one had revised, the next finds stored.

    Raises:
        DegenerateCriterionError: the criterion does not distinguish the captions.
        ConfigurationError: there are too few images, or no captions.
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is gone; what came back before is stored.
    """
    context, dataset = captioner.context, captioner.dataset
    with sole_run(context, dataset, STAGE, VERSION):
        pool = CaptionPool(context.store, dataset, written_with.id)
        standing = active_images(context.store, dataset, pool.image_of, pool.place)
        described = {pool.image_of[one] for one in pool.captions}
        if described <= standing:
            before_storing()
            return Validation(StageReport(STAGE, already_done=len(described)), None)
        loop = _Loop(captioner, embedder, pool)
        loop.prepare()
        outcome = loop.run()
        before_storing()
        return Validation(loop.store(outcome, standing), loop.show(outcome))


class _Loop:
    """One computation of the loop, and what it is made of."""

    def __init__(self, captioner: Captioner, embedder: CachedEmbedder, pool: CaptionPool) -> None:
        self._captioner = captioner
        self._context = captioner.context
        self._settings = captioner.settings.discriminability
        self._embedder = embedder
        self._pool = pool
        self._prompt = load_prompt(captioner.settings.revision_prompt)

    def prepare(self) -> None:
        """Embeds images and captions, and sets what similarities are divided by.

        Raises:
            ConfigurationError: there are too few images.
        """
        pool = self._pool
        if len(pool.images) <= self._settings.k:
            raise ConfigurationError(
                f"captions of {self._captioner.dataset!r} are to be compared with "
                f"{self._settings.k} other images each (captioning.discriminability.k), and v0 has "
                f"{len(pool.images)}; take more images, or a smaller k"
            )
        self._facts = facts_of(self._context.store, list(pool.place))
        self._reviser = CaptionReviser(self._captioner, self._prompt, pool, self._facts)
        rows = embed_stored(self._context, self._embedder, pool.images)
        self._validator = CaptionValidator(rows, self._settings, name="the images of v0")
        self._temperature = self._validator.calibrate(*self._embedded(pool.drafts))

    def run(self) -> ValidationOutcome:
        """Validates, has failing captions revised, validates again."""
        drafts, rewrite = self._pool.drafts, self._reviser.rewrite
        return run_validation(drafts, self._measure, rewrite, self._settings, self._temperature)

    def _measure(self, drafts: Sequence[Draft]) -> list[float]:
        texts, targets = self._embedded(drafts)
        found: list[float] = self._validator.score(texts, targets, self._temperature).dis.tolist()
        return found

    def _embedded(self, drafts: Sequence[Draft]) -> tuple[Vectors, NDArray[np.int64]]:
        texts = self._embedder.embed_texts([draft.text for draft in drafts])
        return texts, self._pool.targets(drafts)

    def store(self, outcome: ValidationOutcome, standing: Collection[str]) -> StageReport:
        """Commits the outcome of every image's captions, but for images that stay as they were."""
        validated = self._validated()
        outcomes = CaptionOutcomes(
            self._captioner, self._pool, self._reviser, self._facts, validated
        )
        stage = Stage(
            name=STAGE,
            version=VERSION,
            dataset=self._captioner.dataset,
            configuration={"settings": validated.entity.id},
            agents=(self._captioner.agent,),
            workers=1,
            label="validate captions",
        )
        of_images: dict[str, list[CaptionHistory]] = {}
        for history in outcome.histories:
            of_images.setdefault(history.image, []).append(history)
        items = [
            (image.seq, of_images[image.id])
            for image in self._pool.images
            if image.id in of_images and image.id not in standing
        ]

        def work(items: Sequence[tuple[int, list[CaptionHistory]]]) -> list[WorkResult]:
            return [outcomes.result(number, of_image) for number, of_image in items]

        return run_stream(self._context, stage, items, work, total=len(items))

    def _validated(self) -> ValidatedWith:
        """How captions were validated, as it is stored."""
        embedder = str(self._embedder.ref)
        entity = self._captioner.settings_of(
            STAGE,
            VERSION,
            self._prompt,
            discriminability=self._settings.model_dump(mode="json"),
            temperature=self._temperature,
            embedder=embedder,
            images=sorted(self._pool.place),
            captions=sorted(self._pool.captions),
        )
        prompt = self._captioner.store_prompt(self._prompt)
        return ValidatedWith(entity, prompt, self._settings, self._temperature, embedder)

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
            return thumbnail_uri(context.blobs, picture_of(self._pool.image(image_id)), _SIDE_PX)

        write_report(report, thumbnail, path)
        return path
