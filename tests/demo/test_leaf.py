"""Nothing needs the demonstration: it is found by its entry points only."""

from pathlib import Path
from typing import Any

import pytest

from loupe.flows.engine.pipeline import demonstration
from loupe.models.registry import build_chat_model
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.schemas.profile import BuiltinDescriber
from loupe.services.diagnosis import Verdict, check_specs


def test_what_is_not_installed_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no demonstration of build-x is installed; .* --config"):
        demonstration("build-x")(tmp_path)
    spec: Any = BuiltinDescriber().model_copy(update={"provider": "drawn"})
    (finding,) = check_specs([spec])
    assert finding.verdict is Verdict.LACKING
    assert finding.detail == "no installed package adds the provider 'drawn'"
    with pytest.raises(ConfigurationError, match="provider 'drawn'; choose a profile with other"):
        build_chat_model(spec)
