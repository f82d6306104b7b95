from typing import TypeVar

import numpy as np
import torch

from loupe.models.fairmot.network import UNUSED, FairMOTNetwork
from tests.models.fairmot.reference import arrays, filled_weights, shapes

T = TypeVar("T")


def network_of(dtype: torch.dtype) -> FairMOTNetwork:
    with torch.device("meta"):
        network = FairMOTNetwork()
    network.load_state_dict(_used(filled_weights()), assign=True)
    return network.to(dtype).eval()


def _used(named: dict[str, T]) -> dict[str, T]:
    return {name: one for name, one in named.items() if not name.startswith(UNUSED)}


def test_parameters_have_the_published_names_and_shapes() -> None:
    with torch.device("meta"):
        network = FairMOTNetwork()
    found = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    assert found == _used(shapes())
    assert len(found) == 390


def test_head_outputs_equal_the_reference() -> None:
    golden = arrays("fairmot_dla34_golden.npz")
    network = network_of(torch.float32)  # inference mode would mark its cached weights
    with torch.inference_mode():
        maps = network(torch.from_numpy(golden["input"]))
    for found, name in zip(maps, ("hm", "wh", "id", "reg"), strict=True):
        np.testing.assert_allclose(found.numpy(), golden[name], rtol=0, atol=2e-5, err_msg=name)
