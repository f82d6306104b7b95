"""A real Chromium for all tests of a process: Playwright's plain API can run once in each."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.requirements import unavailable


def chromium_program() -> str | None:
    """Chromium's headless shell, which needs half the processor time, or else Chromium itself."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser (`playwright.sync_api.Browser`); every test opens a page or context of its own."""
    program = chromium_program()
    if program is None:
        unavailable("Chromium is not installed: apt-get install chromium-headless-shell")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


def all_pictures_show(page: Any) -> bool:
    """Whether every picture of a page shows something, once all are loaded.

    Not by `wait_for_function`, which evaluates a string in the page: its policy forbids that.
    """
    return bool(
        page.evaluate(
            "() => Promise.all([...document.images].map(one => one.decode()))"
            ".then(() => true, () => false)"
        )
    )
