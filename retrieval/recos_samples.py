"""The samples of a benchmark of tasks (ReCoS): which image is for which task, and its captions."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval.embeddings import Ids
from retrieval.sample_list import kind_or_none, listed_objects, names_in, place, refuse_twice, shown
from schemas.errors import FormatError
from schemas.retrieval_task import RetrievalTask


@dataclass(frozen=True)
class RecosSamples:
    """Samples in the order of the image embeddings' rows.

    Attributes:
        images: their names, each another.
        tasks: for each the task that its captions are for; None where that is not known.
        captions: how many captions each has, of shape (n,); rows of the texts stand image by image.
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


def recos_samples(listed: object, name: str) -> RecosSamples:
    """The samples of a list of `{"image", "task", "captions"}`, checked.

    `captions` is how many there are; an image with none is a candidate only, like those that
    version 2 adds. `task` may be null. Fields beside these are left alone; `name` is what to call
    the list in messages.

    Raises:
        FormatError: the list is none or empty, a sample lacks a field or has a wrong one, an image
            is listed twice, a task is unknown, or no image has a caption.
    """
    samples = listed_objects(listed, ("image", "task", "captions"), name)
    images = names_in(samples, "image", name)
    refuse_twice(images, name)
    tasks = tuple(
        kind_or_none(RetrievalTask, sample, "task", name, at) for at, sample in enumerate(samples)
    )
    captions = np.array([_count(sample, name, at) for at, sample in enumerate(samples)])
    if not captions.any():
        raise FormatError(f"{name} must have a sample with at least one caption; all have none")
    return RecosSamples(tuple(images), tasks, captions)


def _count(sample: dict[str, Any], name: str, at: int) -> int:
    count = sample["captions"]
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        wanted = "how many captions the image has, 0 or more"
        raise FormatError(f"{place(name, at)}: 'captions' must be {wanted}; got {shown(count)}")
    return count
