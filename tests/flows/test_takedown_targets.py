"""`loupe withdraw` of an image, a video, a source and the work of an annotator.

The installation has a street dataset and one of three sources. The expected withdrawn rows come
from the rows of the first releases; the results are read from the release folders.
"""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner, Result

from loupe.flows.cli.main import app
from loupe.release.build import build_release
from loupe.release.diff import Difference, compare_releases
from loupe.release.verify import verify_release
from loupe.release.withdrawn.files import read_mark
from loupe.schemas.withdrawal import WithdrawalNotice
from tests.flows.takedown_world import Row, released_rows
from tests.release.street_world import DATASET as STREET
from tests.release.street_world import street_world
from tests.release.worlds import DATASET as PEOPLE
from tests.release.worlds import Composer, small_world, store_world


class Installation(NamedTuple):
    """A home with a release of each dataset, and copies from before the withdrawal."""

    home: Path
    copies: Path

    def rows(self, dataset: str) -> list[Row]:
        """Return the rows of the first release."""
        return list(released_rows(self.copies / dataset))

    def old(self, dataset: str) -> Path:
        return self.home / "releases" / f"{dataset}-1.0.0"

    def patch(self, dataset: str) -> Path:
        return self.home / "releases" / f"{dataset}-1.0.1"

    def notice(self, dataset: str) -> WithdrawalNotice:
        """Return the single notice in the mark of the first release."""
        mark = read_mark(self.old(dataset))
        assert mark is not None
        (notice,) = mark.notices
        return notice

    def difference(self, dataset: str) -> Difference:
        """Compare the patch with the first release."""
        return compare_releases(self.copies / dataset, self.patch(dataset))


def both() -> Composer:
    """People from three sources, and a street."""
    world, street = small_world(), street_world()
    world.entities |= street.entities
    world.decisions += street.decisions
    world.pictures += street.pictures
    world.calls |= street.calls
    return world


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation with both releases, copied by each test."""
    home = tmp_path_factory.mktemp("template")
    world = store_world(home, both().contents())
    for dataset in (PEOPLE, STREET):
        folder = home / "releases" / f"{dataset}-1.0.0"
        build_release(world.store, world.blobs, dataset, "1.0.0", folder)
    world.store.close()
    return home


@pytest.fixture
def installation(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    home = Path(shutil.copytree(template, tmp_path / "home"))
    monkeypatch.setenv("LOUPE_HOME", str(home))
    installation = Installation(home, tmp_path / "copies")
    for dataset in (PEOPLE, STREET):
        shutil.copytree(installation.old(dataset), installation.copies / dataset)
    return installation


def loupe(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def withdraw(*arguments: str) -> Any:
    """Run `loupe withdraw` and return its JSON output."""
    done = loupe("withdraw", *arguments, "--reason", "asked for", "--yes", "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout)


def key(row: Row) -> tuple[str, str]:
    return row["source"], row["source_file_path"]


def test_a_release_of_one_withdrawn_source_has_no_replacement(installation: Installation) -> None:
    withdraw("--source", "LUPerson-NL", "--ground", "copyright")
    assert not installation.patch(STREET).exists()
    notice = installation.notice(STREET)
    assert (len(notice.rows), notice.superseded_by) == (len(installation.rows(STREET)), None)
    output = loupe("release", "verify", installation.copies / STREET)
    assert output.exit_code == 1
    assert "no version replaces it" in output.output


def test_withdrawing_the_work_of_an_annotator_removes_texts_but_no_images(
    installation: Installation,
) -> None:
    who = "reviewer-aa"
    before = installation.rows(STREET)
    withdraw("--annotator", who, "--ground", "consent")
    after = list(released_rows(installation.patch(STREET)))
    assert list(map(key, after)) == list(map(key, before))
    kept = [one for row in before for one in texts_of(row) if one[1] != who]
    assert [one for row in after for one in texts_of(row)] == kept
    assert {author for _, author in kept} == {"reviewer-bb"}
    assert verify_release(installation.patch(STREET)).problems == []
    notice = installation.notice(STREET)
    assert not any(row.is_whole for row in notice.rows)
    taken = {text: author for row in before for text, author in texts_of(row)}
    assert {taken[text] for row in notice.rows for text in row.texts} == {who}
    assert len(notice.rows) == len(before)
    (problem,) = verify_release(installation.old(STREET)).problems
    assert (problem.fault, f"texts or records of {len(before)} of its" in problem.message) == (
        "withdrawn",
        True,
    )


def texts_of(row: Row) -> list[tuple[str, str]]:
    """Return the captions of a row with their authors."""
    return list(zip(row["caption_entity_ids"], row["caption_authors"], strict=True))


def test_a_release_withdrawn_for_quality_can_be_used_with_a_warning(
    installation: Installation, tmp_path: Path
) -> None:
    shown = installation.rows(PEOPLE)[3]
    withdraw(shown["image_entity_id"], "--ground", "quality")
    old = installation.old(PEOPLE)
    warning = "ufine3c 1.0.0 is withdrawn in part (quality)"
    exported = loupe("release", "export", old, "--format", "hf", "--out", tmp_path / "hf")
    assert (exported.exit_code, warning in exported.output) == (0, True)
    scored = loupe("evaluate", old, "--embedder", "builtin")
    assert (scored.exit_code, warning in scored.output) == (0, True), scored.output
    output = loupe("release", "list")
    assert "1 row; use 1.0.1" in output.output
    assert warning not in loupe("release", "show", f"{PEOPLE}@1.0.1").output
