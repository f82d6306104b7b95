"""Fixtures that start our servers, for the tests of this and of other packages.

`tests/conftest.py` makes them known with `pytest_plugins = ["tests.services.fixtures"]`.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pydantic import SecretStr

from services.credentials import load_credentials
from services.environments import ensure_environment, environments_root
from services.label_studio import NAME, label_studio_token, start_label_studio
from services.prefect_server import SERVER, WORKER
from services.process import free_port, stop


class LabelStudioServer(NamedTuple):
    """A real Label Studio with nothing in it."""

    home: Path
    url: str
    email: str
    password: SecretStr

    @property
    def token(self) -> str:
        """The personal access token that is valid now."""
        return label_studio_token(self.home, self.url).get_secret_value()


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have settings of their own; tests start from the defaults."""
    for name in list(os.environ):
        if name.startswith("LOUPE_") and name != "LOUPE_ENVIRONMENTS":
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def label_studio_environment() -> Path:
    """The virtual environment of Label Studio, installed on first use and kept between runs."""
    return ensure_environment("label-studio", environments_root())


@pytest.fixture(scope="session")
def label_studio(
    tmp_path_factory: pytest.TempPathFactory, label_studio_environment: Path
) -> Iterator[LabelStudioServer]:
    """A real Label Studio for the whole session. Tests make projects of their own in it.

    Mark tests that use it with `label_studio`: its first start takes half a minute.
    """
    home = tmp_path_factory.mktemp("label-studio-home")
    service = start_label_studio(home, free_port(), label_studio_environment)
    try:
        assert service.url is not None
        credentials = load_credentials(home)
        yield LabelStudioServer(
            home=home,
            url=service.url,
            email=credentials.label_studio_email,
            password=credentials.label_studio_password,
        )
    finally:
        stop(home, NAME)


@pytest.fixture
def stopping(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """`stopping(name)` gives a home whose service `name` is ended after the test."""
    names: set[str] = {SERVER, WORKER, NAME}

    def home_of(name: str) -> Path:
        names.add(name)
        return tmp_path

    yield home_of
    for name in names:
        stop(tmp_path, name)
