"""Reads training files: TOML with the settings of `schemas.cfam.CfamTraining`."""

from pathlib import Path

from pydantic import ValidationError

from flows.configuration import at_home
from schemas.cfam import CfamBackbone, CfamTraining
from schemas.errors import ConfigurationError
from schemas.faults import fault_of
from schemas.toml_file import read_toml

_UNKNOWN = "is no key of a training; see docs/training.md"
_DEMONSTRATION = "demo"
_SHIPPED = Path(__file__).parents[1] / "retrieval" / "cfam"


def load_training(config: str | None) -> CfamTraining:
    """The settings in a file; without one the paper's; `demo` names those of the demonstration.

    Relative paths in a file are relative to it.

    Raises:
        ConfigurationError: the file is not there, is no TOML, or a key in it is unknown or wrong.
    """
    if config is None:
        return CfamTraining()
    path = _SHIPPED / "train_demo.toml" if config == _DEMONSTRATION else Path(config)
    values = read_toml(path, f"training file {path}")
    try:
        settings = CfamTraining.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError(
            f"training file {path}: {fault_of(error, unknown=_UNKNOWN)}"
        ) from error
    return settings.model_copy(update={"backbone": _resolved(settings.backbone, path.parent)})


def _resolved(backbone: CfamBackbone, folder: Path) -> CfamBackbone:
    paths = {
        name: (folder / at_home(path)).absolute()
        for name in ("architecture_file", "checkpoint")
        if (path := getattr(backbone, name)) is not None
    }
    return backbone.model_copy(update=paths)
