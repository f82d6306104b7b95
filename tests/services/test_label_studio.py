from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from pydantic import SecretStr

from loupe.models.profiles.settings import load_settings
from loupe.schemas.errors import ConfigurationError, ServiceError
from loupe.services.credentials import load_credentials, save_token
from loupe.services.label_studio import (
    NAME,
    LabelStudioAccess,
    label_studio_access,
    label_studio_token,
    start_label_studio,
)
from loupe.services.process import LOOPBACK, free_port, running
from tests.services.fixtures import LabelStudioServer


@pytest.fixture
def client(label_studio: LabelStudioServer) -> Iterator[httpx.Client]:
    """A browser that is not logged in."""
    with httpx.Client(base_url=label_studio.url, trust_env=False, timeout=60) as client:
        yield client


@pytest.fixture
def api(label_studio: LabelStudioServer) -> Iterator[httpx.Client]:
    """An API client with our token."""
    with sign_in(label_studio.url, label_studio.token) as client:
        yield client


@pytest.mark.label_studio
def test_an_invalid_token_of_our_user_is_replaced(
    label_studio: LabelStudioServer,
) -> None:
    home, url = label_studio.home, label_studio.url
    before = label_studio_token(home, url)
    assert before == load_credentials(home).label_studio_token
    save_token(home, SecretStr("not-a-token"))
    access = label_studio_access(
        load_settings(home=home)
    )  # without a URL, the server of the installation is used
    assert access.url == url
    assert access.token == load_credentials(home).label_studio_token != before
    with sign_in(url, access.token.get_secret_value()) as api:
        assert api.get("/api/current-user/whoami").json()["email"] == label_studio.email


@pytest.mark.label_studio
def test_the_server_listens_on_loopback_only_and_shows_no_secret(
    label_studio: LabelStudioServer,
) -> None:
    service = running(label_studio.home, NAME)
    assert service is not None
    server = psutil.Process(service.pid)
    listening = {
        (connection.laddr[0], connection.laddr[1])
        for process in [server, *server.children(recursive=True)]
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {(LOOPBACK, service.port)}
    command_line = " ".join(server.cmdline())
    assert label_studio.password.get_secret_value() not in command_line
    assert label_studio.email not in command_line


@pytest.mark.label_studio
def test_sign_up_and_foreign_host_names_are_refused(client: httpx.Client) -> None:
    assert client.get("/health", headers={"Host": "attacker.example"}).status_code == 400
    client.get("/user/login/")
    form = {
        "email": "stranger@example.org",
        "password": "a-long-password",
        "csrfmiddlewaretoken": client.cookies["csrftoken"],
    }
    referer = {"Referer": str(client.base_url.join("/user/login/"))}
    assert client.post("/user/signup/", data=form, headers=referer).status_code == 401
    refused = client.post("/user/login/", data=form, headers=referer)
    assert "your account may be closed: ask the lead" in refused.text  # for any address


@pytest.mark.label_studio
def test_loopback_addresses_cannot_be_imported_from(api: httpx.Client) -> None:
    project = create_project(api, "fetch")
    own_page = {"url": str(api.base_url.join("/version"))}
    answer = api.post(f"/api/projects/{project}/import", data=own_page)
    assert answer.status_code == 400
    assert "reserved" in answer.text or "private" in answer.text or "banned" in answer.text


@pytest.mark.soak
@pytest.mark.label_studio
def test_the_first_start_creates_the_database(
    tmp_path: Path, label_studio_environment: Path, stopping: Callable[[str], Path]
) -> None:
    service = start_label_studio(stopping(NAME), free_port(), label_studio_environment)
    assert service.url is not None
    with sign_in(service.url, label_studio_token(tmp_path, service.url).get_secret_value()) as api:
        assert api.get("/api/projects").raise_for_status().json()["results"] == []


@pytest.mark.label_studio
@pytest.mark.browser
def test_our_user_can_log_in_without_requests_to_other_servers(
    label_studio: LabelStudioServer, browser: Any
) -> None:
    requested: list[str] = []
    page = browser.new_page()
    page.on("request", lambda request: requested.append(request.url))
    page.goto(f"{label_studio.url}/user/login/", timeout=120_000)
    page.fill("input[name=email]", label_studio.email)
    page.fill("input[name=password]", label_studio.password.get_secret_value())
    page.click("button[type=submit]", timeout=120_000)
    page.get_by_role("button", name="Create Project").first.wait_for(timeout=120_000)
    page.close()
    assert requested
    ours = (label_studio.url, "data:", "blob:")
    assert [url for url in requested if not url.startswith(ours)] == []


def test_an_external_label_studio_needs_its_token(tmp_path: Path) -> None:
    url = "https://label-studio.example"
    with pytest.raises(ConfigurationError, match="LOUPE_LABEL_STUDIO_TOKEN must hold"):
        label_studio_access(load_settings(home=tmp_path, label_studio_url=url))
    settings = load_settings(home=tmp_path, label_studio_url=url, label_studio_token="t")
    assert label_studio_access(settings) == LabelStudioAccess(url, SecretStr("t"))


def test_if_label_studio_is_not_running_the_error_says_how_to_start_it(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="Label Studio is not running; start it with: loupe up"):
        label_studio_access(load_settings(home=tmp_path))


def test_an_invalid_database_url_is_refused_without_showing_its_password(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="LOUPE_LABEL_STUDIO_DATABASE_URL") as caught:
        start_label_studio(tmp_path, 1, Path("/nowhere"), "mysql://me:hunter2@db/label")
    assert "hunter2" not in str(caught.value)


@contextmanager
def sign_in(url: str, token: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        answer = client.post("/api/token/refresh/", json={"refresh": token}).raise_for_status()
        client.headers["Authorization"] = f"Bearer {answer.json()['access']}"
        yield client


def create_project(api: httpx.Client, title: str) -> int:
    config = '<View><Text name="text" value="$text"/></View>'
    answer = api.post("/api/projects", json={"title": title, "label_config": config})
    return int(answer.raise_for_status().json()["id"])
