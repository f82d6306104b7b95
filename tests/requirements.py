"""What a machine may lack: such a test is skipped with the reason, and fails where all must run."""

import os
from typing import NoReturn

import pytest

REQUIRE_ALL = os.environ.get("LOUPE_TESTS_REQUIRE_ALL") == "1"
"""Read before any test: tests run without the `LOUPE_` variables of whoever runs them."""


def unavailable(reason: str) -> NoReturn:
    """Skips the test that asks, or fails it where `LOUPE_TESTS_REQUIRE_ALL=1` allows no skips."""
    if REQUIRE_ALL:
        pytest.fail(f"{reason} (LOUPE_TESTS_REQUIRE_ALL=1: nothing may be skipped)", pytrace=False)
    pytest.skip(reason)
