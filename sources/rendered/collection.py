"""Rendered tasks drawn without repetition, and their images in a folder.

A line is the truth as a flat JSON object with the image's `file_path` and `sha256`, `generator` and
`seed`. The last three may be omitted in a collection made by hand.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from loupe.schemas.base import Record, Sha256, sha256_of
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.schemas.records import Rejection
from loupe.schemas.recos import RenderedTruth
from loupe.schemas.requests import SignPair
from loupe.schemas.retrieval_task import RENDERED_TASKS
from loupe.schemas.taxonomy import RetrievalTask
from loupe.schemas.text_files import open_text
from loupe.sources.annotations import (
    MISSING,
    Field,
    FieldError,
    checked_object,
    checked_path,
    lines_of,
    refuse_second,
)
from loupe.sources.chance import Chance
from loupe.sources.images import ImageProblem, inspect_image
from loupe.sources.records import ReadOptions
from loupe.sources.rendered.calculations import draw_calculation_task
from loupe.sources.rendered.charts import CHARTS, FLOWCHARTS, draw_chart, draw_flowchart
from loupe.sources.rendered.code import draw_code_task
from loupe.sources.rendered.pen import (
    GENERATOR,
    Draft,
    FontShelf,
    RenderedImage,
    Style,
    written_draft,
)
from loupe.sources.rendered.signs import draw_translation_task, shipped_pairs

_MOST_DRAWS = 2000


@dataclass(frozen=True)
class RenderOptions:
    """Options for drawing tasks.

    Attributes:
        shelf: the fonts.
        pairs: texts and their translations.
    """

    shelf: FontShelf = field(default_factory=FontShelf)
    pairs: tuple[SignPair, ...] = field(default_factory=shipped_pairs)


_WRITTEN = {
    RetrievalTask.CALCULATION: draw_calculation_task,
    CHARTS: draw_chart,
    FLOWCHARTS: draw_flowchart,
}
_STYLES: Mapping[RetrievalTask, tuple[Style, ...]] = {
    **dict.fromkeys(_WRITTEN, ("handwritten", "serif", "sans-serif")),
    RetrievalTask.CODE: ("monospaced", "sans-serif"),
    RetrievalTask.TRANSLATION: ("chinese", "serif", "sans-serif"),
}


def render_tasks(
    task: RetrievalTask, seed: int, count: int, options: RenderOptions | None = None
) -> Iterator[RenderedImage]:
    """Draw `count` images for `task` without repeating a question or an image.

    The same seed, options and packages give the same bytes. A shorter draw is a
    prefix of a longer one.

    Raises:
        UsageError: `task` is not a rendered one; or, while drawing, there are not enough questions.
        ConfigurationError: a font is missing.
    """
    options = options or RenderOptions()
    if task not in _STYLES:
        wanted = ", ".join(repr(one.value) for one in RENDERED_TASKS)
        raise UsageError(f"the task {task.value!r} is not rendered, wanted one of {wanted}")
    options.shelf.require(options.shelf.names(*_STYLES[task]))
    return _rendered(task, seed, count, _drafts(task, options))


def task_refusal(task: RetrievalTask, options: RenderOptions | None = None) -> Rejection | None:
    """Return why no image for `task` can be drawn here (a font is missing), or None."""
    try:
        render_tasks(task, 0, 0, options)
    except ConfigurationError as fault:
        context = {"task": task.value}
        return Rejection(
            stage="render_tasks", reason="missing_font", detail=str(fault), context=context
        )
    return None


def _rendered(
    task: RetrievalTask, seed: int, count: int, draw: Callable[[Chance], Draft]
) -> Iterator[RenderedImage]:
    questions: set[str] = set()
    pictures: set[str] = set()
    for number in range(count):
        for attempt in range(_MOST_DRAWS):
            name = ("rendered", task.value, seed, number, attempt)
            draft = draw(Chance(*name))
            if draft.question in questions:
                continue
            image = draft.render(Chance(*name, "picture"), seed)
            sha256 = sha256_of(image.png)
            if sha256 not in pictures:
                questions.add(draft.question)
                pictures.add(sha256)
                truth = {**image.truth.truth, "number": number}
                known = image.truth.model_copy(update={"truth": truth})
                yield RenderedImage(truth=known, png=image.png)
                break
        else:
            raise UsageError(
                f"no further question for {task.value!r} was found after {number:,} images "
                f"and {_MOST_DRAWS:,} draws, draw fewer images or provide more to draw from"
            )


def _drafts(task: RetrievalTask, options: RenderOptions) -> Callable[[Chance], Draft]:
    shelf = options.shelf
    if task in _WRITTEN:
        return lambda chance: written_draft(task, _WRITTEN[task](chance), shelf)
    if task is RetrievalTask.TRANSLATION:
        return lambda chance: draw_translation_task(chance, shelf, options.pairs)
    return lambda chance: draw_code_task(chance, shelf)


TRUTHS_FILE = "truths.jsonl"
BY_HAND = "by hand"
_STAGE = "read_rendered_collection"
_LIMITS = ReadOptions(max_record_characters=1024 * 1024)


class CollectionEntry(Record):
    """One image of a collection and its truth."""

    path: Path
    sha256: Sha256
    truth: RenderedTruth


def write_rendered_collection(
    folder: Path,
    task: RetrievalTask | str,
    seed: int,
    count: int,
    options: RenderOptions | None = None,
) -> Path:
    """Draw `count` images for `task` into `folder`; return the path of their `truths.jsonl`.

    `task` may be given by its name, such as `"code reasoning"`. A complete collection is not drawn
    again. `truths.jsonl` is written after all images.

    Raises:
        UsageError: the folder has another collection; or as `render_tasks`.
        ConfigurationError: a font is missing.
    """
    task = RetrievalTask(task)
    images, truths = render_tasks(task, seed, count, options), folder / TRUTHS_FILE
    if truths.exists():
        found = list(read_rendered_collection(folder))
        ours = [
            one
            for one in found
            if isinstance(one, CollectionEntry)
            and (one.truth.generator, one.truth.task, one.truth.seed) == (GENERATOR, task, seed)
        ]
        if not ours or any(isinstance(one, CollectionEntry) and one not in ours for one in found):
            raise UsageError(
                f"{folder} contains other images than for {task.value!r} of {GENERATOR} with seed "
                f"{seed}; choose an empty folder"
            )
        if len(ours) == len(found) >= count:
            return truths
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, image in enumerate(images):
        name = f"{number:05d}.png"
        (folder / name).write_bytes(image.png)
        row = {
            "file_path": name,
            "sha256": sha256_of(image.png),
            **image.truth.model_dump(mode="json"),
        }
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    partial = truths.with_suffix(".partial")
    partial.write_text("".join(lines), encoding="utf-8")
    partial.replace(truths)
    return truths


def read_rendered_collection(folder: Path) -> Iterator[CollectionEntry | Rejection]:
    """Return the images of a folder with `truths.jsonl`, in the order of its lines.

    The images may be drawn or made by hand. An error in a line or its image becomes a rejection;
    the other lines are read.

    Raises:
        FormatError: there is no readable `truths.jsonl`.
    """
    seen: set[str] = set()
    with open_text(folder / TRUTHS_FILE) as file:
        for line in lines_of(file, _LIMITS.max_record_characters):
            try:
                yield _read_entry(folder, checked_object(line.parsed(_LIMITS)), seen)
            except FieldError as fault:
                yield Rejection(
                    stage=_STAGE,
                    reason=fault.reason,
                    detail=f"line {line.number:,} of {TRUTHS_FILE}: {fault.detail}",
                    context={"file": TRUTHS_FILE, "line": line.number},
                )


def _read_entry(folder: Path, row: dict[str, Any], seen: set[str]) -> CollectionEntry:
    """Return the image of a line.

    Raises:
        FieldError: the line or its image cannot be used.
    """
    file_path = checked_path(Field("file_path", row.pop("file_path", MISSING)))
    sha256 = row.pop("sha256", None)
    refuse_second("file_path", file_path, seen)
    try:
        truth = RenderedTruth.model_validate({"generator": BY_HAND, "seed": 0, **row})
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_input=False)[0]
        where, said = ".".join(map(str, first["loc"])), first["msg"]
        detail = f"{where}: {said[:1].lower()}{said[1:]}"
        raise FieldError(where, "invalid_truth", detail) from fault
    image = inspect_image(folder, file_path)
    if isinstance(image, ImageProblem):
        raise FieldError("file_path", image.reason, image.detail)
    if sha256 is not None and sha256 != image.source_sha256:
        changed = f"the image {file_path!r} is not the one that the truth was written for"
        raise FieldError("sha256", "changed_image", changed)
    return CollectionEntry(path=folder / file_path, sha256=image.source_sha256, truth=truth)
