"""What an installation knows to be withdrawn: by its store where there is one, and by files."""

from pathlib import Path

import pytest

from db.withdrawals import list_withdrawals
from flows.withdrawal.withdrawn import known_notices, withdrawal_in
from models.profiles.settings import load_settings
from release.notices import record_notices
from schemas.errors import ConfigurationError
from tests.flows.withdrawals import home_of
from tests.release.worlds import DATASET, SOURCES


def test_where_there_is_no_store_none_is_made(tmp_path: Path) -> None:
    """Holders verify a release without an installation."""
    home = tmp_path / "home"
    assert known_notices(load_settings(home=home)) == ()
    assert not home.exists()


def test_notices_are_known_from_the_store_before_any_file_tells(tmp_path: Path) -> None:
    home = home_of(tmp_path / "home")
    plan = home.plan("identity", "9", dataset=DATASET, source=SOURCES[1].name)
    withdrawal = home.confirmed(plan)
    assert not list_withdrawals(home.store)[0].is_finished
    settings = load_settings(home=home.folder)
    (notice,) = known = known_notices(settings)
    assert (notice.withdrawal, len(notice.rows)) == (withdrawal.key, 2)
    found = withdrawal_in(home.release("1.0.0"), known)
    assert found is not None
    assert (found.rows, found.superseded_by) == (2, "1.0.1")
    stale = notice.model_copy(update={"superseded_by": "0.0.1"})
    record_notices(home.folder, [stale])
    assert known_notices(settings) == known  # the store is the newer one
    home.store.close()


def test_a_store_that_does_not_answer_is_not_taken_for_none(tmp_path: Path) -> None:
    (tmp_path / "loupe.db").write_bytes(b"no database at all, though it is long enough" * 50)
    with pytest.raises(ConfigurationError, match="does not answer"):
        known_notices(load_settings(home=tmp_path))
