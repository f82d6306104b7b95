"""Draw rendered tasks one after the other without repetition."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from schemas.base import sha256_of
from schemas.errors import ConfigurationError, ServiceError, UsageError
from schemas.records import Rejection
from schemas.retrieval_task import RetrievalTask
from schemas.sign_pairs import SignPair
from sources.demonstration.people import Chance
from sources.rendered.calculation_tasks import draw_calculation_task
from sources.rendered.code import draw_code_task
from sources.rendered.pen import FontShelf, Style
from sources.rendered.sandbox import Limits, available_languages
from sources.rendered.signs import draw_translation_task, shipped_pairs
from sources.rendered.task_image import Draft, RenderedImage

_MOST_DRAWS = 2000
_MOST_REFUSALS = 20


@dataclass(frozen=True)
class RenderOptions:
    """Options for drawing tasks.

    Attributes:
        shelf: the fonts.
        pairs: texts and their translations.
        languages: names of programming languages to draw from; None for all that can be run here.
        limits: limits of a program.
    """

    shelf: FontShelf = field(default_factory=FontShelf)
    pairs: tuple[SignPair, ...] = field(default_factory=shipped_pairs)
    languages: Collection[str] | None = None
    limits: Limits = field(default_factory=Limits)


_STYLES: Mapping[RetrievalTask, tuple[Style, ...]] = {
    RetrievalTask.CALCULATION: ("handwritten", "serif", "sans-serif"),
    RetrievalTask.CODE: ("monospaced", "serif", "sans-serif"),
    RetrievalTask.TRANSLATION: ("chinese", "serif", "sans-serif"),
}
RENDERED_TASKS = tuple(_STYLES)
"""Tasks whose images can be drawn here."""


def render_tasks(
    task: RetrievalTask, seed: int, count: int, options: RenderOptions | None = None
) -> Iterator[RenderedImage]:
    """Draw `count` images for `task` without repeating a question or an image.

    The same seed, options, packages and interpreters give the same bytes. A shorter draw is a
    prefix of a longer one.

    Raises:
        UsageError: `task` is not a rendered one; or, while drawing, there are not enough questions.
        ConfigurationError: a font is missing.
        ServiceError: while drawing, no program could be run.
    """
    drawing = Drawing(task, seed, options)
    return (drawing.draw(number) for number in range(count))


def task_refusal(task: RetrievalTask, options: RenderOptions | None = None) -> Rejection | None:
    """Return why no image for `task` can be drawn here (a font is missing), or None."""
    try:
        Drawing(task, 0, options)
    except ConfigurationError as fault:
        context = {"task": task.value}
        return Rejection(
            stage="render_tasks", reason="missing_font", detail=str(fault), context=context
        )
    return None


class Drawing:
    """The draw of one task from one seed, which remembers what was drawn to avoid repetition.

    Raises:
        UsageError: `task` is not a rendered one.
        ConfigurationError: a font is missing.
    """

    def __init__(
        self, task: RetrievalTask, seed: int, options: RenderOptions | None = None
    ) -> None:
        options = options or RenderOptions()
        if task not in _STYLES:
            wanted = ", ".join(repr(one.value) for one in RENDERED_TASKS)
            raise UsageError(f"the task {task.value!r} is not rendered, wanted one of {wanted}")
        options.shelf.require(options.shelf.names(*_STYLES[task]))
        self._task = task
        self._seed = seed
        self._draw_draft = _drafts(task, options)
        self._questions: set[str] = set()
        self._pictures: set[str] = set()

    def remember(self, question: str, sha256: str) -> None:
        """Record an image that was drawn before, possibly in another process."""
        self._questions.add(question)
        self._pictures.add(sha256)

    def draw(self, number: int) -> RenderedImage:
        """Draw the image with this number, from 0; the ones before it must be drawn or remembered.

        Raises:
            UsageError: there is no further question.
            ServiceError: no program could be run.
        """
        refusals: list[Rejection] = []
        for attempt in range(_MOST_DRAWS):
            name = ("rendered", self._task.value, self._seed, number, attempt)
            draft = self._draw_draft(Chance(*name))
            if draft.question in self._questions:
                continue
            image = draft.render(Chance(*name, "picture"), self._seed)
            if isinstance(image, RenderedImage):
                sha256 = sha256_of(image.png)
                if sha256 not in self._pictures:
                    self.remember(draft.question, sha256)
                    truth = {**image.truth.truth, "number": number}
                    known = image.truth.model_copy(update={"truth": truth})
                    return RenderedImage(truth=known, png=image.png)
            else:
                refusals.append(image)
            if len(refusals) >= _MOST_REFUSALS:
                raise ServiceError(f"no program could be run: {refusals[-1].detail}")
        raise UsageError(
            f"no further question for {self._task.value!r} was found after {number:,} images "
            f"and {_MOST_DRAWS:,} draws, draw fewer images or provide more to draw from"
        )


def _drafts(task: RetrievalTask, options: RenderOptions) -> Callable[[Chance], Draft]:
    shelf = options.shelf
    if task is RetrievalTask.CALCULATION:
        return lambda chance: draw_calculation_task(chance, shelf)
    if task is RetrievalTask.TRANSLATION:
        return lambda chance: draw_translation_task(chance, shelf, options.pairs)
    languages = available_languages() if options.languages is None else options.languages
    return lambda chance: draw_code_task(chance, shelf, languages, options.limits)
