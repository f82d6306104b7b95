"""Nothing needs the demonstration: it is found by its entry points only."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loupe.flows.engine.pipeline import demonstration
from loupe.models.registry import build_chat_model
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.schemas.profile import BuiltinDescriber
from loupe.services.diagnosis import Verdict, check_specs

IMPORT_ALL_BUT_THE_DEMONSTRATION = """
import importlib, pkgutil, sys
sys.modules["loupe.demo"] = None  # its import fails
for module in pkgutil.walk_packages(importlib.import_module("loupe").__path__, "loupe."):
    left_out = ("loupe.demo", "migrations.", ".network", ".kernels", "__main__")
    if not any(part in module.name for part in left_out):
        importlib.import_module(module.name)
"""


def test_everything_else_is_imported_without_the_demonstration() -> None:
    command = [sys.executable, "-c", IMPORT_ALL_BUT_THE_DEMONSTRATION]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""


def test_what_is_not_installed_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no demonstration of build-x is installed; .* --config"):
        demonstration("build-x")(tmp_path)
    spec: Any = BuiltinDescriber().model_copy(update={"provider": "drawn"})
    (finding,) = check_specs([spec])
    assert finding.verdict is Verdict.LACKING
    assert finding.detail == "no installed package adds the provider 'drawn'"
    with pytest.raises(ConfigurationError, match="provider 'drawn'; choose a profile with other"):
        build_chat_model(spec)
