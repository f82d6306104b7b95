"""A real Chromium, shared by all tests of a process, as Playwright's sync API runs only once."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.requirements import unavailable


def chromium_program() -> str | None:
    """Return Chromium's headless shell, which needs half the CPU time, or else Chromium."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser (`playwright.sync_api.Browser`); every test opens its own page or context."""
    program = chromium_program()
    if program is None:
        unavailable("Chromium is not installed: apt-get install chromium-headless-shell")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


def all_pictures_show(page: Any) -> bool:
    """Wait until all pictures of a page are loaded and return whether all could be decoded.

    `wait_for_function` is not used because it evaluates a string in the page, which the page's
    policy forbids.
    """
    return bool(
        page.evaluate(
            "() => Promise.all([...document.images].map(one => one.decode()))"
            ".then(() => true, () => false)"
        )
    )
