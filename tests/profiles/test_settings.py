from pathlib import Path

import pytest
from pydantic import SecretStr

from profiles.settings import load_settings
from schemas.errors import ConfigurationError


def test_by_default_everything_lies_under_the_folder_of_the_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    assert settings.home == tmp_path / ".loupe"
    assert settings.database_url == f"sqlite:///{tmp_path}/.loupe/loupe.db"
    assert settings.blobs_url == f"{tmp_path}/.loupe/blobs"
    assert (settings.prefect_port, settings.label_studio_port, settings.blobs_port) == (
        4200,
        8080,
        8090,
    )


def test_the_environment_comes_before_defaults_and_arguments_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path))
    monkeypatch.setenv("LOUPE_PREFECT_PORT", "5000")
    monkeypatch.setenv("LOUPE_PROFILE", "")
    assert load_settings().blobs_url == str(tmp_path / "blobs")
    assert load_settings().prefect_port == 5000
    assert load_settings(prefect_port=6000).prefect_port == 6000
    assert load_settings().profile == "builtin"


def test_a_misspelt_variable_is_refused_with_the_right_spelling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOUPE_HOEM", "/elsewhere")
    with pytest.raises(
        ConfigurationError, match="LOUPE_HOEM is no setting; did you mean LOUPE_HOME"
    ):
        load_settings()


def test_values_of_a_profile_are_not_mistaken_for_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOUPE_PROFILE__REWRITE__MAX_CHARACTERS", "500")
    assert load_settings().profile == "builtin"


@pytest.mark.parametrize("port", ["0", "70000", "many"])
def test_a_port_that_is_none_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, port: str) -> None:
    monkeypatch.setenv("LOUPE_BLOBS_PORT", port)
    with pytest.raises(ConfigurationError, match=f"LOUPE_BLOBS_PORT: .* got '{port}'"):
        load_settings()


def test_another_process_gets_the_same_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = load_settings(
        home=tmp_path, label_studio_token=SecretStr("token"), label_studio_url="http://studio"
    )
    for name, value in given.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir("/")
    assert load_settings() == given


def test_secrets_do_not_show(tmp_path: Path) -> None:
    url = "postgresql://me:hunter2@db/loupe"
    settings = load_settings(
        home=tmp_path, database_url=url, label_studio_database_url=url, label_studio_token="hunter2"
    )
    assert "hunter2" not in f"{settings} {settings!r}"
