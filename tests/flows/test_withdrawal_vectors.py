"""Vectors of erased files are not stored again from a copy of the release."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from db.entities import find
from db.tables import Embedding
from flows.engine.report import Progress
from flows.evaluation.run import EvaluationRequest, run_evaluation
from release.row_files import read_release
from schemas.base import sha256_of
from schemas.records import Image
from tests.flows.withdrawals import Home, home_of
from tests.release.worlds import DATASET, SOURCES


class RecordedProgress(Progress):
    """Records the messages of a run."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def say(self, text: str) -> None:
        self.messages.append(text)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = home_of(tmp_path / "home")
    yield home
    home.store.close()


@pytest.fixture
def copy(home: Home, tmp_path: Path) -> Path:
    """A copy of the release from before the withdrawal."""
    shutil.copytree(home.release("1.0.0"), tmp_path / "copy")
    return tmp_path / "copy"


def evaluate(home: Home, folder: Path) -> str:
    """Evaluate a release and return the messages."""
    output = RecordedProgress()
    request = EvaluationRequest(str(folder), embedder="builtin")
    run_evaluation(replace(home.run, progress=output), request)
    return "\n".join(output.messages)


def digests(home: Home, folder: Path) -> tuple[set[str], set[str]]:
    """Return the digests of images and texts: of the withdrawn person, and of others only."""
    images = [one.record(Image) for one in find(home.store, DATASET, Image.kind)]
    person = {one.sha256 for one in images if (one.source, one.identity) == (SOURCES[1].name, "9")}
    own, others = set[str](), set[str]()
    for row in read_release(folder).rows:
        texts = {sha256_of(one.text.encode()) for one in row.captions}
        (own if row.sha256 in person else others).update({row.sha256, *texts})
    return own, others - own


def cached(home: Home) -> set[str]:
    with home.store.read() as connection:
        return set(connection.execute(select(Embedding.sha256)).scalars())


def test_files_erased_before_the_first_scoring_leave_no_vectors(home: Home, copy: Path) -> None:
    _, others = digests(home, copy)
    home.withdraw("identity", "9", dataset=DATASET, source=SOURCES[1].name)
    assert cached(home) == set()
    messages = evaluate(home, copy)
    assert cached(home) == others
    assert "its vectors are not kept" in messages
