"""The first commands of a new user: missing stores, homes, misspelt names, wide tables."""

import io
from pathlib import Path

import pytest

from loupe.flows.cli import output
from loupe.models.profiles.settings import load_settings, make_home
from loupe.schemas.records import Granularity
from tests.flows.command_line import Loupe
from tests.flows.worlds import write_people

READ_ONLY_COMMANDS = (
    ("cost",),
    ("quarantine",),
    ("lineage", "abcdef012345"),
    ("queue", "list"),
    ("release", "list"),
    ("leaderboard", "people@0.1.0"),
    ("withdrawals",),
    ("annotator", "list"),
)


def test_read_only_commands_do_not_create_a_store(
    loupe: Loupe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "nowhere"))
    for command in READ_ONLY_COMMANDS:
        with subtests.test(command=command):
            ended = loupe(*command)
            assert ended.exit_code == 2
            assert "nothing is stored here yet" in ended.err
            assert not (tmp_path / "nowhere").exists()


def test_the_home_is_found_in_a_parent_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOUPE_HOME", raising=False)
    below = tmp_path / "project" / "photos" / "street"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert load_settings().home == below / ".loupe"
    make_home(tmp_path / "project" / ".loupe")
    assert load_settings().home == tmp_path / "project" / ".loupe"


def test_an_unknown_name_suggests_the_nearest_one(loupe: Loupe, tmp_path: Path) -> None:
    annotations = write_people(
        tmp_path / "street", Granularity.FINE, identities=1, images=1, captions=1
    )
    assert loupe("import", "cuhk_pedes", str(annotations), "--name", "street").exit_code == 0
    for command, hint in {
        ("cost", "stret"): "there is no dataset 'stret'; did you mean street?",
        ("quarantine", "stret"): "there is no dataset 'stret'; did you mean street?",
        ("run", "build-ufine"): "no flow is called 'build-ufine'; did you mean build-ufine3c?",
        ("import", "cuhk-pede", str(annotations)): "did you mean cuhk-pedes?",
        ("import", "coco-captions", str(annotations)): "this looks like cuhk-pedes",
    }.items():
        ended = loupe(*command)
        assert ended.exit_code == 2
        assert hint in ended.err


def test_the_version_is_printed(loupe: Loupe) -> None:
    assert loupe("--version").out.startswith("loupe ")


def test_a_table_wider_than_the_terminal_is_printed_row_by_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = io.StringIO()
    monkeypatch.setattr(output.out, "_file", file)
    monkeypatch.setattr(output.out, "_width", 80)
    columns = [f"a rather long column {number}" for number in range(6)]
    output.print_table(output.Table("Wide", columns, [[1, "two", None, True, 5.0, 6]]))
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "a rather long column 1  two" in lines
