"""Output and errors of `loupe metrics`."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loupe.retrieval.ranking import bootstrap_means, score_retrieval
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
    """Run the command on the arrays above, or on others (None omits the option)."""

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


def test_scores_are_printed_as_json(score: Score) -> None:
    found = score("--json").json
    assert found.pop("seconds") >= 0
    assert found.pop("mSD") > found.pop("mSD_released") > 0
    assert found == {
        "R@1": 50,  # the match of query 1 is at rank 2, those of query 2 at ranks 1 and 4
        "R@5": 100,
        "R@10": 100,
        "mAP": pytest.approx(100 * (1 / 2 + (1 + 2 / 4) / 2) / 2),
        "mINP": 50,
        "median_rank": 1.5,
        "queries": 3,
        "unmatched": 1,
        "gallery": 4,
        "junk": 0,
    }
    assert score("--json", others={"--gallery-ids": np.array([3, 2, 2, -1])}).json["junk"] == 1


def test_intervals_equal_a_bootstrap_over_identities(score: Score) -> None:
    chance = np.random.default_rng(2)
    query_ids, gallery_ids = np.arange(60) // 3, np.arange(20)
    centres = chance.normal(size=(20, 8))
    queries = centres[query_ids] + chance.normal(size=(60, 8))
    others = dict(zip(OPTIONS, (queries, centres, query_ids, gallery_ids), strict=True))
    plain = score("--json", others=others).json
    found = score("--json", "--intervals", others=others).json
    intervals = found.pop("intervals")
    scores = score_retrieval(queries, centres, query_ids, gallery_ids)
    expected = bootstrap_means(scores.by_query, query_ids)
    assert intervals == {name: [one.low, one.high] for name, one in expected.items()}
    assert set(intervals) == {"R@1", "R@5", "R@10", "mAP", "mSD", "mINP"}
    low, high = intervals["R@1"]
    assert low < found["R@1"] < high
    assert {**found, "seconds": 0} == {**plain, "seconds": 0}
    table = score("--intervals", others=others).out
    assert re.search(rf"R@1 +│ +{found['R@1']:.2f} │ {low:.2f}–{high:.2f} +│", table)


def test_invalid_arrays_are_one_line_errors(score: Score) -> None:
    cases = [
        ({"--gallery": None}, "missing --gallery"),
        (
            {"--queries": b"no array"},
            "queries.npy is not a .npy file, is cut off, or holds objects",
        ),
        (
            {"--queries": np.array([{}])},
            "queries.npy is not a .npy file, is cut off, or holds objects",
        ),
        ({"--queries": np.full((3, 2), np.nan)}, "queries.npy: every row must be finite, row 0"),
        ({"--gallery": np.zeros((4, 2))}, "gallery.npy: every row must be of a length above zero"),
        ({"--gallery": np.ones((4, 5))}, "must have rows of one length; got 2 and 5"),
        ({"--query-ids": np.array([1, 2])}, "must hold an id for each of the 3 rows; got 2"),
        ({"--query-ids": np.ones(3)}, "query-ids.npy must hold integers; got float64"),
        ({"--query-ids": np.array([8, 8, 9])}, "no query has a match"),
    ]
    for others, sentence in cases:
        finished = score(others=others)
        assert finished.exit_code == 2, sentence
        assert sentence in finished.err, sentence
        assert "Traceback" not in finished.err, sentence


def test_options_for_identities_cannot_be_used_with_a_command(score: Score) -> None:
    finished = score("ccd", "--image-embeddings", "x", "--text-embeddings", "x", "--samples", "x")
    assert finished.exit_code == 2
    output = "--queries, --gallery, --query-ids, --gallery-ids cannot be combined with a subcommand"
    assert output in " ".join(finished.err.split())
