"""Request, parse and revise captions of an image for its task (ReCoS, section 3.2)."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from loupe.checks.text import SIGNS
from loupe.db.entities import LIVE, StoredEntity, WorkResult
from loupe.db.work import Pending
from loupe.flows.answers import (
    UnusableAnswerError,
    object_schema,
    only_field,
    read_answer,
    read_text,
    text_schema,
    words_of,
)
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.embedding import CachedEmbedder, of_texts, pinned, stored_image
from loupe.flows.engine.model_step import Ask, DatasetModel, LLMStep, Parsed, run_llm_step
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.scope import Scope
from loupe.flows.image_facts import facts_of
from loupe.models.embedding import Vectors
from loupe.prompts.loader import Prompt
from loupe.schemas.chat import ChatAnswer, ChatImage, ChatRequest
from loupe.schemas.profile import CaptioningSettings
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image, Rejection
from loupe.schemas.requests import (
    CAPTION_FIELD,
    CAPTION_PURPOSE,
    CAPTIONS_FIELD,
    CAPTIONS_OF_AN_IMAGE,
    REVISION_PURPOSE,
    CaptionBrief,
)
from loupe.schemas.retrieval_task import TaskForm
from loupe.schemas.taxonomy import RetrievalTask

VERSION = "3"
MAX_CHARACTERS = 400
"""The maximum length of a caption; 40 words are about 240 characters."""


class Captioning:
    """The models and thresholds of `[captioning]` of a profile, in use for one dataset."""

    def __init__(
        self, context: RunContext, model: DatasetModel, settings: CaptioningSettings
    ) -> None:
        self.model = model
        self.settings = settings
        self._blobs = context.blobs
        embedder = pinned(settings.embedder)
        self.embedder = CachedEmbedder(
            context.store, embedder, context.progress, settings=context.settings
        )
        of_text = of_texts(embedder)
        self.has_several_vectors = of_text != embedder
        """Whether an image has several vectors of the length of a text's."""
        self._text_embedder = self.embedder
        if self.has_several_vectors:
            self._text_embedder = CachedEmbedder(
                context.store, of_text, context.progress, settings=context.settings
            )

    def embed(self, images: Sequence[StoredEntity]) -> Vectors:
        """Return the embedding of each image, of shape (n, d).

        If an image has several vectors, they lie end to end, and the one most similar to a text or
        to another image's counts.
        """
        return self.embedder.embed_images([stored_image(self._blobs, image) for image in images])

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """Return the embedding of each text, of shape (m, d)."""
        return self._text_embedder.embed_texts(texts)


def request_captions(
    image: ChatImage, form: TaskForm, brief: CaptionBrief, prompt: Prompt
) -> ChatRequest:
    """Return the request for captions of `image`.

    Args:
        image: the image to describe.
        form: what the captions are for and about.
        brief: how many are wanted, what is known and what was tried. It may contain anything,
            including instructions to the model, so the prompt marks it as data.
        prompt: `caption_image`.
    """
    count, text = brief.count, brief.text()
    texts = {"type": "array", "items": text_schema()}
    return prompt.request(
        CAPTION_PURPOSE,
        {"focus": form.captions, "count": str(count), "brief": text},
        subject=text,
        images=[image],
        answer_schema=object_schema(
            {CAPTIONS_FIELD: {**texts, "minItems": count, "maxItems": count}}
        ),
    )


def request_revision(image: ChatImage, brief: CaptionBrief, prompt: Prompt) -> ChatRequest:
    """Return the request for a caption of `image` to replace `brief.caption`."""
    return prompt.request(
        REVISION_PURPOSE,
        {"direction": str(brief.direction), "brief": brief.text()},
        subject=brief.text(),
        images=[image],
        answer_schema=object_schema({CAPTION_FIELD: text_schema()}),
    )


def read_captions(
    answer: ChatAnswer, count: int = CAPTIONS_OF_AN_IMAGE, other: Collection[str] = ()
) -> tuple[str, ...] | Rejection:
    """Return the `count` captions in `answer` unchanged, or why they cannot be used.

    One unusable caption makes the answer unusable. Reasons are those of `read_answer`, `only_field`
    and `read_text` (`loupe.flows.answers`), and `wrong_count` and `same_captions` (two have the
    same words, or one has those of `other` captions of the image).
    """
    said = set(map(words_of, other))

    def read(found: dict[str, Any]) -> tuple[str, ...]:
        values = only_field(found, CAPTIONS_FIELD)
        if not isinstance(values, list):
            detail = f"The captions must be a list; got {type(values).__name__}."
            raise UnusableAnswerError("wrong_type", detail)
        if len(values) != count:
            detail = f"The answer holds {len(values)} captions; wanted {count}."
            raise UnusableAnswerError("wrong_count", detail)
        captions = tuple(
            read_text(one, f"Caption {number}", MAX_CHARACTERS, SIGNS)
            for number, one in enumerate(values, start=1)
        )
        if len(said.union(map(words_of, captions))) < len(said) + count:
            detail = "Two captions of the image say the same; wanted different ones."
            raise UnusableAnswerError("same_captions", detail)
        return captions

    return read_answer(answer, CAPTION_PURPOSE, read)


def read_revision(answer: ChatAnswer) -> str | Rejection:
    """Return the caption in `answer` unchanged, or why it cannot be used."""
    return read_answer(
        answer,
        REVISION_PURPOSE,
        lambda found: read_text(
            only_field(found, CAPTION_FIELD), "The caption", MAX_CHARACTERS, SIGNS
        ),
    )


def write_captions(
    captioner: DatasetModel,
    prompt: Prompt,
    settings_id: str,
    form_of: Callable[[StoredEntity], TaskForm],
    scope: Scope,
    *,
    count: int = CAPTIONS_OF_AN_IMAGE,
    group: str | None = None,
) -> StageReport:
    """Write captions of every image in `scope`, in a group if one is named.

    Args:
        captioner: the model.
        prompt: `caption_image`.
        settings_id: the settings that determine the captions.
        form_of: returns what the captions of an image are for and about.
        scope: which images are inputs, and the links of captions.
        count: the number of captions of an image.
        group: the group of the images.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
    """
    links = [(Role.PROMPTED_BY, captioner.store_prompt(prompt).id), *scope.links]

    def requests(images: Sequence[StoredEntity]) -> Iterator[list[Ask[StoredEntity]]]:
        facts = facts_of(captioner.context.store, [image.id for image in images])
        for image in images:
            form, known = form_of(image), facts.get(image.id, ())
            brief = CaptionBrief(task=form.task, count=count, facts=known)
            yield [Ask(image, request_captions(captioner.picture(image), form, brief, prompt))]

    def output(answer: Parsed[StoredEntity, tuple[str, ...]]) -> WorkResult:
        captions = (
            captioner.caption(answer.subject, text, position, links, answer.call)
            for position, text in enumerate(answer.value)
        )
        return WorkResult(answer.subject.seq, entities=tuple(captions))

    step = LLMStep(
        name=CAPTION_PURPOSE,
        version=VERSION,
        label="write captions",
        configuration={"settings": settings_id},
        inputs=Pending(captioner.dataset, Image.kind, LIVE, group),
        request=requests,
        parse=lambda _, answer: read_captions(answer, count),
        outputs=lambda answers: [output(one) for (one,) in answers],
    )
    return run_llm_step(captioner, step, scope)


def task_of(image: StoredEntity) -> RetrievalTask:
    """Return the task of an image of the benchmark."""
    task = image.record(Image).task
    assert task is not None  # noqa: S101 - `loupe.flows.recos.task_images` gives every image one
    return task
