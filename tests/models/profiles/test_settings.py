"""Settings of an installation, and file permissions of its home."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from loupe.db.store import Store, open_engine
from loupe.models.profiles.settings import load_settings, make_home
from loupe.schemas.errors import ConfigurationError


def test_the_default_home_is_in_the_current_folder(
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


def test_arguments_override_the_environment_which_overrides_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path))
    monkeypatch.setenv("LOUPE_PREFECT_PORT", "5000")
    monkeypatch.setenv("LOUPE_PROFILE", "")
    assert load_settings().blobs_url == str(tmp_path / "blobs")
    assert load_settings().prefect_port == 5000
    assert load_settings(prefect_port=6000).prefect_port == 6000
    assert load_settings().profile == "builtin"


def test_a_misspelt_variable_is_refused_with_a_suggestion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOUPE_HOEM", "/elsewhere")
    with pytest.raises(
        ConfigurationError, match="LOUPE_HOEM is not a setting; did you mean LOUPE_HOME"
    ):
        load_settings()


def test_an_invalid_port_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for port in ("0", "70000", "many"):
        monkeypatch.setenv("LOUPE_BLOBS_PORT", port)
        with pytest.raises(ConfigurationError, match=f"LOUPE_BLOBS_PORT: .* got '{port}'"):
            load_settings()


def test_another_process_gets_the_same_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = load_settings(
        home=tmp_path, label_studio_token=SecretStr("token"), label_studio_url="http://studio"
    )
    for name, value in given.environment("label_studio_token").items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir("/")
    assert load_settings() == given


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    url = "postgresql://me:hunter2@db/loupe"
    settings = load_settings(
        home=tmp_path, database_url=url, label_studio_database_url=url, label_studio_token="hunter2"
    )
    assert "hunter2" not in f"{settings} {settings!r}"


@pytest.fixture
def generous_umask() -> Iterator[None]:
    """A umask that makes new files readable by all users."""
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(home: Path) -> list[str]:
    """Return the paths to which other users have any permission."""
    paths = [home, *home.rglob("*")]
    return [str(path) for path in paths if not path.is_symlink() and path.stat().st_mode & 0o077]


@pytest.mark.usefixtures("generous_umask")
def test_an_accessible_home_is_closed_with_all_its_files(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside.html"
    for name in ("loupe.db", "loupe.db-wal", "services/a.json", "releases/r/images/1/2/3.jpg"):
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    program = home / "label-studio" / "program"
    program.parent.mkdir()
    program.write_bytes(b"x")
    program.chmod(0o755)
    outside.write_bytes(b"asked for")
    (home / "link").symlink_to(outside)
    load_settings(home=home)
    assert open_to_others(home) == []
    assert stat.S_IMODE(program.stat().st_mode) == 0o700
    assert stat.S_IMODE(outside.stat().st_mode) == 0o666


@pytest.mark.usefixtures("generous_umask")
def test_a_missing_home_is_not_created(tmp_path: Path) -> None:
    load_settings(home=tmp_path / "home")
    assert not (tmp_path / "home").exists()


@pytest.mark.usefixtures("generous_umask")
def test_a_shared_folder_cannot_be_the_home(tmp_path: Path) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    for home in (shared, Path("/"), Path("~").expanduser()):
        before = home.stat().st_mode
        with pytest.raises(ConfigurationError, match="must be a separate folder"):
            load_settings(home=home)
        assert home.stat().st_mode == before


def test_only_a_home_that_its_user_made_or_named_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, cloned, copied = (tmp_path / name for name in ("own", "cloned", "copied"))
    own.mkdir()
    make_home(own / ".loupe")
    (own / "below").mkdir()
    monkeypatch.chdir(own / "below")
    assert load_settings().home == own / ".loupe"
    shutil.copytree(own, copied)
    monkeypatch.chdir(copied)
    assert load_settings().home == copied / ".loupe"
    (cloned / ".loupe").mkdir(parents=True)
    (cloned / ".loupe").chmod(0o755)
    (cloned / ".loupe" / "token").write_text("of somebody else")
    monkeypatch.chdir(cloned)
    with pytest.raises(ConfigurationError, match=r"cloned/\.loupe was not made by your Loupe"):
        load_settings()
    assert stat.S_IMODE((cloned / ".loupe").stat().st_mode) == 0o755
    load_settings(home=cloned / ".loupe")  # as LOUPE_HOME states
    assert load_settings().home == cloned / ".loupe"
    (cloned / ".loupe" / "token").write_text("of somebody else")  # cloned again
    with pytest.raises(ConfigurationError, match="was not made by your Loupe"):
        load_settings()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_the_home_of_another_user_is_used_only_if_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / ".loupe"
    make_home(home)
    os.chown(home, 12345, 12345)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="belongs to another user and is not used"):
        load_settings()
    monkeypatch.setenv("LOUPE_HOME", str(home))
    assert load_settings().home == home


@pytest.mark.usefixtures("generous_umask")
def test_a_home_that_is_a_link_leaves_permissions_alone(tmp_path: Path) -> None:
    target, home = tmp_path / "documents", tmp_path / ".loupe"
    (target / "letters").mkdir(parents=True)
    before = target.stat().st_mode, (target / "letters").stat().st_mode
    home.symlink_to(target)
    load_settings(home=home)
    assert (target.stat().st_mode, (target / "letters").stat().st_mode) == before


@pytest.mark.usefixtures("generous_umask")
def test_the_database_is_private_in_any_folder(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "loupe.db"
    store = Store.open(f"sqlite:///{file}")
    with store.read():
        modes = {one.name: one.stat().st_mode & 0o777 for one in file.parent.iterdir()}
        assert modes == dict.fromkeys(("loupe.db", "loupe.db-wal", "loupe.db-shm"), 384)
        for mode in (0o644, 0o640, 0o606, 0o660):
            for one in file.parent.iterdir():
                one.chmod(mode)
            open_engine(f"sqlite:///{file}").dispose()
            assert {one.stat().st_mode & 0o777 for one in file.parent.iterdir()} == {0o600}
    store.close()
