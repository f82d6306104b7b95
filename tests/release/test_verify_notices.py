"""`verify` on releases with withdrawn items and on later releases."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pytest

from loupe.release.format.manifest import read_manifest
from loupe.release.verify import verify_release
from loupe.release.withdrawn.files import (
    WITHDRAWALS,
    WITHDRAWN,
    affected_rows,
    notice_text,
    prior_withdrawals,
    read_mark,
    read_notices,
    withdrawn_sentence,
)
from loupe.release.withdrawn.notices import known_of, mark_release, notice_source, notices_of_home
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.release import Manifest
from loupe.schemas.withdrawal import NoticeList, WithdrawalNotice, WithdrawnRow
from tests.release.cases import check_on_copies
from tests.release.forging import reseal
from tests.release.notice_samples import SHARD, notice_of, rows_of


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "releases" / "copy"))


def write_notices(path: Path, *notices: WithdrawalNotice, erased: Sequence[str] = ()) -> Path:
    path.write_bytes(notice_text(NoticeList(notices=notices, erased=tuple(erased))))
    return path


def faults(folder: Path, *notices: WithdrawalNotice) -> dict[str, str]:
    """Messages of the problems by fault; every fault must occur only once."""
    problems = verify_release(folder, notices=notices).problems
    found = {one.fault: one.message for one in problems}
    assert len(found) == len(problems), problems
    return found


def test_verify_reports_exactly_the_withdrawn_rows(copy: Path) -> None:
    mark_release(copy, [notice_of(copy, 2, 5)], erase=False)
    assert faults(copy) == {
        "withdrawn": "ufine3c 1.0.0 is withdrawn in part (privacy); must no longer be used: "
        "2 of its 12 rows (images/2.jpg, images/5.jpg); use 1.0.1 instead"
    }


def test_erased_files_are_not_reported_as_missing(copy: Path) -> None:
    mark_release(copy, [notice_of(copy, 2, 5)], erase=True)
    found = faults(copy)
    assert found.keys() == {"withdrawn", "erased"}
    erased = json.loads((copy / WITHDRAWN).read_bytes())["erased"]
    assert "images/2.jpg, images/5.jpg" in found["erased"]
    assert f" and {len(erased) - 5} more: erased on purpose" in found["erased"]
    assert "the rows were not checked" in found["erased"]


def test_damage_of_other_files_is_reported_after_an_erasure(sound: Path, tmp_path: Path) -> None:
    cases: list[tuple[Callable[[Path], object], str, str]] = [
        (lambda f: (f / "images/7.jpg").unlink(), "file_missing", "images/7.jpg is missing"),
        (lambda f: (f / "images/7.jpg").write_bytes(b""), "file_changed", "images/7.jpg has 0"),
        (lambda f: (f / "mine").touch(), "file_extra", "mine is not a listed"),
    ]

    def check(copy: Path, case: tuple[Callable[[Path], object], str, str]) -> None:
        harm, fault, says = case
        mark_release(copy, [notice_of(copy, 2, 5)], erase=True)
        harm(copy)
        found = faults(copy)
        assert found.keys() == {"withdrawn", "erased", fault}
        assert says in found[fault]

    check_on_copies(sound, tmp_path, cases, check)


def test_files_that_should_be_erased_are_reported(copy: Path) -> None:
    image = (copy / "images/2.jpg").read_bytes()
    mark_release(copy, [notice_of(copy, 2)], erase=True)
    (copy / "images/2.jpg").write_bytes(image)
    assert faults(copy)["erasure_unfinished"].startswith("images/2.jpg should be erased")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def linked(path: Path) -> None:
    path.symlink_to(write_notices(path.with_suffix(".elsewhere")))


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def test_special_files_in_place_of_notices_are_refused(sound: Path, tmp_path: Path) -> None:
    """A pipe, link or huge file in place of a notice file is refused without reading it."""

    def check(copy: Path, case: tuple[str, Callable[[Path], object]]) -> None:
        name, kind = case
        beside = copy.parent / name
        kind(beside)
        with pytest.raises(IntegrityError, match=name):
            read_notices(beside)
        (copy / name).unlink(missing_ok=True)
        kind(copy / name)
        assert any(one.file == name for one in verify_release(copy).problems)
        if name == WITHDRAWN:
            for reading in (read_mark, notice_source, lambda one: known_of("0" * 64, one)):
                with pytest.raises(IntegrityError, match=name):
                    reading(copy)

    kinds = (fifo, endless, dangling, linked, huge)
    check_on_copies(sound, tmp_path, product((WITHDRAWN, WITHDRAWALS), kinds), check)


def test_a_damaged_mark_is_named(copy: Path) -> None:
    (copy / WITHDRAWN).write_text('{"notices": [', encoding="utf-8")
    (problem,) = verify_release(copy).problems
    assert (problem.fault, problem.file) == ("withdrawal_unreadable", WITHDRAWN)


def test_special_files_in_place_of_listed_notices_are_refused(sound: Path, tmp_path: Path) -> None:
    def check(copy: Path, kind: Callable[[Path], object]) -> None:
        with_withdrawals(copy, later_notice(copy))
        (copy / WITHDRAWALS).unlink()
        kind(copy / WITHDRAWALS)
        with pytest.raises(IntegrityError, match=WITHDRAWALS):
            notice_source(copy)
        assert any(one.file == WITHDRAWALS for one in verify_release(copy).problems)

    check_on_copies(sound, tmp_path, (fifo, endless, dangling, linked), check)


def test_notices_of_another_release_are_reported(copy: Path) -> None:
    notice = notice_of(copy, 2).model_copy(update={"release": "0" * 64, "version": "0.9.0"})
    write_notices(copy / WITHDRAWN, notice)
    found = faults(copy)
    assert found.keys() == {"withdrawal_foreign"}
    assert "is of another release, ufine3c 0.9.0 (000000000000)" in found["withdrawal_foreign"]


def test_notices_about_unknown_files_are_reported(copy: Path) -> None:
    notice = notice_of(copy, 2)
    other = notice.rows[0].model_copy(update={"entity_id": "f" * 32})
    wrong = notice.model_copy(update={"rows": (other,)})
    write_notices(copy / WITHDRAWN, wrong, erased=["images/99.jpg"])
    assert faults(copy)["withdrawal_foreign"] == (
        "WITHDRAWN.json names images/2.jpg, images/99.jpg, which this release does not contain"
    )


def test_notices_from_other_places_are_used(copy: Path, tmp_path: Path) -> None:
    notice = notice_of(copy, 2, 5)
    other = notice.model_copy(update={"release": "0" * 64})
    assert faults(copy, notice, other).keys() == {"withdrawn"}
    assert faults(copy, other) == {}
    path = write_notices(tmp_path / "withdrawals.json", notice, other)
    assert set(notice_source(path).notices) == {notice, other}
    assert known_of(notice.release, copy, notice_source(path).notices) == (notice,)


def test_notices_are_found_in_files_folders_and_releases(copy: Path, tmp_path: Path) -> None:
    notice = notice_of(copy, 2)
    published = tmp_path / "notices"
    published.mkdir()
    write_notices(published / "ufine3c.json", notice)
    for path in (published, published / "ufine3c.json"):
        assert notice_source(path).notices == (notice,)
    assert notices_of_home(tmp_path) == (notice,)
    assert notices_of_home(tmp_path / "nowhere") == ()
    assert notice_source(copy).notices == ()
    mark_release(copy, [notice], erase=False)
    assert notice_source(copy).notices == (notice,)


def test_paths_without_notices_are_refused(copy: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", copy / "images"):
        with pytest.raises(UsageError, match="there are no notices at"):
            notice_source(path)
    with pytest.raises(IntegrityError, match="is not a file of notices"):
        notice_source(copy / "ufine3c.json")


def with_withdrawals(folder: Path, data: bytes, *, counted: bool = True) -> Path:
    """Add a file of withdrawals to a release and count them in its manifest."""
    (folder / WITHDRAWALS).write_bytes(data)

    def count(manifest: Manifest) -> Manifest:
        try:
            notices = read_notices(folder / WITHDRAWALS).notices
        except IntegrityError:
            return manifest
        details = prior_withdrawals(notices) if counted else ()
        return manifest.model_copy(update={"withdrawn": details})

    reseal(folder, change=count)
    return folder


def later_notice(folder: Path, *rows: WithdrawnRow) -> bytes:
    """A file with a notice for rows of an earlier release."""
    manifest = read_manifest(folder)
    notice = WithdrawalNotice(
        withdrawal="a" * 32,
        ground="law",
        release="0" * 64,
        dataset=manifest.dataset,
        version="0.9.0",
        rows=rows,
        superseded_by=manifest.version,
    )
    return notice_text(NoticeList(notices=(notice,)))


def row(entity_id: str, *texts: str) -> WithdrawnRow:
    return WithdrawnRow(number=1, file_path="images/1.jpg", entity_id=entity_id, texts=texts)


def test_a_later_release_without_the_withdrawn_items_is_valid(copy: Path) -> None:
    with_withdrawals(copy, later_notice(copy, row("f" * 32), row("e" * 32, "d" * 32)))
    assert faults(copy) == {}


def test_withdrawals_missing_in_the_manifest_are_reported(copy: Path) -> None:
    with_withdrawals(copy, later_notice(copy, row("f" * 32)), counted=False)
    (problem,) = verify_release(copy).problems
    assert (problem.fault, problem.file) == ("withdrawals_differ", WITHDRAWALS)


def test_a_withdrawn_image_in_a_later_release_is_reported(copy: Path) -> None:
    image = rows_of(copy)[4]["image_entity_id"]
    with_withdrawals(copy, later_notice(copy, row(image)))
    (problem,) = verify_release(copy).problems
    assert (problem.fault, problem.file, problem.row) == ("withdrawn_present", "images/5.jpg", 5)
    assert "was withdrawn from ufine3c 0.9.0" in problem.message


def test_a_withdrawn_text_in_a_later_release_is_reported(copy: Path) -> None:
    shown = rows_of(copy)[4]
    with_withdrawals(copy, later_notice(copy, row("f" * 32, shown["caption_entity_ids"][1])))
    (problem,) = verify_release(copy).problems
    assert (problem.fault, problem.row) == ("withdrawn_present", 5)
    assert f"has the text {shown['caption_entity_ids'][1]}" in problem.message


def test_withdrawals_of_another_dataset_are_reported(copy: Path) -> None:
    data = later_notice(copy).replace(b'"ufine3c"', b'"walkers"')
    with_withdrawals(copy, data)
    assert faults(copy) == {
        "withdrawals_foreign": "withdrawals.json names walkers; expected only ufine3c"
    }


def test_unreadable_withdrawals_are_reported(copy: Path) -> None:
    with_withdrawals(copy, b'{"notices": 1}')
    assert faults(copy).keys() == {"withdrawals_unreadable"}


def test_notices_of_a_damaged_release_are_refused(copy: Path) -> None:
    with_withdrawals(copy, later_notice(copy, row("f" * 32)))
    (copy / WITHDRAWALS).write_bytes(later_notice(copy))
    with pytest.raises(IntegrityError, match="has 267 bytes; expected 354"):
        notice_source(copy)


def test_affected_rows_are_unique_and_whole_rows_take_precedence(copy: Path) -> None:
    whole = notice_of(copy, 3)
    texts = tuple(rows_of(copy)[2]["caption_entity_ids"])
    part = row(whole.rows[0].entity_id, *texts[:1]).model_copy(update={"number": 3})
    more = part.model_copy(update={"texts": texts[:2]})
    notices = [whole.model_copy(update={"rows": (one,)}) for one in (part, more)]
    (details,) = affected_rows(notices)
    assert details.texts == texts[:2]
    assert affected_rows([*notices, whole]) == whole.rows
    assert "texts or records of 1 of its 12 rows" in withdrawn_sentence(notices, 12)
    other = notice_of(copy, 4, ground="consent").model_copy(update={"superseded_by": None})
    assert "(privacy, consent withdrawn)" in withdrawn_sentence([*notices, other], 12)
    assert "1 of its 12 rows and texts or records of 1 other row (" in withdrawn_sentence(
        [*notices, other], 12
    )


def test_a_second_withdrawal_works_after_the_shard_was_erased(copy: Path) -> None:
    """A second withdrawal does not need the erased shard to erase its images."""
    notice = notice_of(copy, 2)
    second = notice_of(copy, 5, withdrawal="b" * 32)
    mark_release(copy, [notice], erase=True)
    assert not (copy / SHARD).exists()
    mark_release(copy, [second], erase=True)
    assert not (copy / "images/5.jpg").exists()
    assert "2 of its 12 rows" in faults(copy)["withdrawn"]
