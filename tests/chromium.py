"""A real Chromium for all tests of a process: Playwright's plain API can run once in each."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.requirements import unavailable


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser (`playwright.sync_api.Browser`); every test opens a page or context of its own."""
    program = shutil.which("chromium")
    if program is None:
        unavailable("Chromium is not installed: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()
