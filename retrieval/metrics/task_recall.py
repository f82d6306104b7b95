"""R@1, R@5 and R@10 in both directions, of all queries and task by task (ReCoS, section 4)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrieval.competitors import Competitors
from retrieval.metrics.sample_recall import SampleRecall, sample_recall
from retrieval.recos_samples import RecosSamples
from schemas.evaluation import Direction
from schemas.retrieval_task import RetrievalTask

DEPTHS = (1, 5, 10)


class TaskRecall(NamedTuple):
    """R@k of one direction.

    Attributes:
        overall: of all queries.
        tasks: of the queries of each task, all tasks included. Candidates are those of all tasks.
    """

    overall: SampleRecall
    tasks: dict[RetrievalTask, SampleRecall]


def task_recall(
    competitors: Competitors, samples: RecosSamples
) -> dict[Direction, TaskRecall | None]:
    """R@k by direction, of what was counted with one pool of candidates.

    Image to text is None where some image has no caption: the papers' version 2, in which images
    were added without any, is scored from text to image only.
    """
    of_texts = competitors.of_texts.sum(axis=1)
    of_images = competitors.of_images.sum(axis=1)
    is_complete = bool(competitors.is_query.all())

    def recall(of_samples: NDArray[np.bool_] | slice) -> dict[Direction, SampleRecall]:
        asking = np.zeros(len(samples), dtype=np.bool_)
        asking[of_samples] = True
        texts = of_texts[asking[samples.image_of_text]]
        return {
            "text-to-image": sample_recall(texts, len(samples), DEPTHS),
            "image-to-text": sample_recall(of_images[asking], len(of_texts), DEPTHS),
        }

    overall = recall(slice(None))
    tasks = {task: recall(samples.of_task(task)) for task in RetrievalTask}
    return {
        direction: TaskRecall(found, {task: by[direction] for task, by in tasks.items()})
        if is_complete or direction == "text-to-image"
        else None
        for direction, found in overall.items()
    }
