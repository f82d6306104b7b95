"""Output and errors of `loupe metrics ccd` and `loupe metrics recos`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.flows.command_line import Finished, Loupe

CCD: list[dict[str, Any]] = [
    {"image": "a.jpg", "group": "a.jpg", "contrastive_type": None},
    {"image": "a_1.jpg", "group": "a.jpg", "contrastive_type": "Event Element"},
]
RECOS: list[dict[str, Any]] = [
    {"image": "a.jpg", "task": "color", "captions": 5},
    {"image": "b.jpg", "task": "OCR", "captions": 5},
]
# Every caption is nearest to its image, except the first caption of a, which is nearest to b.
IMAGES = np.array([[1.0, 0.0], [0.5, 0.9]])
TEXTS = np.array([[0.5, 0.8], *[[1.0, 0.1 * k] for k in range(4)], *[[0.5, 0.95]] * 5])

Score = Callable[..., Finished]


@pytest.fixture
def score(loupe: Loupe, tmp_path: Path) -> Score:
    """Run a command on two images and ten texts, or on other arrays."""

    def run(
        command: str,
        samples: Any,
        *options: str,
        images: "np.ndarray[Any, Any]" = IMAGES,
        texts: "np.ndarray[Any, Any]" = TEXTS,
    ) -> Finished:
        np.save(tmp_path / "I.npy", images)
        np.save(tmp_path / "T.npy", texts)
        text = samples if isinstance(samples, str) else json.dumps(samples)
        (tmp_path / "samples.json").write_text(text)
        files = [
            *("--image-embeddings", str(tmp_path / "I.npy")),
            *("--text-embeddings", str(tmp_path / "T.npy")),
            *("--samples", str(tmp_path / "samples.json")),
        ]
        return loupe("metrics", command, *files, *options)

    return run


def test_a_contrastive_benchmark_is_scored(score: Score) -> None:
    found = score("ccd", CCD, "--json", "--distractors").json
    assert found["R@1"] == {
        "text-to-image": {
            "original_to_all": 80.0,
            "original_to_original": 100.0,
            "all_to_all": 90.0,
        },
        "image-to-text": {
            "original_to_all": 100.0,
            "original_to_original": 100.0,
            "all_to_all": 100.0,
        },
    }
    assert found["R@5"]["text-to-image"]["original_to_all"] == 100.0
    accuracy = found["FG-CDA"]["text-to-image"]
    names = ("Event/Action Attribute", "Event/Action", "overall", "Scene", "Style & Presentation")
    assert [accuracy[name] for name in names] == [90.0, 90.0, 90.0, None, None]
    assert found["FG-CDE"]["text-to-image"]["overall"] == 10.0
    assert found["comparisons"]["image-to-text"]["overall"] == 50
    assert found["comparisons"]["image-to-text, k with k"]["overall"] == 10
    assert found["similarities"]["Event/Action Attribute"]["pairs"] == 1
    cosine = 0.5 / np.hypot(0.5, 0.9)
    assert found["similarities"]["Event/Action Attribute"]["mean"] == pytest.approx(cosine)
    assert found["distractors"]["images"] == pytest.approx(cosine)
    assert (found["samples"], found["originals"]) == (2, 1)
    assert found["seconds"] >= 0


def test_a_contrastive_benchmark_is_shown(score: Score) -> None:
    shown = score("ccd", CCD, "--distractors")
    assert shown.exit_code == 0, shown.err
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.out.splitlines()]
    assert ["text-to-image", "original → all", "5", "2", "80.00", "100.00"] in rows
    assert ["Event/Action", "1", "90.00", "100.00", "100.00", "–", "–", "–"] in rows
    assert ["Event/Action Attribute", "1", "90.00", *["100.00"] * 2, *["0.49"] * 3] in rows
    assert "mean cosine with the 5 nearest other samples: images 0.486" in shown.out
    assert "2 samples in 1 groups" in shown.out


def test_a_benchmark_of_tasks_is_scored(score: Score) -> None:
    found = score("recos", RECOS, "--json").json
    assert found["R@1"]["text-to-image"]["overall"] == 90.0
    assert found["R@1"]["text-to-image"]["color"] == 80.0
    assert found["R@1"]["image-to-text"]["OCR"] == 100.0
    assert found["R@10"]["image-to-text"]["scene"] is None
    assert found["queries"]["text-to-image"]["color"] == 5
    assert (found["images"], found["captions"]) == (2, 10)


def test_a_benchmark_with_images_without_captions_is_scored_from_text_to_image(
    score: Score,
) -> None:
    samples = [{"image": "a.jpg", "task": "color", "captions": 10}, {**RECOS[1], "captions": 0}]
    found = score("recos", samples, "--json").json
    assert found["R@1"]["image-to-text"] is None
    assert found["R@1"]["text-to-image"]["overall"] == 40.0
    shown = score("recos", samples)
    assert "image-to-text is not scored: some images have no caption" in shown.out
    rows = [line.replace("│", " ").split() for line in shown.out.splitlines()]
    assert ["color", "10", "40.00", "100.00", "100.00"] in rows


TWO_ANCHORS = [CCD[0], {**CCD[1], "contrastive_type": None}]
BROKEN: dict[str, tuple[str, Any, dict[str, Any], tuple[str, ...]]] = {
    "no JSON": ("ccd", "[{]", {}, ("samples.json must be a JSON list", "line 1 column 3")),
    "a type misspelled": (
        "ccd",
        [CCD[0], {**CCD[1], "contrastive_type": "Scene Kind"}],
        {},
        ("samples.json: sample 1", "got 'Scene Kind'; did you mean 'Scene Type'?"),
    ),
    "no anchor": ("ccd", CCD[1:], {}, ("sample 0 (from 0)", "'a.jpg' has no anchor")),
    "two anchors": ("ccd", TWO_ANCHORS, {}, ("'a.jpg' has two anchors", "samples 0 and 1")),
    "too few texts": (
        "ccd",
        CCD,
        {"texts": TEXTS[:9]},
        ("T.npy must have 10 rows, 5 for each sample; got 9",),
    ),
    "other dimensions": ("ccd", CCD, {"images": np.ones((2, 3))}, ("I.npy", "T.npy", "3 and 2")),
    "not a number": (
        "ccd",
        CCD,
        {"images": np.array([[1.0, 0.0], [np.nan, 1.0]])},
        ("I.npy", "row 1 (from 0)", "NaN"),
    ),
    "objects": (
        "recos",
        RECOS,
        {"images": np.array([[{}, {}]], dtype=object)},
        ("I.npy is not a .npy file, is cut off, or holds objects",),
    ),
    "a task that is no name": (
        "recos",
        [{**RECOS[0], "task": "colo/r"}, RECOS[1]],
        {},
        ("sample 0 (from 0): task", "did you mean 'color'?"),
    ),
    "too many captions": (
        "recos",
        [RECOS[0], {**RECOS[1], "captions": 6}],
        {},
        ("T.npy must have 11 rows, one for each caption; got 10",),
    ),
}


def test_invalid_input_is_a_one_line_error(score: Score) -> None:
    for case, (command, samples, embeddings, parts) in BROKEN.items():
        refused = score(command, samples, **embeddings)
        assert refused.exit_code == 2, case
        assert refused.err.startswith("error: "), case
        assert "Traceback" not in refused.err, case
        assert [part for part in parts if part not in refused.err] == [], case


def test_a_missing_file_is_named(loupe: Loupe, tmp_path: Path) -> None:
    files = ("--image-embeddings", "I.npy", "--text-embeddings", "T.npy")
    missing = str(tmp_path / "missing.json")
    refused = loupe("metrics", "ccd", *files, "--samples", missing)
    assert refused.exit_code == 2
    assert f"{missing} cannot be read: does not exist" in refused.err
    (tmp_path / "samples.json").write_text(json.dumps(CCD))
    refused = loupe("metrics", "ccd", *files, "--samples", str(tmp_path / "samples.json"))
    assert refused.exit_code == 2
    assert "I.npy does not exist; wanted a .npy file" in refused.err
