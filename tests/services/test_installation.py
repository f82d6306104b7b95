import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from loupe.models.profiles.settings import Settings, load_settings
from loupe.services import blob_server, label_studio
from loupe.services.components import Component
from loupe.services.installation import bring_up, survey, take_down
from loupe.services.label_studio import WATCHER
from loupe.services.process import ServiceSpec, ServiceState, free_port, running, start


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    settings = load_settings(home=tmp_path, blobs_port=free_port())
    yield settings
    take_down(settings.home)


def start_images(settings: Settings) -> list[str]:
    steps: list[str] = []
    bring_up(settings, [Component.BLOBS], settings.home, steps.append)
    return steps


def test_before_the_first_start_all_services_are_stopped_and_healthy(settings: Settings) -> None:
    reports = survey(settings.home)
    assert {report.state for report in reports} == {ServiceState.STOPPED}
    assert all(report.is_healthy for report in reports)
    assert take_down(settings.home) == []


def test_start_status_restart_crash_and_stop(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOUPE_SIGNING_KEY", "HF_TOKEN", "OPENAI_API_KEY", "LOUPE_LABEL_STUDIO_TOKEN"):
        monkeypatch.setenv(name, "s3cr3t")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the images")
    assert start_images(settings) == ["blob-server: starting"]
    service = running(settings.home, blob_server.NAME)
    assert service is not None
    environment = psutil.Process(service.pid).environ()
    assert "s3cr3t" not in environment.values(), "it needs no signing key and no paid services"
    assert environment["LOUPE_HOME"] == str(settings.home)
    assert environment["AWS_SECRET_ACCESS_KEY"] == "of the images"
    assert blob_server.blob_server_url(settings.home) == service.url
    (report,) = [one for one in survey(settings.home) if one.state is ServiceState.RUNNING]
    assert (report.name, report.answers, report.pid) == (blob_server.NAME, True, service.pid)
    again = f"blob-server: already running at {service.url} (pid {service.pid})"
    assert start_images(settings) == [again]

    os.kill(service.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while running(settings.home, blob_server.NAME) and time.monotonic() < deadline:
        time.sleep(0.05)
    (report,) = [one for one in survey(settings.home) if not one.is_healthy]
    assert (report.name, report.state) == (blob_server.NAME, ServiceState.CRASHED)
    external = settings.model_copy(update={"label_studio_url": "https://studio.example/here"})
    steps: list[str] = []
    bring_up(external, [Component.LABEL_STUDIO, Component.BLOBS], settings.home, steps.append)
    assert steps == [
        (
            "label-studio: using the one at https://studio.example/here; it has no lead's page: "
            "loupe queue stats --names --html FILE"
        ),
        "blob-server: starting",
    ]
    assert all(report.is_healthy for report in survey(settings.home))
    assert running(settings.home, label_studio.NAME) is None, "an external one is not started"
    images = running(settings.home, blob_server.NAME)
    assert images is not None
    assert images.command[-2:] == ("--origin", "https://studio.example")

    assert take_down(settings.home) == ["blob-server"]
    assert blob_server.blob_server_url(settings.home) is None


def test_a_server_that_hangs_is_reported_and_started_again(settings: Settings) -> None:
    start_images(settings)
    service = running(settings.home, blob_server.NAME)
    assert service is not None
    os.kill(service.pid, signal.SIGSTOP)
    (report,) = [one for one in survey(settings.home) if not one.is_healthy]
    assert (report.name, report.state, report.answers) == (
        blob_server.NAME,
        ServiceState.RUNNING,
        False,
    )
    steps: list[str] = []
    bring_up(settings, [Component.BLOBS], settings.home, steps.append, patience_seconds=1)
    ended = f"does not answer for 1 s; ending it (pid {service.pid}) to start it again"
    assert steps == [f"blob-server: {ended}", "blob-server: starting"]
    assert not psutil.pid_exists(service.pid)
    again = running(settings.home, blob_server.NAME)
    assert again is not None
    assert again.pid != service.pid
    assert again.answers


def test_the_watcher_runs_before_a_store_exists_and_gets_the_secrets_that_it_uses(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    secrets = {
        "label_studio_token": "of the API",
        "notify_urls": "json://chat.example",
        "oidc_client_secret": "of the desk",
        "label_studio_database_url": "postgresql://desk:pass@127.0.0.1/desk",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(f"LOUPE_{name.upper()}", value)
    settings = load_settings(home=settings.home)
    bring_up(settings, [Component.WATCHER], settings.home, steps.append)
    assert steps == ["queue-watcher: starting"]
    (report,) = [one for one in survey(settings.home) if one.state is ServiceState.RUNNING]
    assert (report.name, report.answers) == (WATCHER, True)
    assert report.pid is not None
    given = psutil.Process(report.pid).environ().values()
    assert {"of the API", "json://chat.example"} <= {*given}
    assert not {"of the desk", secrets["label_studio_database_url"]} & {*given}
    assert take_down(settings.home) == [WATCHER]


def test_a_running_server_that_does_not_answer_is_unhealthy(settings: Settings) -> None:
    spec = ServiceSpec(
        name=label_studio.NAME,
        command=(sys.executable, "-c", "import time; time.sleep(60)"),
        working_directory=settings.home,
        environment=dict(os.environ),
        port=free_port(),
    )
    start(settings.home, spec, lambda: True)
    (report,) = [one for one in survey(settings.home) if not one.is_healthy]
    assert (report.name, report.state, report.answers) == (
        label_studio.NAME,
        ServiceState.RUNNING,
        False,
    )
