"""Commands that sign, compare, trace and score a release respect withdrawals from it."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from loupe.db.entities import fetch, find
from loupe.db.tables import Embedding
from loupe.flows.cli.lineage import _released
from loupe.flows.cli.release_compare import contamination
from loupe.flows.cli.release_copies import sign
from loupe.flows.engine.report import Progress
from loupe.flows.evaluation.run import EvaluationRequest, run_evaluation
from loupe.release.format.row_files import read_release
from loupe.release.withdrawn.files import read_mark
from loupe.schemas.base import sha256_of
from loupe.schemas.errors import UsageError
from loupe.schemas.records import Caption, Image
from loupe.schemas.withdrawal import WithdrawnRow
from tests.flows.withdrawals import Home, home_of
from tests.release.worlds import DATASET, SOURCES


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    home = home_of(tmp_path / "home")
    monkeypatch.setenv("LOUPE_HOME", str(home.folder))
    monkeypatch.delenv("LOUPE_DATABASE_URL", raising=False)
    yield home
    home.store.close()


@pytest.fixture
def copy(home: Home, tmp_path: Path) -> Path:
    """A copy of the release from before the withdrawal."""
    shutil.copytree(home.release("1.0.0"), tmp_path / "copy")
    return tmp_path / "copy"


def withdrawn(home: Home) -> list[WithdrawnRow]:
    home.withdraw("identity", "9", dataset=DATASET, source=SOURCES[1].name)
    mark = read_mark(home.release("1.0.0"))
    assert mark is not None
    return list(mark.notices[0].rows)


def test_a_release_withdrawn_in_part_is_not_signed(home: Home, copy: Path) -> None:
    withdrawn(home)
    with pytest.raises(UsageError, match=r"is withdrawn in part \(privacy\).*it is not signed"):
        sign(copy)


def test_lineage_hides_the_texts_of_withdrawn_rows(
    home: Home, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, captions = _released(copy, "1")
    assert captions
    rows = withdrawn(home)
    assert "is withdrawn" not in capsys.readouterr().err
    traced, captions = _released(copy, str(rows[0].number))
    assert captions == {}
    assert {node.entity.payload for node in traced.entities.values()} == {"{}"}
    assert "is withdrawn in part (privacy)" in capsys.readouterr().err
    texts = [
        id_
        for id_, one in fetch(home.store, list(home.states())).items()
        if one.kind == Caption.kind and one.state == "withdrawn" and one.dataset == DATASET
    ]
    asked, _ = _released(copy, texts[0])
    assert {node.entity.payload for node in asked.entities.values()} == {"{}"}
    sound = next(n for n in range(1, 13) if n not in {row.number for row in rows})
    left, captions = _released(copy, str(sound))
    assert captions
    assert "{}" not in {node.entity.payload for node in left.entities.values()}
    assert before.root


def test_comparing_a_release_withdrawn_in_part_gives_a_warning(
    home: Home, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    withdrawn(home)
    assert contamination(str(copy), str(home.release("1.0.1"))).failed
    errors = capsys.readouterr().err
    assert errors.count("ufine3c 1.0.0 is withdrawn in part (privacy)") == 1
    assert "ufine3c 1.0.1 is withdrawn" not in errors


class RecordedProgress(Progress):
    """Records the messages of a run."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def say(self, text: str) -> None:
        self.messages.append(text)


def evaluate(home: Home, folder: Path) -> str:
    """Evaluate a release and return the messages."""
    output = RecordedProgress()
    request = EvaluationRequest(str(folder), embedder="builtin")
    run_evaluation(replace(home.run, progress=output), request)
    return "\n".join(output.messages)


def digests_of_others(home: Home, folder: Path) -> set[str]:
    """Return the digests of images and texts in rows that do not show the withdrawn person."""
    images = [one.record(Image) for one in find(home.store, DATASET, Image.kind)]
    person = {one.sha256 for one in images if (one.source, one.identity) == (SOURCES[1].name, "9")}
    own, others = set[str](), set[str]()
    for row in read_release(folder).rows:
        texts = {sha256_of(one.text.encode()) for one in row.captions}
        (own if row.sha256 in person else others).update({row.sha256, *texts})
    return others - own


def cached(home: Home) -> set[str]:
    with home.store.read() as connection:
        return set(connection.execute(select(Embedding.sha256)).scalars())


def test_files_erased_before_the_first_scoring_leave_no_vectors(home: Home, copy: Path) -> None:
    others = digests_of_others(home, copy)
    withdrawn(home)
    assert cached(home) == set()
    messages = evaluate(home, copy)
    assert cached(home) == others
    assert "its vectors are not kept" in messages
