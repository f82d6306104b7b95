"""The home is closed to other users, even if it was open before."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from db.engine import open_engine
from db.store import Store
from profiles.home import close_home
from profiles.settings import load_settings
from schemas.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _generous_umask() -> Iterator[None]:
    """What is written can be read by everybody, if nobody sees to it."""
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(home: Path) -> list[str]:
    """What other users have any right to."""
    paths = [home, *home.rglob("*")]
    return [str(path) for path in paths if not path.is_symlink() and path.stat().st_mode & 0o077]


def test_a_home_that_was_open_is_closed_with_all_in_it(tmp_path: Path) -> None:
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


def test_what_a_killed_call_left_open_is_closed_by_the_next(tmp_path: Path) -> None:
    deep = tmp_path / "releases" / "r" / "images" / "1.jpg"
    deep.parent.mkdir(parents=True)
    deep.write_bytes(b"x")
    tmp_path.chmod(0o700)  # as far as a call got that was killed at once
    close_home(tmp_path)
    assert open_to_others(tmp_path) == []


def test_a_home_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    load_settings(home=tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_a_folder_of_all_users_cannot_be_the_home(tmp_path: Path) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    for home in (shared, Path("/"), Path("~").expanduser()):
        before = home.stat().st_mode
        with pytest.raises(ConfigurationError, match="must be a folder of its own"):
            load_settings(home=home)
        assert home.stat().st_mode == before


def test_the_database_is_its_owners_alone_wherever_it_lies(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "loupe.db"
    store = Store.open(f"sqlite:///{file}")
    with store.read():
        modes = {one.name: one.stat().st_mode & 0o777 for one in file.parent.iterdir()}
        assert modes == dict.fromkeys(("loupe.db", "loupe.db-wal", "loupe.db-shm"), 384)
        for one in file.parent.iterdir():
            one.chmod(0o644)
        open_engine(f"sqlite:///{file}").dispose()
        assert {one.stat().st_mode & 0o777 for one in file.parent.iterdir()} == {0o600}
    store.close()
