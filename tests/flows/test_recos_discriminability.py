"""Output and errors of `loupe recos discriminability`."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loupe.schemas.recos import DiscriminabilitySettings
from tests.flows.command_line import Finished, Loupe
from tests.retrieval.discriminability.literal import world

TEXTS, IMAGES, TARGETS = world(seed=1, texts=60, images=40, dimension=16)
Rows = np.ndarray[Any, Any]
Score = Callable[..., Finished]


@pytest.fixture
def score(loupe: Loupe, tmp_path: Path) -> Score:
    """Run the command on sixty captions of forty images, or on other arrays."""

    def run(
        *options: str, texts: Rows = TEXTS, images: Rows = IMAGES, targets: Rows = TARGETS
    ) -> Finished:
        for name, array in (("T", texts), ("I", images), ("t", targets)):
            np.save(tmp_path / f"{name}.npy", array)
        files = [
            *("--text-embeddings", str(tmp_path / "T.npy")),
            *("--image-embeddings", str(tmp_path / "I.npy")),
            *("--targets", str(tmp_path / "t.npy")),
        ]
        return loupe("recos", "discriminability", *files, *options)

    return run


def test_without_the_option_the_temperature_is_calibrated_and_printed(score: Score) -> None:
    found = score("--json").json
    median = np.median([one["dis"] for one in found["texts"]])
    assert median == pytest.approx(math.log(10) / 2, rel=0.02)
    settings = DiscriminabilitySettings()
    assert (found["k"], found["eta"]) == (settings.k, settings.eta)
    again = score("--temperature", str(found["temperature"]), "--json").json
    assert again["texts"] == found["texts"]
    shown = score()
    assert f"temperature {found['temperature']:g} (calibrated" in shown.out
    assert "60 captions" in shown.out


def test_a_degenerate_criterion_is_a_prominent_warning(score: Score) -> None:
    options: tuple[str, ...]
    for options in ((), ("--json",)):
        done = score("--temperature", "1.0", "--k", "5", "--eta", "0.5", *options)
        assert done.exit_code == 0
        assert "DEGENERATE: the criterion does not tell captions apart: 0 of 60 pass" in done.err
        assert "take a lower one, or none, so that it is calibrated" in done.err
        histogram = done.out if not options else done.err
        assert "dis(t) from 1." in histogram
        assert "░" in histogram
    assert done.json["degenerate"] is True
    assert {one["verdict"] for one in done.json["texts"]} == {"under_detailed"}


def test_a_few_captions_give_no_degeneracy_warning(score: Score) -> None:
    done = score("--temperature", "1.0", "--json", texts=TEXTS[:5], targets=TARGETS[:5])
    assert done.json["degenerate"] is False
    assert done.err == ""


WRONG: dict[str, tuple[tuple[str, ...], dict[str, Any], tuple[str, ...]]] = {
    "k": (("--k", "40"), {}, ("k must be below 40", "I.npy", "got 40")),
    "eta": (("--eta", "1"), {}, ("--eta must be between 0 and 1", "got 1")),
    "temperature": (("--temperature", "0"), {}, ("--temperature must be above 0", "got 0")),
    "not a number": (("--temperature", "nan"), {}, ("--temperature must be above 0", "got nan")),
    "a target outside": ((), {"targets": TARGETS + 40}, ("t.npy must hold indices from 0 to 39",)),
    "targets that are floats": ((), {"targets": TARGETS * 1.0}, ("t.npy must hold integers",)),
    "too few targets": ((), {"targets": TARGETS[:9]}, ("t.npy", "each of the 60 rows; got 9")),
    "another space": ((), {"images": IMAGES[:, :5]}, ("T.npy", "I.npy", "got 16 and 5")),
    "images all alike": ((), {"images": np.ones((40, 16))}, ("cannot be calibrated",)),
    "objects": (
        (),
        {"texts": np.array([[{}, {}]], dtype=object)},
        ("T.npy is not a .npy file, is cut off, or holds objects",),
    ),
}


def test_invalid_input_is_a_one_line_error(score: Score) -> None:
    for case, (options, arrays, parts) in WRONG.items():
        refused = score(*options, **arrays)
        assert refused.exit_code == 2, case
        assert refused.err.startswith("error: "), case
        assert "Traceback" not in refused.err, case
        assert [part for part in parts if part not in refused.err] == [], case
    assert score("--k", "1").exit_code == 2
