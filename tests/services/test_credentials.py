import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import SecretStr

from loupe.schemas.errors import ServiceError
from loupe.services.credentials import (
    WorkspaceCredentials,
    credentials_path,
    load_credentials,
    load_workspaces,
    save_token,
    save_workspace,
    services_folder,
    workspaces_path,
)


def test_concurrent_calls_create_credentials_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        first, *others = pool.map(lambda _: load_credentials(tmp_path), range(8))
    assert all(credentials == first for credentials in others)
    assert len(first.label_studio_password.get_secret_value()) >= 32
    assert len(first.label_studio_secret_key.get_secret_value()) >= 64


def test_only_the_owner_can_read_credentials(tmp_path: Path) -> None:
    path = credentials_path(tmp_path)
    for mode in (None, 0o644):  # a file that others can read is made private again
        if mode is not None:
            path.chmod(mode)
        load_credentials(tmp_path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_secrets_are_not_printed(tmp_path: Path) -> None:
    credentials = load_credentials(tmp_path)
    for secret in (credentials.label_studio_password, credentials.label_studio_secret_key):
        assert secret.get_secret_value() not in f"{credentials!r} {credentials}"
        assert secret.get_secret_value() not in str(credentials.model_dump())


def test_a_saved_token_keeps_the_other_credentials(tmp_path: Path) -> None:
    before = load_credentials(tmp_path)
    save_token(tmp_path, SecretStr("a-token"))
    after = load_credentials(tmp_path)
    assert after.label_studio_token == SecretStr("a-token")
    assert after.label_studio_password == before.label_studio_password
    assert stat.S_IMODE(credentials_path(tmp_path).stat().st_mode) == 0o600
    assert json.loads(credentials_path(tmp_path).read_text())["label_studio_token"] == "a-token"


def test_a_damaged_file_is_reported_without_its_content(tmp_path: Path) -> None:
    load_credentials(tmp_path)
    credentials_path(tmp_path).write_text('{"label_studio_password": "hunter2"}')
    with pytest.raises(
        ServiceError, match=r"credentials\.json does not contain credentials"
    ) as caught:
        load_credentials(tmp_path)
    assert "hunter2" not in str(caught.value)


def workspace(secret: str) -> WorkspaceCredentials:
    return WorkspaceCredentials(
        token=SecretStr(secret), email="anna@localhost", password=SecretStr(f"{secret}-password")
    )


def test_workspaces_are_stored_by_pseudonym(tmp_path: Path) -> None:
    assert load_workspaces(tmp_path) == {}
    save_workspace(tmp_path, "reviewer-1", workspace("one"))
    save_workspace(tmp_path, "reviewer-2", WorkspaceCredentials(token=SecretStr("two")))
    save_workspace(tmp_path, "reviewer-1", workspace("three"))
    assert load_workspaces(tmp_path) == {
        "reviewer-1": workspace("three"),
        "reviewer-2": WorkspaceCredentials(token=SecretStr("two")),
    }
    assert stat.S_IMODE(workspaces_path(tmp_path).stat().st_mode) == 0o600


def test_workspaces_saved_concurrently_are_all_kept(tmp_path: Path) -> None:
    names = [f"reviewer-{number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: save_workspace(tmp_path, name, workspace(name)), names))
    assert sorted(load_workspaces(tmp_path)) == names


def test_secrets_of_a_workspace_are_not_printed(tmp_path: Path) -> None:
    assert "hidden" not in f"{workspace('hidden')!r} {workspace('hidden').model_dump()}"
    services_folder(tmp_path)
    workspaces_path(tmp_path).write_text('{"reviewer-1": {"token": 7, "password": "hunter2"}}')
    with pytest.raises(ServiceError, match=r"annotators\.json does not contain") as caught:
        load_workspaces(tmp_path)
    assert "hunter2" not in str(caught.value)
