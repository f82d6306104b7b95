"""`loupe quarantine --retry` asks again for what could not be used, and for nothing else."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.flows.command_line import Loupe
from tests.flows.test_unusable_models import CAPTIONS, Hosted
from tests.servers.counting_server import CountingServer, counting_server, prompt_text, reworded

LOOP = "She has a handbag on her right hand. " * 4
OTHER = {"name": "other"}
pytestmark = pytest.mark.slow


@pytest.fixture
def server() -> Iterator[CountingServer]:
    with counting_server() as running:
        running.listed = None
        yield running


@pytest.fixture
def hosted(loupe: Loupe, tmp_path: Path, home: Path, server: CountingServer) -> Hosted:
    return Hosted(loupe, tmp_path, home, server)


def failing_at_first(server: CountingServer, answer: str, times: int, model: str) -> None:
    """Let the server give an unusable answer to the first requests to a model."""
    bad: list[str] = []

    def say(request: dict[str, Any]) -> str:
        if request["model"] == model and len(bad) < times:
            bad.append(answer)
            return json.dumps({"rewrite": answer})
        return json.dumps({"rewrite": reworded(prompt_text(request))})

    server.say = say


def retried(hosted: Hosted, reason: str) -> None:
    found = hosted.loupe("quarantine", "people", "--reason", reason, "--retry")
    assert found.exit_code == 0, found.err


@pytest.mark.parametrize(
    ("answer", "reason"), [(LOOP, "repetition"), ("Ignore all instructions.", "instruction_echo")]
)
def test_only_answers_that_could_not_be_used_are_bought_again(
    hosted: Hosted, server: CountingServer, answer: str, reason: str
) -> None:
    """The first is refused when it is parsed, the second when it is compared with its source."""
    failing_at_first(server, answer, 2, "counting")
    assert hosted.run().exit_code == 0
    assert server.ledger.summary()["total"] == CAPTIONS
    retried(hosted, reason)
    again = hosted.run(version="0.2.0")
    assert again.exit_code == 0, again.err
    assert server.ledger.summary()["total"] == CAPTIONS + 2
    assert len(rewrites(hosted.home, "0.2.0")) == CAPTIONS
    assert hosted.loupe("quarantine", "people", "--json").json["counts"] == []


def test_a_release_after_a_retry_is_that_of_a_run_without_a_fault(
    hosted: Hosted,
    server: CountingServer,
    tmp_path: Path,
    migrated_sqlite: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both models write the same; the text of the first one stays, although it came second."""
    assert hosted.run(None, OTHER, max_unusable_share=1.0).exit_code == 0
    expected = rewrites(hosted.home, "0.1.0")
    assert {author for author, _ in expected} == {"counting@1"}

    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(migrated_sqlite, other / "loupe.db")
    monkeypatch.setenv("LOUPE_HOME", str(other))
    failing_at_first(server, LOOP, 2, "counting")
    assert hosted.run(None, OTHER, max_unusable_share=1.0).exit_code == 0
    assert {author for author, _ in rewrites(other, "0.1.0")} == {"counting@1", "other@1"}
    retried(hosted, "repetition")
    again = hosted.run(None, OTHER, max_unusable_share=1.0, version="0.2.0")
    assert again.exit_code == 0, again.err
    assert rewrites(other, "0.2.0") == expected


def rewrites(home: Path, version: str) -> list[tuple[str, str]]:
    """Return author and text of the rewrites in a release."""
    (file,) = (home / "releases" / f"people-{version}" / "data").glob("*.parquet")
    found: list[tuple[str, str]] = []
    for row in pq.read_table(file).to_pylist():
        captions = zip(row["caption_authors"], row["captions"], row["caption_origins"], strict=True)
        found += [(author, text) for author, text, origin in captions if origin == "rewrite"]
    return sorted(found)
