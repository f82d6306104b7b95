import hashlib
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loupe.models.fairmot.network import load_network
from loupe.schemas.errors import ModelError
from tests.models.fairmot.reference import checkpoint, hollow_weights


def saved(folder: Path, content: Any, **how: Any) -> Path:
    path = folder / "checkpoint.pth"
    torch.save(content, path, **how)
    return path


def refusal(path: Path, sha256: str | None = None) -> str:
    with pytest.raises(ModelError) as refused:
        load_network(path, sha256)
    message = str(refused.value)
    assert "\n" not in message
    return message


class Touch:
    """An object that creates a file if it is unpickled without restrictions."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_published_checkpoints_are_loaded_by_name(tmp_path: Path) -> None:
    """They have the format of PyTorch before 1.6."""
    weights = hollow_weights() | {"hm.2.bias": torch.tensor([0.25])}
    path = saved(tmp_path, checkpoint(weights), _use_new_zipfile_serialization=False)
    before = torch.get_rng_state()
    network = load_network(path, hashlib.sha256(path.read_bytes()).hexdigest().upper())
    assert network.hm(torch.zeros(1, 64, 1, 1)).item() == 0.25
    assert not network.training
    assert not any(parameter.requires_grad for parameter in network.parameters())
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}
    assert torch.equal(before, torch.get_rng_state())


def test_bare_weights_in_half_precision_are_loaded(tmp_path: Path) -> None:
    weights = {
        name: tensor.half() if tensor.ndim else tensor for name, tensor in hollow_weights().items()
    }
    network = load_network(saved(tmp_path, weights))
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}


def test_head_sizes_are_read_from_the_weights(tmp_path: Path) -> None:
    sizes = {"wh.2.weight": 2, "wh.2.bias": 2, "id.2.weight": 512, "id.2.bias": 512}
    weights = hollow_weights()
    for name, size in sizes.items():
        weights[name] = torch.zeros(()).expand(size, *weights[name].shape[1:])
    network = load_network(saved(tmp_path, checkpoint(weights)))
    with torch.inference_mode():
        maps = network(torch.zeros(1, 3, 32, 32))
    assert maps.extents.shape == (1, 2, 8, 8)
    assert maps.embeddings.shape == (1, 512, 8, 8)


def test_a_checkpoint_with_code_is_refused_and_not_run(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    for zipped in [True, False]:
        with subtests.test(zipped=zipped):
            witness = tmp_path / "it-ran"
            content = checkpoint(hollow_weights()) | {"optimizer": Touch(witness)}
            path = saved(tmp_path, content, _use_new_zipfile_serialization=zipped)
            message = refusal(path)
            assert "nothing of it was run" in message
            assert str(path) in message
            assert not witness.exists()
            torch.load(path, weights_only=False)
            assert witness.exists()  # the file does contain code
            witness.unlink()


def test_a_bare_pickle_with_code_is_refused_and_not_run(tmp_path: Path) -> None:
    witness, path = tmp_path / "it-ran", tmp_path / "checkpoint.pth"
    path.write_bytes(pickle.dumps(Touch(witness), protocol=2))
    assert "nothing of it was run" in refusal(path)
    assert not witness.exists()


def test_a_compressed_archive_is_refused_unread(tmp_path: Path) -> None:
    whole, packed = saved(tmp_path, {"state_dict": {"a": torch.zeros(2**20)}}), tmp_path / "b.pth"
    with (
        zipfile.ZipFile(whole) as archive,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bomb,
    ):
        for name in archive.namelist():
            bomb.writestr(name, archive.read(name))
    assert "without compression" in refusal(packed)


def test_an_expanded_tensor_is_checked_without_copying_it(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    """It takes two bytes in the file, but two tebibytes if converted to float32."""
    for name in ["junk", "id.2.weight", "hm.2.weight"]:
        with subtests.test(name=name):
            endless = torch.zeros((), dtype=torch.float16).expand(2**39, 1, 1, 1)
            message = refusal(saved(tmp_path, checkpoint(hollow_weights() | {name: endless})))
            assert name in message


def test_missing_files_and_wrong_digests_are_named(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "missing.pth")
    assert "directory" in refusal(tmp_path)
    path = saved(tmp_path, {})
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    message = refusal(path, "0" * 64)
    assert digest in message
    assert "0" * 64 in message


def test_files_that_torch_cannot_read_are_refused(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    for case, content in enumerate((b"", b"\x80", b"PK\x03\x04", b"not a checkpoint", b"\0" * 99)):
        with subtests.test(case=case):
            path = tmp_path / "checkpoint.pth"
            path.write_bytes(content)
            assert "is not a checkpoint" in refusal(path)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_checkpoints_are_refused_or_loaded(tmp_path: Path, data: st.DataObject) -> None:
    zipped = data.draw(st.booleans())
    whole = saved(
        tmp_path, {"state_dict": {"a": torch.ones(2)}}, _use_new_zipfile_serialization=zipped
    )
    content = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.pth"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    assert str(path) in refusal(path)


def test_a_file_without_named_weights_is_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[Any] = [[1, 2], {"state_dict": 3}, {"epoch": 30}, {1: torch.ones(1)}, torch.ones(3)]
    for case, content in enumerate(cases):
        with subtests.test(case=case):
            assert "tensors by name" in refusal(saved(tmp_path, content))


def test_checkpoints_of_other_networks_are_refused(tmp_path: Path) -> None:
    message = refusal(saved(tmp_path, {"conv1.weight": torch.zeros(64, 3, 7, 7)}))
    assert "is not a checkpoint of FairMOT" in message
    assert "'wh.2.weight'" in message


def changed(**changes: torch.Tensor | None) -> dict[str, torch.Tensor]:
    weights = hollow_weights()
    for name, tensor in changes.items():
        weights.pop(name, None)
        if tensor is not None:
            weights[name] = tensor
    return weights


def test_weights_that_do_not_fit_are_named(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, torch.Tensor | None], str]] = [
        ({"hm.0.bias": None, "hm.2.bias": None}, "lacks hm.0.bias, hm.2.bias"),
        ({"hm.2.bias": torch.zeros(7)}, "does not fit: size mismatch for hm.2.bias: "),
        ({"hm.2.bias": torch.tensor([torch.nan])}, "not finite in hm.2.bias"),
        ({"wh.2.weight": torch.zeros(3, 256, 1, 1)}, "2 or 4 channels"),
        ({"id.2.weight": torch.zeros(())}, "1 to 4096; got 4 and 0"),
    ]
    for changes, message in cases:
        with subtests.test(said=message):
            assert message in refusal(saved(tmp_path, changed(**changes)))


def test_only_the_first_of_many_are_named(tmp_path: Path) -> None:
    weights = {name: part for name, part in hollow_weights().items() if not name.startswith("base")}
    assert "base.base_layer.1.bias and 182 more" in refusal(saved(tmp_path, weights))
