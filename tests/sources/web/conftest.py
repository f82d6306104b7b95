"""The adversary fixture, which also checks that no secret is logged."""

import logging
from collections.abc import Iterator

import pytest

from tests.sources.web.adversary import SECRET, Adversary, serving


@pytest.fixture
def adversary(caplog: pytest.LogCaptureFixture) -> Iterator[Adversary]:
    """A server on 127.0.0.1; fail if the logs of the test contain the secret."""
    caplog.set_level(logging.DEBUG)
    with serving() as server:
        yield server
    assert SECRET not in caplog.text
