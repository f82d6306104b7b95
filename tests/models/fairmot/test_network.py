import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from models.fairmot.network import FairMOTNetwork
from tests.models.fairmot.reference import FOLDER, arrays, filled_weights, shapes

UNUSED = ("base.level3.project.", "base.level4.project.")


def network_of(dtype: torch.dtype) -> FairMOTNetwork:
    with torch.device("meta"):
        network = FairMOTNetwork()
    network.load_state_dict(filled_weights(), assign=True)
    return network.to(dtype).eval()


@contextmanager
def recorded_outputs(network: nn.Module) -> Iterator[dict[str, Tensor]]:
    outputs: dict[str, Tensor] = {}
    hooks = [
        module.register_forward_hook(
            lambda _module, _inputs, output, name=name: outputs.update({name: output})
        )
        for name, module in network.named_modules()
    ]
    yield outputs
    for hook in hooks:
        hook.remove()


def test_parameters_have_the_published_names_shapes_and_order() -> None:
    with torch.device("meta"):
        network = FairMOTNetwork()
    found = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    assert list(found.items()) == list(shapes().items())
    assert len(found) == 402


def test_head_outputs_equal_the_reference() -> None:
    golden = arrays("fairmot_dla34_golden.npz")
    network = network_of(torch.float32)  # inference mode would mark its cached weights
    with torch.inference_mode():
        maps = network(torch.from_numpy(golden["input"]))
    for found, name in zip(maps, ("hm", "wh", "id", "reg"), strict=True):
        np.testing.assert_allclose(found.numpy(), golden[name], rtol=0, atol=2e-5, err_msg=name)


def test_every_layer_output_equals_the_reference_in_float64() -> None:
    layers = json.loads((FOLDER / "fairmot_dla34_layers.json").read_text())["layers"]
    network = network_of(torch.float64)
    image = torch.from_numpy(arrays("fairmot_dla34_golden.npz")["input"]).double()
    with torch.inference_mode(), recorded_outputs(network) as outputs:
        network(image)
    compared = [layer for layer in layers if layer["name"] + "." not in UNUSED]
    assert len(compared) == len(layers) - len(UNUSED) == 93
    for layer in compared:
        assert_is_layer(outputs[layer["name"]], layer)


def assert_is_layer(found: Tensor, layer: dict[str, Any]) -> None:
    assert list(found.shape) == layer["shape"], layer["name"]
    flat = found.flatten()
    measured = [flat.mean(), flat.std(correction=0), flat.abs().sum(), flat.max()]
    wanted = [layer[name] for name in ("mean", "std", "abs_sum", "max")]
    measured += [flat[int(position)] for position in layer["at"]]
    wanted += layer["at"].values()
    np.testing.assert_allclose(
        [float(value) for value in measured], wanted, rtol=1e-10, atol=1e-10, err_msg=layer["name"]
    )
