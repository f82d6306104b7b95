"""Accounts of annotators: addresses, commands and desks."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from loupe.annotate.queues import SHARED
from loupe.db.reviews import active_annotators, add_annotator, pseudonyms
from loupe.db.store import Store
from loupe.flows.cli.main import app
from loupe.flows.engine.desks import open_desks
from loupe.models.profiles.settings import load_settings
from loupe.schemas.errors import ServiceError, UsageError
from loupe.services.credentials import load_workspaces
from loupe.services.label_studio import address_of
from tests.services.fixtures import AnnotatorAccount, LabelStudioServer, new_token
from tests.services.test_label_studio_roles import browser, program


def test_an_address_is_derived_from_the_name() -> None:
    for name, address in (
        ("Anna", "anna"),
        ("Zoë van Dyk", "zoe-van-dyk"),
        ("  o'Neil 2 ", "o-neil-2"),
    ):
        assert address_of(name) == f"{address}@localhost"


def test_a_name_without_a_valid_address_is_refused() -> None:
    for name in ("", "  ", "李", "Loupe", "x" * 61, "anna\nben"):
        with pytest.raises(UsageError, match=r"an annotator's name must (have Latin|be one line)"):
            address_of(name)


@given(st.text(max_size=60))
def test_an_address_is_plain_and_never_a_service_account(name: str) -> None:
    try:
        address = address_of(name)
    except UsageError:
        return
    user, _, domain = address.partition("@")
    assert user.replace("-", "a").isalnum()
    assert user.isascii()
    assert (user.lower(), domain) == (user, "localhost")


def test_an_unknown_annotator_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path))
    Store.open(load_settings(home=tmp_path).database_url).close()
    for command in ("show", "deactivate", "reactivate"):
        result = CliRunner().invoke(app, ["annotator", command, "Nobody"])
        assert isinstance(result.exception, UsageError), command
        assert "there is no annotator 'Nobody'" in str(result.exception), command


def test_an_external_label_studio_needs_the_annotators_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path))
    monkeypatch.setenv("LOUPE_LABEL_STUDIO_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("LOUPE_LABEL_STUDIO_TOKEN", "house")
    result = CliRunner().invoke(app, ["annotator", "add", "Anna"])
    assert isinstance(result.exception, UsageError)
    assert "Loupe cannot create accounts on http://127.0.0.1:1" in str(result.exception)
    assert "--token-file" in str(result.exception)


class ExternalLabelStudio(BaseHTTPRequestHandler):
    """Answers with JSON if `is_up`, else with a page of a proxy."""

    is_up = False

    def do_POST(self) -> None:
        answer = b'{"access": "a", "id": 7}' if self.is_up else b"<html>Sign in</html>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        pass


def test_an_account_on_an_external_label_studio_is_added_by_its_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, store = tmp_path / "token", Store.open(load_settings(home=tmp_path).database_url)
    with ThreadingHTTPServer(("127.0.0.1", 0), ExternalLabelStudio) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("LOUPE_HOME", str(tmp_path))
        monkeypatch.setenv("LOUPE_LABEL_STUDIO_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("LOUPE_LABEL_STUDIO_TOKEN", "house")
        for content, is_up, problem in (
            (b"\xff", False, "token cannot be read"),
            (b"hers", False, "did not accept its token: its answer has no token"),
            (b"hers", True, None),
        ):
            token.write_bytes(content)
            monkeypatch.setattr(ExternalLabelStudio, "is_up", is_up)
            command = ["annotator", "add", "李雷", "--token-file", str(token)]
            found = CliRunner().invoke(app, command).exception
            assert problem is None if found is None else str(problem) in str(found), found
        server.shutdown()
    (person,) = active_annotators(store, "annotator")
    assert (person.name, person.user_id) == ("李雷", 7)


def test_without_a_token_the_error_says_whom_to_add_again(
    tmp_path: Path, sqlite_store: Store
) -> None:
    anna = add_annotator(sqlite_store, "Anna", "http://desk", 7, ["annotator"])
    desks = open_desks(load_settings(home=tmp_path), sqlite_store)
    with pytest.raises(ServiceError, match="add the person again: loupe annotator add 'Anna'"):
        desks(anna.pseudonym)


@pytest.mark.label_studio
def test_adding_deactivating_and_reactivating_an_annotator(
    label_studio: LabelStudioServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = f"sqlite:///{tmp_path / 'loupe.db'}"
    monkeypatch.setenv("LOUPE_HOME", str(label_studio.home))
    monkeypatch.setenv("LOUPE_DATABASE_URL", database)
    where = label_studio.settings.label_studio_database_url
    monkeypatch.setenv("LOUPE_LABEL_STUDIO_DATABASE_URL", where)

    def loupe(*words: str) -> str:
        result = CliRunner().invoke(app, ["annotator", *words], catch_exceptions=False)
        assert result.exit_code == 0
        return result.output

    added = json.loads(loupe("add", "Fay Accounts", "--adjudicator", "--json"))
    kept = load_workspaces(label_studio.home)[added["pseudonym"]]
    assert kept.password is not None
    password = kept.password.get_secret_value()
    assert (added["roles"], added["state"]) == (["adjudicator", "annotator"], "active")
    assert password not in loupe("show", "Fay Accounts") + loupe("show", "Fay Accounts", "--json")
    assert json.loads(loupe("show", "Fay Accounts", "--json"))["password"] is None
    assert password in loupe("show", "Fay Accounts", "--reveal")

    store = Store.open(database)
    desks = open_desks(load_settings(), store)
    assert desks(added["pseudonym"]) is desks(added["pseudonym"])
    assert desks(added["pseudonym"]).find_project("nothing") is None
    assert desks(SHARED).url == desks(added["pseudonym"]).url == label_studio.url
    (user_id,) = [
        number
        for number, name in pseudonyms(store, desks(SHARED).server_name, range(1, 50)).items()
        if name == added["pseudonym"]
    ]
    assert user_id > 1

    email, url = str(kept.email), label_studio.url
    token = new_token(url, email, kept.password)
    fay = AnnotatorAccount("Fay Accounts", added["pseudonym"], user_id, email, kept.password, token)
    who = "/api/current-user/whoami"
    with (
        browser(label_studio, fay) as session,
        program(label_studio, token.get_secret_value()) as own,
    ):
        assert session.get(who).is_success
        assert own.get(who).is_success
        assert json.loads(loupe("deactivate", "Fay Accounts", "--json"))["state"] == "left"
        assert not session.get(who).is_success
        assert not own.get(who).is_success
    with pytest.raises(ServiceError, match="does not accept the password"):
        new_token(url, email, kept.password)
    assert active_annotators(store, "annotator") == []
    with program(label_studio, kept.token.get_secret_value()) as service_account:
        assert service_account.get("/api/projects").is_success  # finished work can still be fetched
    assert json.loads(loupe("reactivate", "Fay Accounts", "--json"))["state"] == "active"
    assert new_token(url, email, kept.password)
    store.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("loupe.db*"))
    assert b"Fay Accounts" in stored
    assert b"fay-accounts@" not in stored
    assert password.encode() not in stored
    assert kept.token.get_secret_value().encode() not in stored
