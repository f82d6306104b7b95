"""Fixtures that start our services, for the tests of this and other packages.

`tests/conftest.py` registers them with `pytest_plugins = ["tests.services.fixtures"]`.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from pydantic import SecretStr

from loupe.db.reviews import Role, add_annotator
from loupe.db.store import Store
from loupe.models.profiles.settings import Settings, load_settings
from loupe.services.credentials import load_credentials, save_workspace
from loupe.services.environments import ensure_environment, environments_root
from loupe.services.label_studio import (
    NAME,
    Workspace,
    add_workspaces,
    label_studio_token,
    personal_token,
    start_label_studio,
)
from loupe.services.prefect_server import SERVER, WORKER
from loupe.services.process import free_port, stop
from tests.postgres import Postgres, postgres_programs
from tests.requirements import REQUIRE_ALL
from tests.services.migrated import migrate_home, migrated_database

PEOPLE = (
    *("Ann Browser", "Bea Browser", "Dan Browser", "Cleo Browser", "Fay Desk", "Paula Pages"),
    *("Emil Desk", "Anna Roles", "Ben Roles", "Dora Roles"),
)
"""All people whose workspaces tests use, created in one command, which takes as long as for one."""


class AnnotatorAccount(NamedTuple):
    """Account of an annotator; `token` is the personal token of the annotator's own programs."""

    name: str
    pseudonym: str
    user_id: int
    email: str
    password: SecretStr
    token: SecretStr


def new_token(url: str, email: str, password: SecretStr) -> SecretStr:
    """Create a personal access token of a person; it replaces older ones."""
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        return personal_token(client, email, password)


class LabelStudioServer(NamedTuple):
    """A real, empty Label Studio; an empty `database_url` means SQLite.

    `workspaces` are those of `PEOPLE`; they are created when the first is requested. `given` are
    the people who were requested.
    """

    home: Path
    url: str
    email: str
    password: SecretStr
    database_url: str
    workspaces: dict[str, Workspace]
    given: set[str]

    @property
    def token(self) -> str:
        """The personal access token that is currently valid."""
        return label_studio_token(self.home, self.url).get_secret_value()

    @property
    def settings(self) -> Settings:
        """The settings of the installation that this Label Studio belongs to."""
        return load_settings(home=self.home, label_studio_database_url=self.database_url)

    def workspace(self, name: str) -> Workspace:
        """Return the workspace of one of `PEOPLE`, once.

        What one test leaves in a workspace changes what another sees there: the first page is a
        list instead of a task if there are two projects, and has no instructions after an answer.
        """
        if not self.workspaces:
            created = add_workspaces(self.settings, PEOPLE)
            self.workspaces.update(zip(PEOPLE, created, strict=True))
        assert name not in self.given, f"{name} works for another test: name one of your own"
        self.given.add(name)
        return self.workspaces[name]

    def annotators(
        self, store: Store, *names: str, roles: tuple[Role, ...] = ("annotator",)
    ) -> list[AnnotatorAccount]:
        """Add some of `PEOPLE`, each for one test only, with their workspaces."""
        accounts = []
        for name in names:
            workspace = self.workspace(name)
            added = add_annotator(store, name, NAME, workspace.user_id, roles)
            save_workspace(self.home, added.pseudonym, workspace.credentials)
            email, password = workspace.credentials.email, workspace.credentials.password
            assert email is not None
            assert password is not None
            token = new_token(self.url, email, password)
            accounts.append(
                AnnotatorAccount(name, added.pseudonym, workspace.user_id, email, password, token)
            )
        return accounts


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove settings of the environment, so that tests start from the defaults."""
    for name in list(os.environ):
        if name.startswith("LOUPE_") and name != "LOUPE_ENVIRONMENTS":
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def label_studio_environment() -> Path:
    """Virtual environment of Label Studio, installed on first use and kept between runs."""
    return ensure_environment("label-studio", environments_root())


@pytest.fixture(scope="session")
def label_studio(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    label_studio_environment: Path,
) -> Iterator[LabelStudioServer]:
    """A real Label Studio for the whole session. Each test creates its own projects.

    It uses PostgreSQL where available, as in production, and SQLite otherwise. Mark tests that use
    it with `label_studio`.
    """
    database_url = ""
    home = tmp_path_factory.mktemp("label-studio-home")
    if postgres_programs() is not None or REQUIRE_ALL:
        postgres: Postgres = request.getfixturevalue("postgres_server")
        database_url = migrated_database(label_studio_environment, postgres)
    else:
        migrate_home(label_studio_environment, home)
    service = start_label_studio(home, free_port(), label_studio_environment, database_url)
    try:
        assert service.url is not None
        credentials = load_credentials(home)
        yield LabelStudioServer(
            home=home,
            url=service.url,
            email=credentials.label_studio_email,
            password=credentials.label_studio_password,
            database_url=database_url,
            workspaces={},
            given=set(),
        )
    finally:
        stop(home, NAME)


@pytest.fixture
def stopping(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """`stopping(name)` returns a home folder whose service `name` is stopped after the test."""
    names: set[str] = {SERVER, WORKER, NAME}

    def home_of(name: str) -> Path:
        names.add(name)
        return tmp_path

    yield home_of
    for name in names:
        stop(tmp_path, name)
