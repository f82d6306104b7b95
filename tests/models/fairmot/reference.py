"""Recorded reference data, and deterministic weights for an untrained network."""

import hashlib
import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

FOLDER = Path(__file__).parents[2] / "data" / "fairmot"

Arrays = dict[str, NDArray[Any]]


def shapes() -> dict[str, tuple[int, ...]]:
    """Return the shapes of the parameters by name, in order."""
    listed = json.loads((FOLDER / "fairmot_dla34_state.json").read_text())
    return {name: tuple(shape) for name, shape in listed.items()}


def arrays(file_name: str) -> Arrays:
    """Return all arrays of a reference file."""
    with np.load(FOLDER / file_name) as file:
        return dict(file)


@cache
def filled_weights() -> dict[str, torch.Tensor]:
    """Return random weights that depend only on the names; do not modify them."""
    return {name: torch.from_numpy(_filled(name, shape)) for name, shape in shapes().items()}


def checkpoint(weights: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Return a checkpoint as FairMOT's training saves it, with prefixed names and classifier."""
    named = {f"module.{name}": tensor for name, tensor in weights.items()}
    named["module.base.fc.weight"] = torch.zeros(1000, 512, 1, 1)
    named["module.base.fc.bias"] = torch.zeros(1000)
    return {"epoch": 30, "state_dict": named}


def hollow_weights() -> dict[str, torch.Tensor]:
    """Return zeros of the right names and shapes that take almost no memory or file size."""
    return {
        name: torch.zeros((), dtype=torch.float32 if shape else torch.int64).expand(shape)
        for name, shape in shapes().items()
    }


def _filled(name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    if name.endswith("num_batches_tracked"):
        return np.zeros((), np.int64)
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    noise = np.random.default_rng(seed).standard_normal(shape)
    fan_in = math.prod(shape[1:])
    filled = {
        r"running_mean$": 0.1 * noise,
        r"running_var$": 1 + 0.1 * abs(noise),
        r"conv_offset_mask\.weight$": 0.4 * noise / math.sqrt(fan_in),
        r"conv_offset_mask\.bias$": 0.2 * noise,
        r"\.up_\d+\.weight$": 0.5 * noise,
        r"^(?!base\.).*\.conv\.weight$": noise * math.sqrt(6 / fan_in),
        r"bias$": 0.1 * noise,
        r"weight$": noise * math.sqrt(1.5 / fan_in) if len(shape) > 1 else 1 + 0.1 * noise,
    }
    values = next(values for pattern, values in filled.items() if re.search(pattern, name))
    return values.astype(np.float32)
