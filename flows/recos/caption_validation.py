"""Validate captions by dis(t) in rounds, and store the results."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.checks.grammar import check_grammar, words_in
from loupe.db.entities import (
    LIVE,
    NewDecision,
    NewEntity,
    StoredEntity,
    WorkResult,
    children_of,
    fetch_children,
    find_children,
    parents_of,
)
from loupe.db.store import Store
from loupe.flows.engine.context import PipelineRun
from loupe.flows.engine.embedding import picture_of
from loupe.flows.engine.model_step import Ask, Unparsable, ask_and_parse, result_without_value
from loupe.flows.engine.pages import thumbnail_uri, write_report_page
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, run_each, sole_run
from loupe.flows.engine.software import software
from loupe.flows.image_facts import facts_of
from loupe.flows.recos.captioning import Captioning, read_revision, request_revision
from loupe.flows.recos.validation_loop import (
    STAGE,
    CaptionHistory,
    Draft,
    ValidationReport,
    render_report,
    reports_of,
    run_validation,
)
from loupe.models.embedding import Vectors
from loupe.prompts.loader import load_prompt
from loupe.retrieval.discriminability import AcceptedInterval, CaptionValidator
from loupe.schemas.base import EntityRecord
from loupe.schemas.chat import ChatFailure, ChatRequest
from loupe.schemas.errors import ConfigurationError, ModelError
from loupe.schemas.grouping import grouped
from loupe.schemas.provenance import Role
from loupe.schemas.quality import CaptionCheck
from loupe.schemas.records import Caption, Rejection
from loupe.schemas.recos import CaptionVerdict, DiscriminabilityReport
from loupe.schemas.requests import REVISION_PURPOSE, CaptionBrief, Direction
from loupe.schemas.retrieval_task import TaskForm
from loupe.schemas.video import StageSettings


class CaptionPool:
    """Captions to validate together, and the images they are compared with.

    Attributes:
        images: images that captions are compared with.
        place: position of each image in `images`, by id.
        image_of: image of each caption.
        captions: captions as first written, by id, in the order of images and positions.
        taken: the other captions of the images, from which new texts must differ.
        drafts: the captions with which the loop begins.
        temperature: that of the first captions of the dataset; None if it is not known yet.
        is_first: whether these are the first captions of the dataset.
    """

    def __init__(
        self,
        store: Store,
        images: Sequence[StoredEntity],
        captions: Sequence[StoredEntity],
        temperature: float | None,
        form_of: Callable[[StoredEntity], TaskForm],
        *,
        is_first: bool,
    ) -> None:
        """Load the images of the captions."""
        self.images = images
        self.temperature = temperature
        self.is_first = is_first
        self.place = {image.id: place for place, image in enumerate(images)}
        described = parents_of(store, [one.id for one in captions], Role.DESCRIBES)
        self.image_of = {caption: found[0] for caption, found in described.items()}

        def order(caption: StoredEntity) -> tuple[int, int]:
            return self.place[self.image_of[caption.id]], caption.record(Caption).position

        self.captions = {one.id: one for one in sorted(captions, key=order)}
        self.drafts: list[Draft] = []
        for id_, caption in self.captions.items():
            image, text = self.image_of[id_], caption.record(Caption).text
            self.drafts.append(Draft(id_, image, form_of(self.image(image)).task, text))
        self.taken: dict[str, list[str]] = {}
        of_images = fetch_children(store, set(self.image_of.values()), Role.DESCRIBES)
        for image, many in of_images.items():
            others = [one for one in many if one.state in LIVE and one.id not in self.captions]
            self.taken[image] = [one.record(Caption).text for one in others]

    def image(self, image_id: str) -> StoredEntity:
        """Return the image with the given id."""
        return self.images[self.place[image_id]]


# How well a caption distinguishes its image depends on all images. Decisions and releases rest on
# a validation, so a caption is validated once, against the images that there were then: further
# captions and images, and withdrawals, do not change it.


class Validation(NamedTuple):
    """What is validated: captions written with some settings.

    Attributes:
        run: the run.
        models: the models that write and compare.
        gallery: the name of the images that captions are compared with.
        images: these images, by id, with any decision except withdrawal.
        written_with: the ids of the settings that captions were written with.
        form_of: returns the task of an image.
        links: further links of revised captions.
        is_strict: whether too few images to compare with, or a criterion that all captions pass or
            none, end the run.
    """

    run: PipelineRun[Any]
    models: Captioning
    gallery: str
    images: Sequence[StoredEntity]
    written_with: Sequence[str]
    form_of: Callable[[StoredEntity], TaskForm]
    links: Sequence[tuple[Role, str]] = ()
    is_strict: bool = False


def _unvalidated(of: Validation) -> tuple[CaptionPool | None, int]:
    """Return the captions to validate next, if any, and the number of images with validated ones.

    A validation that was interrupted is continued with the captions and images it began with,
    unless something of them was withdrawn.

    Raises:
        ConfigurationError: no captions were written.
    """
    run, store = of.run, of.run.store
    written: list[StoredEntity] = []
    for settings in of.written_with:
        children = find_children(store, settings, Role.WRITTEN_WITH)
        written += [one for one in children if one.state != "withdrawn"]
    if not written:
        raise ConfigurationError(
            f"no image of {run.dataset!r} has captions; look at: loupe quarantine {run.dataset}"
        )
    known = {one.id: one for one in written}
    images = {image.id: image for image in of.images}
    image_of = {
        caption: found[0] for caption, found in parents_of(store, known, Role.DESCRIBES).items()
    }
    done = children_of(store, known, Role.MEASURES).keys()
    validated = {image_of[one] for one in done}

    def is_open(caption: str) -> bool:
        image = images.get(image_of[caption])
        return caption not in done and image is not None and image.state in LIVE

    left = [one for id_, one in known.items() if is_open(id_)]
    if not left:
        return None, len(validated)
    begun = [one.record(StageSettings).values for one in run.stage_settings(STAGE)]
    begun = [one for one in begun if not known.keys().isdisjoint(one["captions"])]
    for values in reversed(begun):
        captions, compared = set(values["captions"]), set(values["images"])
        is_it = not captions.isdisjoint(one.id for one in left)
        if is_it and known.keys() >= captions and images.keys() >= compared:
            begun_with = [known[one] for one in values["captions"]]
            pictures = [one for id_, one in images.items() if id_ in compared]
            temperature, is_first = values["temperature"], values == begun[0]
            pool = CaptionPool(
                store, pictures, begun_with, temperature, of.form_of, is_first=is_first
            )
            return pool, len(validated)
    live = [one for one in images.values() if one.state in LIVE]
    temperature = begun[0]["temperature"] if begun else None
    pool = CaptionPool(store, live, left, temperature, of.form_of, is_first=not begun)
    return pool, len(validated)


# The whole loop is one computation (`loupe.flows.recos.validation_loop`). Answers of models and
# embeddings are stored, so an interrupted run repeats the computation at no cost and with the same
# result. The result of each image is then committed like any other work.

VERSION = "1"
_SIDE_PX = 160


def validate_captions(of: Validation, before_storing: Callable[[], None] = lambda: None) -> None:
    """Validate the captions that no run has validated, and store the results.

    Of the texts tried for a caption, the one nearest to passing stays proposed; the others are
    rejected with the reason. A text that does not pass, or has grammatical errors, is flagged for
    the reviewers of the queue. `before_storing` is called when the loop has ended.

    Parallel runs do this one after the other, so each finds the revisions of the previous one.

    Raises:
        DegenerateCriterionError: the criterion does not distinguish the captions.
        ConfigurationError: there are too few images, or no captions.
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
    """
    run = of.run
    with sole_run(run.context, run.dataset, STAGE):
        pool, validated = _unvalidated(of)
        if pool is None:
            run.add(StageReport(STAGE, already_done=validated))
            return
        loop = _Loop(of, pool)
        histories = loop.run()
        before_storing()
        run.add(loop.store(histories))
        if not run.context.is_preview:
            run.say(f"the validation of captions is in {loop.show(histories)}")


class _Loop:
    """One computation of the loop, and its results in the store."""

    def __init__(self, of: Validation, pool: CaptionPool) -> None:
        """Embed images and captions, and set the temperature of similarities.

        Raises:
            ConfigurationError: there are too few images.
        """
        self._of, self._run, self._pool = of, of.run, pool
        self._models, self._captioner = of.models, of.models.model
        settings = of.models.settings.discriminability
        if not of.is_strict and len(pool.images) > 2:
            settings = settings.model_copy(update={"k": min(settings.k, len(pool.images) - 1)})
        self._settings = settings
        self._interval = AcceptedInterval.of(settings.k, settings.eta)
        self._embedded_by = str(of.models.embedder.ref)
        self._prompt = load_prompt(of.models.settings.revision_prompt)
        if len(pool.images) <= settings.k:
            raise ConfigurationError(
                f"captions of {of.run.dataset!r} are to be compared with "
                f"{settings.k} other images each (captioning.discriminability.k), and {of.gallery} "
                f"has {len(pool.images)}; take more images, or a smaller k"
            )
        self._facts = facts_of(of.run.store, list(pool.place))
        self._calls: dict[tuple[str, str], str] = {}  # by caption and original text
        self._said: dict[str, dict[str, str]] = defaultdict(dict)  # current, by image and caption
        for image, texts in pool.taken.items():
            self._said[image] = {text: text for text in texts}
        for draft in pool.drafts:
            self._said[draft.image][draft.key] = draft.text
        self._validator = CaptionValidator(
            self._models.embed(pool.images),
            settings,
            name=f"the images of {of.gallery}",
            several=self._models.has_several_vectors,
        )
        self._temperature = pool.temperature or self._validator.calibrate(
            *self._embedded(pool.drafts)
        )

    def run(self) -> tuple[CaptionHistory, ...]:
        """Validate captions and revise failing ones until each passes or is left to people."""
        return run_validation(
            self._pool.drafts,
            self._measure,
            self._rewrite,
            self._settings,
            self._temperature,
            taken=self._pool.taken,
            is_first=self._pool.is_first and self._of.is_strict,
        )

    def _measure(self, drafts: Sequence[Draft]) -> list[float]:
        texts, targets = self._embedded(drafts)
        found: list[float] = self._validator.score(texts, targets, self._temperature).dis.tolist()
        return found

    def _embedded(self, drafts: Sequence[Draft]) -> tuple[Vectors, NDArray[np.int64]]:
        """Return the texts, and the positions of the images that they describe, of shape (n,)."""
        texts = self._models.embed_texts([draft.text for draft in drafts])
        return texts, np.array([self._pool.place[draft.image] for draft in drafts], np.int64)

    def _rewrite(self, failing: Sequence[CaptionHistory]) -> list[str | Rejection]:
        """Return new texts; captions of one image are revised in turn so that they differ."""
        answers: dict[str, str | Rejection] = {}
        waves: dict[int, list[CaptionHistory]] = defaultdict(list)
        asked: Counter[str] = Counter()
        for history in failing:
            waves[asked[history.image]].append(history)
            asked[history.image] += 1
        for wave in waves.values():
            found = ask_and_parse(
                self._captioner.model,
                [Ask(history, self._request(history)) for history in wave],
                lambda _, answer: read_revision(answer),
            )
            for history, one in zip(wave, found, strict=True):
                if isinstance(one, Unparsable):
                    answers[history.key] = self._rejection(one)
                else:
                    answers[history.key] = one.value
                    self._calls[history.key, one.value] = one.call
                    self._said[history.image][history.key] = one.value
        return [answers[history.key] for history in failing]

    def _request(self, history: CaptionHistory) -> ChatRequest:
        said = self._said[history.image]
        brief = CaptionBrief(
            task=history.task,
            count=1,
            facts=tuple(self._facts.get(history.image, ())),
            caption=history.current.text,
            direction=Direction.after(history.current.verdict),
            too_detailed=history.tried(CaptionVerdict.OVER_DETAILED),
            too_general=history.tried(CaptionVerdict.UNDER_DETAILED),
            taken=tuple(text for key, text in said.items() if key != history.key),
        )
        picture = self._captioner.picture(self._pool.image(history.image))
        return request_revision(picture, brief, self._prompt)

    def _rejection(self, found: Unparsable) -> Rejection:
        result = result_without_value(0, STAGE, found)
        if isinstance(result, WorkResult) and result.rejection is not None:
            return result.rejection
        reason = found.outcome.reason if isinstance(found.outcome, ChatFailure) else "not asked"
        raise ModelError(
            f"{self._captioner.author} did not revise the captions ({reason}); received answers "
            f"are stored, run again when it is available"
        )

    def store(self, histories: Sequence[CaptionHistory]) -> StageReport:
        """Commit the results of every image.

        Unusable revisions are quarantined; usable ones are stored for their share
        (`refuse_unusable_models`).
        """
        validated_with = self._captioner.settings_of(
            STAGE,
            VERSION,
            self._prompt,
            discriminability=self._settings.model_dump(mode="json"),
            temperature=self._temperature,
            embedder=self._embedded_by,
            images=sorted(self._pool.place),
            captions=sorted(self._pool.captions),
        ).id
        prompt_id = self._captioner.store_prompt(self._prompt).id
        stage = Stage(
            STAGE,
            VERSION,
            self._run.dataset,
            {"settings": validated_with},
            agents=(self._captioner.agent,),
            workers=1,
            label="validate captions",
        )
        of_images = grouped((history.image, history) for history in histories)
        items = [
            (image.seq, of_images[image.id]) for image in self._pool.images if image.id in of_images
        ]

        def result(number: int, of_image: list[CaptionHistory]) -> WorkResult:
            return self._result(number, of_image, validated_with, prompt_id)

        answers: list[tuple[int, Rejection | None]] = []
        for one in histories:
            seq = self._pool.captions[one.key].seq
            first = -1 - seq * self._settings.rounds  # usable ones have negative numbers
            answers += [(first - place, None) for place in range(one.round)]
            answers += [(seq, one.unusable)] if one.unusable else []
        revising = replace(stage, name=REVISION_PURPOSE, label="revise captions")
        revised = run_each(
            self._run.context,
            revising,
            answers,
            lambda number, unusable: WorkResult(number, rejection=unusable),
        )
        if self._pool.is_first:  # else the model had failed already
            revised.asked_model = self._captioner.author
        self._run.add(revised)
        return run_each(self._run.context, stage, items, result)

    def _result(
        self,
        number: int,
        histories: Sequence[CaptionHistory],
        validated_with: str,
        prompt_id: str,
    ) -> WorkResult:
        """Return the stored result of the captions of one image, whose number is `seq`.

        The text nearest to passing stays proposed, the others are rejected.
        """
        entities: list[NewEntity] = []
        decisions: list[NewDecision] = []
        of_settings = (Role.VALIDATED_WITH, validated_with)

        def about(record: EntityRecord, role: Role, caption_id: str) -> NewEntity:
            return self._run.create(record, [(role, caption_id), of_settings])

        for history in histories:
            image = self._pool.image(history.image)
            position = self._pool.captions[history.key].record(Caption).position
            ids = [history.key]
            for attempt in history.attempts[1:]:
                roles = [(Role.PROMPTED_BY, prompt_id), of_settings, (Role.REVISED_FROM, ids[-1])]
                roles += self._of.links
                call = self._calls[history.key, attempt.text]
                entities.append(self._captioner.caption(image, attempt.text, position, roles, call))
                ids.append(entities[-1].id)
            reports = reports_of(history, self._settings, self._temperature, self._embedded_by)
            entities += map(about, reports, [Role.MEASURES] * len(ids), ids)
            chosen = history.attempts.index(history.best(self._interval))
            entities.append(about(self._checked(history, chosen), Role.EXAMINES, ids[chosen]))
            decisions += [
                NewDecision(id_, "reject", software(), _why_not(report))
                for place, (id_, report) in enumerate(zip(ids, reports, strict=True))
                if place != chosen
            ]
        return WorkResult(number, entities=tuple(entities), decisions=tuple(decisions))

    def _checked(self, history: CaptionHistory, chosen: int) -> CaptionCheck:
        """Return the warnings about the chosen text."""
        attempt = history.attempts[chosen]
        known = words_in(self._facts.get(history.image, ()))
        warnings = [finding.message for finding in check_grammar(attempt.text, known_words=known)]
        if attempt.verdict is not CaptionVerdict.PASS:
            words = attempt.verdict.value.replace("_", "-")
            rounds = "1 round" if history.round == 1 else f"{history.round} rounds"
            warnings.append(f"It is {words} after {rounds}.")
        return CaptionCheck(warnings=tuple(warnings))

    def show(self, histories: Sequence[CaptionHistory]) -> Path:
        """Write the page that shows the results."""
        context, dataset = self._run.context, self._run.dataset
        report = ValidationReport(
            dataset, histories, self._settings, self._temperature, self._embedded_by
        )

        def thumbnail(image_id: str) -> str | None:
            return thumbnail_uri(context.blobs, picture_of(self._pool.image(image_id)), _SIDE_PX)

        page = render_report(report, thumbnail)
        number = len(self._run.stage_settings(STAGE))  # of further captions, from 2
        name = f"{dataset}-captions{f'-{number}' if number > 1 else ''}.html"
        return write_report_page(context.settings.home, name, page)


def _why_not(report: DiscriminabilityReport) -> str:
    if report.verdict is CaptionVerdict.PASS:
        return "another text was nearer to passing"
    words = report.verdict.value.replace("_", "-")
    return f"{words}: dis(t) {report.dis:.3f} is not in [{report.lower:.3f}, {report.upper:.3f}]"
