"""Missing requirements skip a test with a reason, or fail it if all tests must run."""

import os
from typing import NoReturn

import pytest

REQUIRE_ALL = os.environ.get("LOUPE_TESTS_REQUIRE_ALL") == "1"
"""Read before any test, because tests run without the `LOUPE_` variables of the environment."""


def unavailable(reason: str) -> NoReturn:
    """Skip the calling test, or fail it if `LOUPE_TESTS_REQUIRE_ALL=1` is set."""
    if REQUIRE_ALL:
        pytest.fail(f"{reason} (LOUPE_TESTS_REQUIRE_ALL=1: nothing may be skipped)", pytrace=False)
    pytest.skip(reason)
