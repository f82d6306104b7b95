"""`loupe metrics`: what its user sees."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.flows.command_line import Finished, Loupe

QUERIES = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
GALLERY = np.array([[0.9, 0.1], [0.2, 0.9], [-1.0, 0.1], [0.8, 0.2]], dtype=np.float32)
OPTIONS = {
    "--queries": QUERIES,
    "--gallery": GALLERY,
    "--query-ids": np.array([1, 2, 7]),
    "--gallery-ids": np.array([3, 2, 2, 1], dtype=np.int32),
}

Score = Callable[..., Finished]


@pytest.fixture
def score(loupe: Loupe, tmp_path: Path) -> Score:
    """Runs the command on the arrays above, or on others (None: the option is left out)."""

    def run(*more: str, others: dict[str, Any] | None = None) -> Finished:
        arguments: list[str] = []
        for option, array in (OPTIONS | (others or {})).items():
            if array is None:
                continue
            path = tmp_path / f"{option[2:]}.npy"
            if isinstance(array, bytes):
                path.write_bytes(array)
            else:
                np.save(path, array)
            arguments += [option, str(path)]
        return loupe("metrics", *arguments, *more)

    return run


def test_json(score: Score) -> None:
    found = score("--json").json
    assert found.pop("seconds") >= 0
    assert found.pop("mSD") > found.pop("mSD_released") > 0
    assert found == {
        "R@1": 50,  # the first query's match is second, the second's first and last
        "R@5": 100,
        "R@10": 100,
        "mAP": pytest.approx(100 * (1 / 2 + (1 + 2 / 4) / 2) / 2),
        "mINP": 50,
        "median_rank": 1.5,
        "queries": 3,
        "unmatched": 1,
        "gallery": 4,
    }


def test_table(score: Score) -> None:
    finished = score()
    assert finished.exit_code == 0
    assert "mSD_released" in finished.out
    assert "62.50" in finished.out


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        ({"--gallery": None}, "give also --gallery"),
        ({"--queries": b"no array"}, "queries.npy cannot be read as .npy"),
        ({"--queries": np.array([{}])}, "queries.npy cannot be read as .npy"),
        ({"--queries": np.full((3, 2), np.nan)}, "queries.npy: every row must be finite, row 0"),
        ({"--gallery": np.zeros((4, 2))}, "gallery.npy: every row must be of a length above zero"),
        ({"--gallery": np.ones((4, 5))}, "must have rows of one length; got 2 and 5"),
        ({"--query-ids": np.array([1, 2])}, "must hold an id for each of the 3 rows; got 2"),
        ({"--query-ids": np.ones(3)}, "query-ids.npy must hold integers; got float64"),
        ({"--query-ids": np.array([8, 8, 9])}, "no query has a match"),
    ],
)
def test_what_cannot_be_scored(score: Score, others: dict[str, Any], sentence: str) -> None:
    finished = score(others=others)
    assert finished.exit_code == 2
    assert sentence in finished.err
    assert "Traceback" not in finished.err


def test_a_file_that_is_not_there(loupe: Loupe, tmp_path: Path) -> None:
    arguments = [text for option in OPTIONS for text in (option, str(tmp_path / "none.npy"))]
    finished = loupe("metrics", *arguments)
    assert finished.exit_code == 2
    assert "none.npy does not exist" in finished.err


def test_options_of_identities_with_a_command(score: Score) -> None:
    finished = score("ccd", "--image-embeddings", "x", "--text-embeddings", "x", "--samples", "x")
    assert finished.exit_code == 2
    assert "--queries" in finished.err
