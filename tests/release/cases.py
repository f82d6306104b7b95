"""Run many cases of one kind in one test and report all failures."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from tests.release.kinds import Built

T = TypeVar("T")


def check_each(cases: Iterable[T], check: Callable[[T], object]) -> None:
    """Run `check` on every case; raise AssertionError with all failures and their reasons."""
    failed = []
    for case in cases:
        try:
            check(case)
        except Exception as error:  # noqa: BLE001 - reported with the others
            failed.append(f"{case!r:.200}: {type(error).__name__}: {error}")
    assert not failed, "\n".join(failed)


def check_on_copies(
    sound: Path, home: Path, cases: Iterable[T], check: Callable[[Path, T], object]
) -> None:
    """Like `check_each`, but each check gets its own copy of the folder `sound` to change."""

    def on_copy(case: T) -> None:
        copy = Path(shutil.copytree(sound, home / "case" / "copy", symlinks=True))
        try:
            check(copy, case)
        finally:
            shutil.rmtree(home / "case")

    check_each(cases, on_copy)


def check_on_every_kind(
    every_kind: Mapping[str, Built],
    home: Path,
    check: Callable[[Path, Built], object],
) -> None:
    """Like `check_on_copies`, with one copy of each of these releases."""
    for built in every_kind.values():
        check_on_copies(built.folder, home, [built], check)
