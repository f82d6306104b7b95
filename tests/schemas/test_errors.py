"""Errors for people."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

from loupe.schemas.errors import UsageError


def test_a_notebook_shows_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    cell = """
from loupe import gate
gate("labels", policy="always")
"""
    result = InteractiveShell().run_cell(cell)  # type: ignore[no-untyped-call]
    assert isinstance(result.error_in_exec, UsageError)
    shown = capsys.readouterr().out.strip()
    assert shown.startswith("UsageError: gate 'labels': a policy must be")
    assert "\n" not in shown
