"""Scores of a benchmark of tasks (ReCoS, section 4)."""

from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from loupe.retrieval.contrastive import (
    Rows,
    Sample,
    SampleRecall,
    benchmark_rows,
    listed_samples,
    sample_recall,
    sides_by_direction,
)
from loupe.retrieval.embeddings import Ids
from loupe.retrieval.ranking import load_kernels
from loupe.schemas.errors import FormatError
from loupe.schemas.evaluation import Direction
from loupe.schemas.taxonomy import RetrievalTask, in_order

# The samples of a benchmark of tasks (ReCoS): which image is for which task, and its captions.


@dataclass(frozen=True)
class RecosSamples:
    """Samples in the order of the image embeddings' rows.

    Attributes:
        images: their names, each another.
        tasks: for each the task that its captions are for; None where that is not known.
        captions: how many captions each has, of shape (n,); rows of the texts come image by image.
    """

    images: tuple[str, ...]
    tasks: tuple[RetrievalTask | None, ...]
    captions: Ids

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def image_of_text(self) -> Ids:
        """For each text the index of its image."""
        return np.repeat(np.arange(len(self)), self.captions)

    def of_task(self, task: RetrievalTask) -> NDArray[np.bool_]:
        """Whether a sample is for `task`, of shape (n,)."""
        return np.array([one is task for one in self.tasks])


class _Sample(Sample):
    task: RetrievalTask | None
    captions: Annotated[int, Field(ge=0, strict=True)]


def recos_samples(listed: object, name: str) -> RecosSamples:
    """The samples of a list of `{"image", "task", "captions"}`.

    `captions` is the number of captions; an image without any is a candidate only, like those that
    version 2 adds. `task` may be null. Other fields are ignored; `name` is the list's name in
    messages.

    Raises:
        FormatError: see `loupe.retrieval.contrastive.listed_samples`; or no image has a caption.
    """
    samples = listed_samples(listed, _Sample, name)
    captions = np.array([sample.captions for sample in samples])
    if not captions.any():
        raise FormatError(f"{name} must have a sample with at least one caption; all have none")
    images, tasks = zip(*((sample.image, sample.task) for sample in samples), strict=True)
    return RecosSamples(images, tasks, captions)


# R@1, R@5 and R@10 in both directions, of all queries and task by task (ReCoS, section 4).

DEPTHS = (1, 5, 10)


class TaskRecall(NamedTuple):
    """R@k of one direction.

    Attributes:
        overall: of all queries.
        tasks: of the queries of each task, the paper's included. Candidates are those of all tasks.
    """

    overall: SampleRecall
    tasks: dict[RetrievalTask, SampleRecall]


def _task_recall(
    images: Rows, texts: Rows, samples: RecosSamples
) -> dict[Direction, TaskRecall | None]:
    """R@k by direction.

    Image to text is None where some image has no caption: the papers' version 2, in which images
    were added without any, is scored from text to image only.
    """
    found: dict[Direction, TaskRecall | None] = {}
    sides = sides_by_direction(images, texts, samples.image_of_text)
    for direction, (queries, gallery) in sides.items():
        if direction == "image-to-text" and not samples.captions.all():
            found[direction] = None
            continue
        ranks, candidates = queries.ranks_in(gallery), len(gallery.samples)
        found[direction] = TaskRecall(
            sample_recall(ranks, candidates, DEPTHS),
            {
                task: sample_recall(
                    ranks[samples.of_task(task)[queries.samples]], candidates, DEPTHS
                )
                for task in in_order({*RetrievalTask, *samples.tasks} - {None})
            },
        )
    return found


# All metrics of a benchmark of tasks at once (ReCoS), from embeddings that are there already.


@dataclass(frozen=True, slots=True)
class RecosScores:
    """The scores of a model on a benchmark of tasks.

    Attributes:
        recall: R@1, R@5 and R@10 by direction, overall and by task; None for a direction in which
            the benchmark cannot be scored.
        seconds: the time of computing, that of loading kernels left out.
    """

    recall: dict[Direction, TaskRecall | None]
    seconds: float


def score_recos(
    images: ArrayLike,
    texts: ArrayLike,
    samples: RecosSamples,
    *,
    names: tuple[str, str] = ("the image embeddings", "the text embeddings"),
) -> RecosScores:
    """Recall, overall and task by task.

    Args:
        images: embeddings of shape (n, d), a row for each sample.
        texts: embeddings of shape (m, d), image by image, a row for each caption.
        samples: which image is for which task, in the order of `images`.
        names: what to call the embeddings in messages.

    Raises:
        FormatError: the embeddings cannot be compared, or are not as many as the samples ask for.
    """
    load_kernels()
    start = perf_counter()
    benchmark_rows(images, texts, (len(samples), int(samples.captions.sum())), names)
    recall = _task_recall(np.asarray(images), np.asarray(texts), samples)
    return RecosScores(recall, perf_counter() - start)
