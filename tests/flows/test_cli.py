"""The command line: output, exit codes and error messages."""

import errno
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import typer
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings
from prov.model import ProvDocument
from typer.testing import CliRunner

from loupe.db.entities import find
from loupe.db.reviews import add_annotator
from loupe.db.store import Store
from loupe.demo.builds import DONE, SEED
from loupe.demo.worlds import write_people_world
from loupe.flows.cli import commands, run
from loupe.flows.cli.deployments import _cancel, _follow
from loupe.flows.cli.main import app, main
from loupe.flows.cli.services import _next_steps, _welcome
from loupe.models.profiles.settings import load_settings
from loupe.schemas.errors import ServiceError
from loupe.schemas.records import Caption
from loupe.services.installation import ServiceReport
from loupe.services.prefect_server import SERVER
from loupe.services.process import LOOPBACK, ServiceSpec, ServiceState, free_port, start, stop
from loupe.services.public import parse_public, save_public_site
from tests.flows.command_line import Loupe
from tests.flows.hostile import CAPTION, INJECTION, REASONS, write_hostile
from tests.flows.worlds import tiny_build
from tests.sources.pictures import encoded


def all_commands(
    command: Any = None, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    command = command or typer.main.get_command(app)
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from all_commands(inner, (*path, name))


def test_every_command_and_parameter_has_help() -> None:
    for path, command in all_commands():
        assert "Usage" in command.get_help(typer.Context(command)), path
        assert len(command.help.split(".")[0]) > 10, path
        for parameter in command.params:
            assert parameter.help, (path, parameter.name)


def test_without_arguments_the_commands_are_listed() -> None:
    result = CliRunner().invoke(app, [])
    assert "Usage" in result.output
    assert "import" in result.output


@pytest.mark.parametrize("streams", ["", "<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_and_narrow_streams_do_not_break_a_command(tmp_path: Path, streams: str) -> None:
    command = f"{sys.executable} -m loupe.flows.cli.main check --source 'A man.' --rewrite 'A – ✓'"
    variables = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LOUPE_HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", f"{command} {streams}"],
        env={**os.environ, **variables},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)


@pytest.mark.parametrize("name", ["/proc/home", os.fsdecode(b"\xff")])
def test_a_home_that_cannot_be_made_is_a_sentence(
    loupe: Loupe, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / name))
    refused = loupe("import", "json-lines", str(source))
    assert refused.exit_code == 2
    assert re.search("error: the home .*set LOUPE_HOME to another", refused.err)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder for an annotation file and its images."""
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


def test_valid_records_of_a_hostile_file_are_imported_once(
    loupe: Loupe, source: Path, home_store: Store
) -> None:
    done = loupe("import", "json-lines", write_hostile(source), "--name", "hostile", "--json")
    assert done.exit_code == 1
    assert "loupe quarantine hostile" in done.err
    assert done.json["done"] == 2
    assert set(done.json["rejected"]) >= set(REASONS.values())
    captions = [one.record(Caption).text for one in find(home_store, "hostile", "caption")]
    assert sorted(captions) == sorted([CAPTION, INJECTION])
    again = loupe(
        "import", "json-lines", source / "annotations.jsonl", "--name", "hostile", "--json"
    )
    assert (again.exit_code, again.json["done"], again.json["rejected"]) == (0, 0, {})
    assert again.json["done_before"] == 2 + sum(done.json["rejected"].values())


def test_files_at_home_are_private_and_requested_pages_are_not(
    loupe: Loupe, home: Path, source: Path, tmp_path: Path
) -> None:
    before = os.umask(0o022)
    try:
        assert loupe("import", "json-lines", write_hostile(source), "--name", "p").exit_code == 1
        assert loupe("queue", "stats", "--html", tmp_path / "page.html").exit_code == 0
    finally:
        os.umask(before)
    assert [path for path in (home, *home.rglob("*")) if path.stat().st_mode & 0o077] == []
    assert stat.S_IMODE((tmp_path / "page.html").stat().st_mode) == 0o644


def test_quarantine_shows_file_record_field_and_reason(loupe: Loupe, source: Path) -> None:
    loupe("import", "json-lines", write_hostile(source), "--name", "hostile")
    shown = loupe("quarantine", "hostile", "--json")
    assert shown.exit_code == 0
    found: dict[int, Any] = {}
    for one in shown.json["records"]:
        found.setdefault(one["context"]["index"], one)  # a bad caption comes before its record
    assert {index: one["reason"] for index, one in found.items()} == REASONS
    assert all(one["context"]["file"] == "annotations.jsonl" for one in found.values())
    assert all(one["detail"].rstrip(".") for one in found.values())
    assert found[2]["context"]["field"] == "captions"
    assert found[4]["context"]["field"] == "file_path"
    assert sum(row["inputs"] for row in shown.json["counts"]) == len(shown.json["records"])
    text = loupe("quarantine", "hostile", "--reason", "missing_image")
    assert text.exit_code == 0
    assert "nowhere[/b].jpg" in text.out, "markup is printed literally"
    assert "annotations.jsonl, index 4, field file_path" in text.out
    assert "not_an_image" not in text.out
    assert "\x1b" not in loupe("quarantine", "hostile").out


def test_a_corrected_record_is_imported(loupe: Loupe, source: Path) -> None:
    path = write_hostile(source)
    loupe("import", "json-lines", path, "--name", "hostile")
    (source / "nowhere[").mkdir()
    (source / "nowhere[/b].jpg").write_bytes(encoded(size=(24, 48)))
    back = loupe("quarantine", "hostile", "--reason", "missing_image", "--retry")
    assert back.out.strip() == "1 record released from quarantine: the next run of hostile retries"
    again = loupe("import", "json-lines", path, "--name", "hostile", "--json")
    assert again.json["done"] == 3, "images changed, so all records are read again"
    assert "missing_image" not in again.json["rejected"]
    none = loupe("quarantine", "hostile", "--reason", "missing_image", "--retry")
    assert none.exit_code == 2
    assert "no quarantined records with the reason missing_image; the reasons are " in none.err


def test_an_empty_quarantine(loupe: Loupe) -> None:
    assert "nothing is quarantined" in loupe("quarantine").out
    assert loupe("quarantine", "--json").json == {"counts": [], "records": []}


def test_wrong_arguments_give_a_one_sentence_error(loupe: Loupe) -> None:
    cases = [
        (["export", "x"], "there is no command 'export'; did you mean loupe release export?"),
        (["import", "jsonl", "x.jsonl"], "no format is called 'jsonl'; did you mean json?"),
        (["import", "../x", "x.jsonl"], "no format is called '../x'"),
        (["import", "json-lines", "x.jsonl", "--name", "a b"], "source: name: must be up to 64"),
        (["import", "json-lines", "x.jsonl", "--name", ""], "source: name: must be up to 64"),
        (["check", "/dev/null"], "there is no pair to check in /dev/null; each line must be"),
        (["import", "json-lines", "nowhere/x.jsonl"], "the image folder nowhere is not there"),
        (["import", "json-lines", "/nowhere.jsonl"], "/nowhere.jsonl"),
        (["lineage", "abc"], "an id needs at least 6 digits; got 'abc'"),
        (["lineage", "images/1.png"], "for a file of a release, add --release FOLDER"),
        (["lineage", "abcdef"], "no entity has an id that starts with 'abcdef'"),
        (["lineage", "%%%%%%"], "no entity has an id that starts with '%%%%%%'"),
        (["run", "build-ufine3c", "--config", "none.toml"], "none.toml cannot be read: does not"),
        (["run", "build-ufine3c", "--profile", "[/x].toml"], "no profile '[/x].toml'"),
        (["cost", "--config", "none.toml"], "none.toml cannot be read: does not"),
        (["quarantine", "x", "--limit", "9" * 20], "99999999999999999999 is too large; expected"),
        (["quarantine", "x", "--retry"], "--retry needs a dataset and a --reason"),
    ]
    for arguments, sentence in cases:
        refused = loupe(*arguments)
        assert refused.exit_code == 2, arguments
        assert refused.err.splitlines()[-1].lower().startswith("error: "), arguments
        assert sentence in refused.err, arguments
        assert "Traceback" not in refused.err, arguments
        assert refused.out == "", arguments


def test_a_build_file_is_read_before_a_run_starts_on_the_server(loupe: Loupe, home: Path) -> None:
    port = free_port()
    command = (sys.executable, "-m", "http.server", "--bind", LOOPBACK, str(port))
    server = ServiceSpec(
        name=SERVER,
        command=command,
        working_directory=home.parent,
        environment=os.environ,
        port=port,
        health="/",
    )
    start(home, server)
    try:
        refused = loupe("run", "build-ufine3c", "--config", "none.toml")
    finally:
        stop(home, SERVER)
    assert refused.exit_code == 2
    assert "none.toml cannot be read: does not" in refused.err


def test_a_server_that_ends_during_a_run_is_reported() -> None:
    api = {PREFECT_API_URL: f"http://{LOOPBACK}:{free_port()}/api"}
    with temporary_settings(api), get_client(sync_client=True) as client:
        for contact in (_follow, _cancel):
            with pytest.raises(ServiceError, match=r"does not answer any more .*: loupe up"):
                contact(client, uuid4())


def fails(number: int, path: str) -> Callable[[], None]:
    def fail() -> None:
        raise OSError(number, os.strerror(number), path)

    return fail


def test_a_full_disk_or_a_lack_of_permission_gives_a_one_sentence_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for number, sentence in (
        (errno.ENOSPC, "written (No space left on device); make room there and run again"),
        (errno.EACCES, "read or written (Permission denied)"),
    ):
        with pytest.raises(SystemExit, match="1"):
            main(fails(number, "out/7.jpg"))
        assert capsys.readouterr().err == f"error: out/7.jpg cannot be {sentence}\n"


def test_an_interruption_and_a_killed_process_end_in_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Click alone would only print "Aborted!" for both."""
    endings: list[tuple[BaseException, int, str]] = [
        (KeyboardInterrupt(), 130, "stopped; nothing is left half-written: run again to continue"),
        (EOFError(), 1, "error: another process of this command was killed; finished work is"),
    ]
    monkeypatch.setattr("sys.argv", ["loupe"])
    for error, code, sentence in endings:
        own = typer.Typer()

        def end(error: BaseException = error) -> None:
            raise error

        commands.command(own)(lambda: end())
        with pytest.raises(SystemExit) as ended:
            main(own)
        assert ended.value.code == code
        found = capsys.readouterr().err
        assert sentence in found
        assert "Aborted" not in found


def test_an_unexpected_error_is_not_caught() -> None:
    with pytest.raises(FileNotFoundError):
        main(fails(errno.ENOENT, "x"))


def test_an_unreachable_database_gives_a_one_sentence_error(
    loupe: Loupe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOUPE_DATABASE_URL", "postgresql://me:hunter2@127.0.0.1:1/loupe")
    refused = loupe("cost")
    assert refused.exit_code == 2
    assert "does not answer" in refused.err
    assert "hunter2" not in refused.err


@pytest.fixture
def build_file(tmp_path: Path) -> Path:
    return tiny_build(tmp_path)


def test_a_tiny_build_is_released_and_repeated_without_work(
    loupe: Loupe, build_file: Path, home: Path, home_store: Store
) -> None:
    forecast = loupe("cost", "--config", build_file, "--json").json["forecast"]
    assert [row["calls"] for row in forecast] == [0, 0], "no identities are sampled yet"

    built = loupe("run", "build-ufine3c", "--config", build_file, "--in-process", "--json")
    assert built.exit_code == 0, built.err
    release = Path(built.json["release"])
    assert release == home / "releases" / "tiny-0.1.0"
    assert loupe("release", "verify", release).exit_code == 0
    stages = {stage["stage"]: stage for stage in built.json["stages"]}
    assert stages["import people"]["done"] == 3
    assert stages["sample people"]["done"] == 2

    again = loupe("run", "build-ufine3c", "--config", build_file, "--in-process", "--json")
    assert again.json["release_id"] == built.json["release_id"]
    assert sum(stage["done"] for stage in again.json["stages"]) == 0

    spent = loupe("cost", "tiny", "--json").json["spent"]
    assert sum(row["calls"] for row in spent) == 4
    assert "loupe-rule-rewriter" in loupe("cost").out
    people = build_file.parent / "people" / "annotations.json"
    refused = loupe("import", "cuhk-pedes", people, "--name", "tiny")
    assert refused.exit_code == 2
    assert "'tiny' was built from other sources" in refused.err
    _check_lineage(loupe, home_store)


def _check_lineage(loupe: Loupe, store: Store) -> None:
    rewrite = next(find(store, "tiny", "rewrite"))
    tree = loupe("lineage", rewrite.id[:12])
    assert tree.exit_code == 0
    for words in ("rewrite of", "describes", "imported from", "answered by", "annotations.json"):
        assert words in tree.out
    document = loupe("lineage", rewrite.id, "--json").out
    graph = ProvDocument.deserialize(content=document, format="json")
    kinds = re.findall(r"entity\(loupe:[0-9a-f]{32}", graph.get_provn())
    assert len(kinds) >= 5


def test_a_budget_without_prices_is_refused(loupe: Loupe, build_file: Path, tmp_path: Path) -> None:
    profile = tmp_path / "unpriced.toml"
    profile.write_text(
        'description = "x"\njudge = false\n[rewrite]\nmodels = [{ provider = "openai", name = "m", '
        'revision = "1", base_url = "http://127.0.0.1:1/v1" }]\n',
        encoding="utf-8",
    )
    refused = loupe(
        "run", "build-ufine3c", "--config", build_file, "--profile", profile, "--max-cost", "1"
    )
    assert refused.exit_code == 2
    assert "--max-cost needs a price for every model" in refused.err


def test_a_format_name_is_normalised_on_the_command_line(loupe: Loupe, source: Path) -> None:
    (source / "a.jpg").write_bytes(encoded())
    path = source / "list.jsonl"
    path.write_text('{"file_name": "a.jpg", "captions": ["A person."]}', encoding="utf-8")
    assert loupe("import", " JSON_Lines", path, "--json").exit_code == 0
    path.write_text("", encoding="utf-8")
    empty = loupe("import", "json-lines", path)
    assert empty.exit_code == 2
    assert "list.jsonl is empty" in empty.err


@pytest.fixture
def drawn_world(home: Path) -> Path:
    """A demonstration world of two people in the place of the one that `loupe demo` draws."""
    folder = home / "demonstration" / f"people-{SEED}"
    write_people_world(folder, SEED, 2)
    (folder / DONE).touch()
    return folder


def test_the_demo_builds_a_release_and_suggests_commands_that_work(
    loupe: Loupe, home: Path, drawn_world: Path
) -> None:
    done = loupe("demo")
    assert done.exit_code == 0, done.err
    release = home / "releases" / "ufine3c-demo-0.1.0"
    commands = re.findall(r"  loupe ((?:release (?:report|verify)|lineage)(?: \S+)+)", done.out)
    kinds = ("release report", "release verify", "lineage")
    assert all(map(str.startswith, commands, kinds))
    assert len(commands) == len(kinds)
    for command in commands:
        assert loupe(*command.split()).exit_code == 0
    card = (release / "README.md").read_text(encoding="utf-8")
    assert "demonstration" in card
    assert "unreviewed" in card
    (page,) = re.findall(r"  (\S+/leaderboard.html)$", done.out, re.MULTILINE)
    assert Path(page).is_file()
    assert re.search(r"loupe-colour-lexicon@1 +│ +\d+\.\d\d ", done.out)
    assert re.search(r"^│ chance +│", done.out, re.MULTILINE)
    again = loupe("demo", "--json", "--quiet").json
    assert again["release"] == str(release)
    (evaluation,) = again["evaluation"]["evaluations"]
    assert not evaluation["is_new"]


@pytest.mark.parametrize(("found", "message"), [(None, "source "), ("/bin/loupe", "")])
def test_the_demo_explains_how_to_activate_loupe_if_it_is_not_on_the_path(
    monkeypatch: pytest.MonkeyPatch, found: str | None, message: str
) -> None:
    monkeypatch.setattr("loupe.flows.cli.run.shutil.which", lambda _name: found)
    shown = run._activation()
    assert message in shown
    assert bool(shown) == bool(message)


def test_the_next_steps_are_those_of_the_named_pipelines(tmp_path: Path) -> None:
    own = list(_next_steps(tmp_path, {"a b.py": "shop/default"}, with_prefect=True))
    assert own[0] == "loupe run 'a b.py'"
    assert "prefect deployment run shop/default --watch" in own
    assert not any("ufine3c" in one for one in own)
    assert "loupe run FILE.py" in _next_steps(tmp_path, {}, with_prefect=False)


def test_the_lead_is_told_their_page_and_to_add_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path))
    desk = ServiceReport(
        name="label-studio",
        state=ServiceState.RUNNING,
        answers=True,
        url="http://127.0.0.1:8080",
        pid=1,
        log=None,
    )
    shown = "\n".join(_welcome(load_settings(), [desk], {}))
    assert "http://127.0.0.1:8080/lead/" in shown
    assert "loupe annotator add NAME " in shown
    save_public_site(tmp_path, parse_public("https://desk.example.org"))
    assert "loupe annotator invite NAME " in "\n".join(_welcome(load_settings(), [desk], {}))
    elsewhere = load_settings(label_studio_url="https://labels.example.org")
    shown = "\n".join(_welcome(elsewhere, [], {}))
    assert "https://labels.example.org" in shown
    assert "loupe annotator add NAME --token-file FILE " in shown
    assert "/lead/" not in shown
    store = Store.open(load_settings().database_url, tmp_path)
    add_annotator(store, "Bea", "server", 1, ["annotator"])
    assert "loupe annotator" not in "\n".join(_welcome(load_settings(), [desk], {}))
