"""Adam with one learning rate for what was pretrained and one for what starts random."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from retrieval.cfam.network.model import Cfam, ParameterGroups
from schemas.cfam import CfamSchedule
from schemas.errors import IntegrityError

_TENSOR_OF = "{part}/{name}"
_PARTS = frozenset({"step", "exp_avg", "exp_avg_sq"})


class NamedAdam:
    """Adam over the parameters of a network, whose state is known by their names."""

    def __init__(self, groups: ParameterGroups, schedule: CfamSchedule) -> None:
        self._names = [list(groups["pretrained"]), list(groups["new"])]
        self._rates = (schedule.learning_rate, schedule.new_learning_rate)
        parameters = [
            {"params": list(groups["pretrained"].values()), "lr": schedule.learning_rate},
            {"params": list(groups["new"].values()), "lr": schedule.new_learning_rate},
        ]
        self.adam = torch.optim.Adam(parameters, weight_decay=schedule.weight_decay)

    def set_rates(self, factor: float) -> tuple[float, float]:
        """Sets both learning rates to `factor` of what the schedule says, and gives them."""
        rates = (self._rates[0] * factor, self._rates[1] * factor)
        for group, rate in zip(self.adam.param_groups, rates, strict=True):
            group["lr"] = rate
        return rates

    def state(self) -> dict[str, Tensor]:
        """All that Adam remembers, as flat tensors: `exp_avg/decoder.queries` and so on."""
        return {
            _TENSOR_OF.format(part=part, name=name): tensor.detach().contiguous()
            for name, parameter in self._parameters()
            for part, tensor in self.adam.state[parameter].items()
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Takes up what `state` gave; learning rates are set before each step anyway.

        Raises:
            IntegrityError: it is of another network, or not finite.
        """
        forms = {name: parameter.shape for name, parameter in self._parameters()}
        by_name: dict[str, dict[str, Tensor]] = {}
        for key, tensor in state.items():
            part, _, name = key.partition("/")
            wanted = torch.Size() if part == "step" else forms.get(name)
            if part not in _PARTS or name not in forms or tensor.shape != wanted:
                what = f"{key} of the shape {list(tensor.shape)} belongs to no parameter"
                raise IntegrityError(f"the optimiser's checkpoint does not fit the network: {what}")
            if not tensor.is_floating_point() or not tensor.isfinite().all():
                what = f"{key} is not all finite numbers"
                raise IntegrityError(f"the optimiser's checkpoint is damaged: {what}")
            by_name.setdefault(name, {})[part] = tensor
        for name, parts in by_name.items():
            if missing := sorted(_PARTS - parts.keys()):
                what = f"it lacks {missing[0]}/{name}"
                raise IntegrityError(f"the optimiser's checkpoint is damaged: {what}")
        numbers = [name for names in self._names for name in names]
        described: dict[str, Any] = self.adam.state_dict()
        described["state"] = {
            number: by_name[name] for number, name in enumerate(numbers) if name in by_name
        }
        self.adam.load_state_dict(described)

    def _parameters(self) -> list[tuple[str, Tensor]]:
        return [
            (name, parameter)
            for names, group in zip(self._names, self.adam.param_groups, strict=True)
            for name, parameter in zip(names, group["params"], strict=True)
        ]


def adam_for(model: Cfam, schedule: CfamSchedule) -> NamedAdam:
    """Adam for what is trained in `model`."""
    return NamedAdam(model.parameter_groups(), schedule)
