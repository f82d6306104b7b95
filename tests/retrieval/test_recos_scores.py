"""Metrics of a benchmark of tasks: plain loops, handmade cases and invalid input."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.retrieval.embeddings import FloatRows, unit_rows
from loupe.retrieval.recos import RecosSamples, RecosScores, recos_samples, score_recos
from loupe.schemas.errors import FormatError
from loupe.schemas.taxonomy import RetrievalTask
from tests.retrieval.literal import competitors_of_image, competitors_of_text, tied_rows

TASKS = list(RetrievalTask)


def sample(image: str, task: str | None, captions: int) -> dict[str, Any]:
    return {"image": image, "task": task, "captions": captions}


def world(seed: int, fewest: int = 1) -> tuple[FloatRows, FloatRows, RecosSamples]:
    """Twenty images of five tasks or none, with `fewest` to three captions each and many ties."""
    random = np.random.default_rng(seed)
    listed = []
    for number in range(20):
        task = random.integers(6)
        captions = int(random.integers(fewest, 4)) if number else 3
        listed.append(sample(f"{number}", str(TASKS[task]) if task else None, captions))
    samples = recos_samples(listed, "samples.json")
    texts = tied_rows(random, int(samples.captions.sum()), 6, kinds=7)
    return tied_rows(random, 20, 6, kinds=5), texts, samples


def percent(counts: list[int], depth: int) -> float | None:
    return 100 * sum(count < depth for count in counts) / len(counts) if counts else None


def test_recall_equals_plain_loops_overall_and_by_task(subtests: pytest.Subtests) -> None:
    for seed in range(3):
        with subtests.test(seed=seed):
            images, texts, samples = world(seed)
            recall = score_recos(images, texts, samples).recall
            of_text = samples.image_of_text
            units = unit_rows(images, "images"), unit_rows(texts, "texts"), of_text
            for task in (None, *RetrievalTask):
                asking = [i for i, one in enumerate(samples.tasks) if task is None or one is task]
                by_text = [
                    competitors_of_text(*units, text)
                    for text, i in enumerate(of_text)
                    if i in asking
                ]
                by_image = [competitors_of_image(*units, image) for image in asking]
                for name, counts in (("text-to-image", by_text), ("image-to-text", by_image)):
                    direction = recall[
                        "text-to-image" if name == "text-to-image" else "image-to-text"
                    ]
                    assert direction is not None
                    found = direction.tasks[task] if task else direction.overall
                    assert found.queries == len(counts)
                    assert found.percent == {depth: percent(counts, depth) for depth in (1, 5, 10)}


@given(seed=st.integers(0, 10_000))
@settings(max_examples=8)
def test_scores_do_not_depend_on_sample_order(seed: int) -> None:
    rows, captions, samples = world(seed, fewest=0)
    order = np.random.default_rng(seed + 1).permutation(len(samples))
    moved = RecosSamples(
        tuple(samples.images[at] for at in order),
        tuple(samples.tasks[at] for at in order),
        samples.captions[order],
    )
    by_image = [np.flatnonzero(samples.image_of_text == at) for at in order]
    here = score_recos(rows, captions, samples)
    there = score_recos(rows[order], captions[np.concatenate(by_image)], moved)
    assert here.recall == there.recall


def score(images: list[list[float]], texts: list[list[float]], *listed: Any) -> RecosScores:
    return score_recos(images, texts, recos_samples(list(listed), "samples.json"))


def test_images_without_captions_are_only_candidates() -> None:
    """The second image has no caption, but is closest to the caption of the first image."""
    one, other, far = [1.0, 0.0], [1.0, 0.2], [-1.0, 0.0]
    three = sample("a", "color", 1), sample("b", None, 0), sample("c", "OCR", 1)
    recall = score([one, other, far], [[1.0, 0.3], far], *three).recall
    assert recall["image-to-text"] is None
    found = recall["text-to-image"]
    assert found is not None
    assert found.overall == (2, 3, {1: 50, 5: 100, 10: 100})
    assert found.tasks[RetrievalTask.COLOR].percent == {1: 0, 5: 100, 10: 100}
    assert found.tasks[RetrievalTask.OCR].percent == {1: 100, 5: 100, 10: 100}
    assert found.tasks[RetrievalTask.CODE].percent == {1: None, 5: None, 10: None}


BROKEN: dict[str, tuple[Any, str]] = {
    "a task that is no name": (
        [sample("a", "colo/r", 1)],
        r"task: must be 'color'.*got 'colo/r'; did you mean 'color'\?",
    ),
    "captions that are texts": (
        [sample("a", "color", 1), {**sample("b", "color", 1), "captions": ["one"]}],
        r"s\.json: sample 1 \(from 0\): captions: must be a whole number, got \['one'\]",
    ),
    "fewer than no captions": (
        [sample("a", "color", -1)],
        r"captions: .*greater than or equal to 0, got -1",
    ),
    "captions nowhere": ([sample("a", "color", 0)], r"at least one caption; all have none"),
    "an image twice": ([sample("a", "color", 1)] * 2, r"'a' is sample 0 and sample 1"),
}


def test_invalid_samples_are_refused_with_a_message(subtests: pytest.Subtests) -> None:
    for case in BROKEN:
        with subtests.test(case=case):
            listed, message = BROKEN[case]
            with pytest.raises(FormatError, match=message):
                recos_samples(listed, "s.json")


def test_rows_that_do_not_match_the_samples_are_refused() -> None:
    samples = recos_samples([sample("a", "color", 2)], "samples.json")
    with pytest.raises(FormatError, match="the text embeddings must have 2 rows, one for each cap"):
        score_recos(np.ones((1, 2)), np.ones((3, 2)), samples)
