"""Withdrawal notices in the folders of releases."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.release.format.manifest import read_files
from loupe.release.withdrawn.files import (
    WITHDRAWN,
    affected_rows,
    followed,
    merged,
    notice_text,
    read_mark,
    read_notices,
    superseding,
)
from loupe.release.withdrawn.notices import MarkedRelease, mark_release, record_notices
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.withdrawal import NoticeList, WithdrawalNotice, WithdrawnRow
from tests.flows.homes import bytes_of
from tests.release.notice_samples import SHARD, notice_of, rows_of
from tests.release.worlds import DATASET


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "releases" / "copy"))


def test_marking_a_release_changes_only_the_notice_file(copy: Path) -> None:
    before = bytes_of(copy)
    notice = notice_of(copy, 2, 5)
    assert mark_release(copy, [notice], erase=False) == MarkedRelease(copy, is_new=True)
    assert read_mark(copy) == NoticeList(notices=(notice,))
    after = bytes_of(copy)
    after.pop(WITHDRAWN)
    assert after == before
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


def test_only_files_with_withdrawn_items_are_erased(copy: Path) -> None:
    before = bytes_of(copy)
    done = mark_release(copy, [notice_of(copy, 2, 5)], erase=True)
    after = bytes_of(copy)
    gone = {"images/2.jpg", "images/5.jpg", "ufine3c.json", SHARD}
    gone |= {path for path in before if path.startswith("lineage/")}
    assert set(before) - set(after) == gone
    assert done.erased == len(gone)
    mark = read_mark(copy)
    assert mark is not None
    assert set(mark.erased) == gone
    assert all(after[path] == before[path] for path in after if path != WITHDRAWN)


def test_an_image_with_only_a_withdrawn_text_is_kept(copy: Path) -> None:
    row = rows_of(copy)[4]
    notice = notice_of(copy, 5)
    part = notice.rows[0].model_copy(update={"texts": (row["caption_entity_ids"][0],)})
    mark_release(copy, [notice.model_copy(update={"rows": (part,)})], erase=True)
    assert (copy / "images/5.jpg").exists()
    assert not (copy / SHARD).exists()
    assert not (copy / "ufine3c.json").exists()


def test_marking_again_changes_nothing(copy: Path) -> None:
    notices = [notice_of(copy, 2), notice_of(copy, 5, withdrawal="b" * 32)]
    mark_release(copy, notices, erase=True)
    once = bytes_of(copy)
    assert mark_release(copy, list(reversed(notices)), erase=True) == MarkedRelease(copy)
    assert mark_release(copy, notices[:1], erase=False) == MarkedRelease(copy)
    assert bytes_of(copy) == once


def test_a_later_notice_of_a_withdrawal_replaces_the_earlier_one(copy: Path) -> None:
    notice = notice_of(copy, 2)
    other = notice_of(copy, 3, withdrawal="b" * 32)
    mark_release(copy, [notice, other], erase=False)
    newer = notice.model_copy(update={"superseded_by": "1.0.2"})
    mark_release(copy, [newer], erase=False)
    mark = read_mark(copy)
    assert mark is not None
    assert mark.notices == (newer, other)
    assert superseding(mark.notices) == "1.0.2"


class _KilledError(BaseException):
    """Simulates the end of the process."""


@pytest.mark.parametrize("survived", [1, 3])
def test_a_killed_marking_is_completed_by_the_next(
    copy: Path, monkeypatch: pytest.MonkeyPatch, survived: int
) -> None:
    uninterrupted = copy.parent / "undisturbed"
    shutil.copytree(copy, uninterrupted)
    notices = [notice_of(copy, 2, 5)]
    mark_release(uninterrupted, notices, erase=True)
    unlink, calls = Path.unlink, iter(range(100))

    def unlink_or_die(path: Path, missing_ok: bool = False) -> None:
        if next(calls) == survived:
            raise _KilledError
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink_or_die)
        with pytest.raises(_KilledError):
            mark_release(copy, notices, erase=True)
    mark_release(copy, notices, erase=True)
    assert bytes_of(copy) == bytes_of(uninterrupted)
    assert sorted(path.name for path in copy.parent.iterdir()) == sorted((copy.name, "undisturbed"))


def test_missing_and_other_releases_are_skipped(copy: Path, tmp_path: Path) -> None:
    notice = notice_of(copy, 2)
    gone = mark_release(tmp_path / "gone", [notice], erase=True)
    assert gone.skipped == f"{tmp_path / 'gone'} is no longer a release"
    other = mark_release(copy, [notice.model_copy(update={"release": "0" * 64})], erase=True)
    assert other.skipped == f"{copy} holds the release {notice.release[:12]}, not 000000000000"
    assert not (copy / WITHDRAWN).exists()


def test_notices_of_several_releases_are_refused(copy: Path) -> None:
    notice = notice_of(copy, 2)
    with pytest.raises(UsageError, match="notices of its own"):
        mark_release(copy, [notice, notice.model_copy(update={"release": "0" * 64})], erase=True)


def test_a_damaged_notice_file_is_not_overwritten(copy: Path) -> None:
    (copy / WITHDRAWN).write_text('{"notices": [')
    with pytest.raises(IntegrityError, match="is not a file of notices"):
        mark_release(copy, [notice_of(copy, 2)], erase=False)
    assert (copy / WITHDRAWN).read_text() == '{"notices": ['


def test_an_unreadable_shard_is_erased(copy: Path) -> None:
    notice = notice_of(copy, 2)
    (copy / SHARD).write_bytes(b"PAR1 no more")
    mark_release(copy, [notice], erase=True)
    assert not (copy / SHARD).exists()


def test_files_that_are_not_in_the_manifest_are_not_erased(copy: Path) -> None:
    notice = notice_of(copy, 2)
    outside = copy.parent / "mine.txt"
    outside.write_text("mine")
    row = notice.rows[0].model_copy(update={"file_path": "../mine.txt"})
    mark_release(copy, [notice.model_copy(update={"rows": (row,)})], erase=True)
    assert outside.read_text() == "mine"


def test_notices_are_recorded_for_publication(copy: Path, tmp_path: Path) -> None:
    notice, other = notice_of(copy, 2), notice_of(copy, 3, withdrawal="b" * 32)
    home = tmp_path / "home"
    assert record_notices(home, [other]) == [home / "notices/ufine3c.json"]
    record_notices(home, [notice])
    record_notices(home, [notice, other])
    assert read_notices(home / "notices/ufine3c.json").notices == (notice, other)
    assert list(bytes_of(home)) == ["notices/ufine3c.json"]


def test_only_documents_without_rows_survive_a_complete_withdrawal(copy: Path) -> None:
    """`notices_erasure` knows every document of releases that contains no rows."""
    mark_release(copy, [notice_of(copy, *range(1, 13))], erase=True)
    left = {entry.path for entry in read_files(copy / "manifest.json")} & set(bytes_of(copy))
    assert left <= {"README.md", "words.svg", "CITATION.cff", "croissant.json"}
    assert {"README.md", "words.svg"} <= left


NOTICES = st.builds(
    WithdrawalNotice,
    withdrawal=st.sampled_from("abc"),
    ground=st.just("law"),
    release=st.sampled_from(["1" * 64, "2" * 64]),
    dataset=st.just("d"),
    version=st.just("1.0.0"),
    rows=st.lists(
        st.builds(
            WithdrawnRow,
            number=st.integers(1, 9),
            file_path=st.text(min_size=1),
            entity_id=st.just("f" * 32),
            texts=st.sampled_from([(), ("e" * 32,)]),
        ),
        max_size=3,
    ).map(tuple),
    superseded_by=st.none() | st.just("1.0.1"),
)


@given(st.lists(NOTICES, max_size=5), st.lists(NOTICES, max_size=5))
def test_merging_is_idempotent_and_newer_wins(
    known: list[WithdrawalNotice], newer: list[WithdrawalNotice]
) -> None:
    both = merged(known, newer)
    assert merged(both, newer) == both
    assert merged(known, both) == both
    last = {(one.release, one.withdrawal): one for one in newer}
    assert all(one in both for one in last.values())


def details(release: str, version: str, instead: str | None, *rows: int) -> WithdrawalNotice:
    """A notice for a release that does not exist on disk."""
    return WithdrawalNotice(
        withdrawal=f"{version}-{instead}",
        ground="privacy",
        release=release * 64,
        dataset=DATASET,
        version=version,
        rows=tuple(
            WithdrawnRow(number=row, file_path=f"images/{row}.jpg", entity_id="e" * 32)
            for row in rows
        ),
        superseded_by=instead,
    )


def test_notices_about_one_row_add_up() -> None:
    whole, *texts = (
        WithdrawnRow(number=1, file_path="images/1.jpg", entity_id="0" * 32, texts=withdrawn)
        for withdrawn in ((), ("1" * 32,), ("2" * 32, "1" * 32))
    )
    in_part, in_whole = (
        [details("a", "1.0.0", "1.0.1", 1).model_copy(update={"rows": (row,)}) for row in rows]
        for rows in (texts, (texts[0], whole, texts[1]))
    )
    assert [one.texts for one in affected_rows(in_part)] == [("1" * 32, "2" * 32)]
    assert affected_rows(in_whole) == affected_rows(in_whole[::-1]) == (whole,)


def test_a_completely_withdrawn_release_has_no_superseding_version() -> None:
    notices = [details("a", "1.0.0", "1.0.1", 1), details("a", "1.0.0", None, 1, 2)]
    assert superseding(notices) is None
    assert superseding(notices[:1]) == "1.0.1"
    assert superseding([]) is None


def test_superseding_versions_are_followed_to_the_last_valid_one() -> None:
    first, second = details("a", "1.0.0", "1.0.1", 1), details("b", "1.0.1", "1.0.2", 1)
    assert [one.superseded_by for one in followed([first, second])] == ["1.0.2", "1.0.2"]
    gone = details("c", "1.0.2", None, 1)
    assert {one.superseded_by for one in followed([first, second, gone])} == {None}
    circle = details("b", "1.0.1", "1.0.0", 1)
    assert followed([first, circle])[0].superseded_by == "1.0.1"
    elsewhere = second.model_copy(update={"dataset": "another"})
    assert followed([first, elsewhere])[0].superseded_by == "1.0.1"


def test_a_forged_notice_file_erases_nothing_outside_the_release(
    copy: Path, tmp_path: Path
) -> None:
    outside, linked = tmp_path / "precious.txt", tmp_path / "folder"
    outside.touch()
    linked.mkdir()
    (linked / "precious.txt").touch()
    (copy / "link").symlink_to(linked)
    paths = ("../../precious.txt", str(outside), "link/precious.txt", "images/2.jpg")
    notice = notice_of(copy, 2)
    (copy / WITHDRAWN).write_bytes(notice_text(NoticeList(notices=(notice,), erased=paths)))
    mark_release(copy, [notice], erase=True)
    assert not (copy / "images/2.jpg").exists()
    assert outside.exists()
    assert (linked / "precious.txt").exists()
