"""Holds captions against the images that they could be mistaken for; has some written anew.

The whole loop is one computation (`stages.caption_validation.loop`): what a model answered and what
an embedder gave is in the store, so that a run that was stopped computes it again at no cost, and
comes to the same. What came of each image is then committed as any other work.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from db.entities import NewEntity
from db.work import WorkResult
from flows.caption_outcomes import CaptionOutcomes, ValidatedWith
from flows.caption_pool import CaptionPool
from flows.caption_revision import CaptionReviser
from flows.captioning import Captioner, facts_of
from flows.discriminability_report import report_on
from flows.discriminability_report_page import write_report
from flows.embedding import CachedEmbedder
from flows.leases import sole_run
from flows.pages import thumbnail_uri
from flows.report import StageReport
from flows.rewriting import store_prompt
from flows.runner import Stage, run_stream
from flows.standing_validation import standing_images
from flows.task_images import embed_stored, picture_of
from models.embedding import Vectors
from prompts.loader import load_prompt
from retrieval.discriminability import CaptionValidator
from schemas.errors import ConfigurationError
from stages.caption_validation.history import STAGE, CaptionHistory
from stages.caption_validation.loop import Draft, ValidationOutcome, run_validation

VERSION = "1"
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
    context, dataset = captioner.context, captioner.dataset
    with sole_run(context, dataset, STAGE, VERSION):
        pool = CaptionPool(context.store, dataset, written_with.id)
        standing = standing_images(context.store, dataset, pool.image_of, pool.place)
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
                f"captions of {self._captioner.dataset!r} are to be held against "
                f"{self._settings.k} other images each (captioning.discriminability.k), and v0 has "
                f"{len(pool.images)}; take more images, or a smaller k"
            )
        self._facts = facts_of(self._context.store, list(pool.place))
        self._reviser = CaptionReviser(self._captioner, self._prompt, pool, self._facts)
        rows = embed_stored(self._context, self._embedder, pool.images)
        self._validator = CaptionValidator(rows, self._settings, name="the images of v0")
        self._temperature = self._validator.calibrate(*self._embedded(pool.drafts))

    def run(self) -> ValidationOutcome:
        """Validates, asks anew, validates again."""
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
        """Commits what came of every image's captions, but for those of images that stand."""
        validated = self._validated()
        outcomes = CaptionOutcomes(
            self._captioner, self._pool, self._reviser, self._facts, validated
        )
        stage = Stage(
            name=STAGE,
            version=VERSION,
            dataset=self._captioner.dataset,
            configuration={"settings": validated.told.id},
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
        told = self._captioner.settings_of(
            STAGE,
            VERSION,
            self._prompt,
            discriminability=self._settings.model_dump(mode="json"),
            temperature=self._temperature,
            embedder=embedder,
            images=sorted(self._pool.place),
            captions=sorted(self._pool.captions),
        )
        prompt = store_prompt(self._context, self._captioner.dataset, self._prompt)
        return ValidatedWith(told, prompt, self._settings, self._temperature, embedder)

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
