"""Notices known to an installation, from its store and from files."""

from pathlib import Path

import pytest

from loupe.db.peek import may_have_notices
from loupe.db.withdrawals import list_withdrawals
from loupe.flows.withdrawal.releases import known_notices, withdrawal_in
from loupe.models.profiles.settings import load_settings
from loupe.release.withdrawn.notices import record_notices
from loupe.schemas.errors import ConfigurationError
from tests.flows.withdrawals import home_of
from tests.release.worlds import DATASET, SOURCES


def test_looking_for_notices_creates_no_store(tmp_path: Path) -> None:
    """Holders verify a release without an installation."""
    home = tmp_path / "home"
    assert known_notices(load_settings(home=home)) == ()
    assert not may_have_notices(home / "loupe.db")
    assert not home.exists()


def test_notices_come_from_the_store_before_any_file_has_them(tmp_path: Path) -> None:
    home = home_of(tmp_path / "home")
    plan = home.plan("identity", "9", dataset=DATASET, source=SOURCES[1].name)
    assert not may_have_notices(home.folder / "loupe.db")
    withdrawal = home.confirmed(plan)
    assert may_have_notices(home.folder / "loupe.db")
    assert not list_withdrawals(home.store)[0].is_finished
    settings = load_settings(home=home.folder)
    (notice,) = known = known_notices(settings)
    assert (notice.withdrawal, len(notice.rows)) == (withdrawal.key, 2)
    found = withdrawal_in(home.release("1.0.0"), known)
    assert found is not None
    assert (found.rows, found.superseded_by) == (2, "1.0.1")
    stale = notice.model_copy(update={"superseded_by": "0.0.1"})
    record_notices(home.folder, [stale])
    assert known_notices(settings) == known  # the store is newer
    home.store.close()


def test_an_unreadable_store_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "loupe.db").write_bytes(b"no database at all, though it is long enough" * 50)
    with pytest.raises(ConfigurationError, match="does not answer"):
        known_notices(load_settings(home=tmp_path))
    assert may_have_notices(tmp_path / "loupe.db")
