"""Files of models by strangers: nothing in them runs, and damaged ones end in one sentence."""

import gc
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loupe.models.registry import build_embedder, pinned
from loupe.models.weights import folder_digest
from loupe.schemas.embedding import OpenClipEmbedder, PlainModelSpec, TransformersEmbedder
from loupe.schemas.errors import ModelError
from loupe.schemas.profile import VllmChat
from tests.models import tiny_embedders

pytest.importorskip("torch")
pytestmark = pytest.mark.slow


class Opening:
    """What makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = str(marker)

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self._marker, "w")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "open_clip": tiny_embedders.build_open_clip(folder / "open_clip"),
        "clip": tiny_embedders.build_clip(folder / "clip"),
    }


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that exists if code of a model ran."""
    return tmp_path / "ran"


def add_code(folder: Path, marker: Path) -> None:
    """Add a module to a folder, and name it in all its configurations."""
    code = f"from pathlib import Path\nPath({str(marker)!r}).touch()\n"
    for name in ("evil", "modeling_evil", "custom_generate/generate"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    automatic = dict.fromkeys(
        ("AutoConfig", "AutoModel", "AutoProcessor", "AutoImageProcessor"), "evil.Evil"
    )
    names = ("config", "tokenizer_config", "preprocessor_config", "processor_config")
    for name in names:
        path = folder / f"{name}.json"
        values = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        values["auto_map"] = {**automatic, "AutoTokenizer": ["evil.Evil", "evil.Evil"]}
        values["trust_remote_code"] = True
        path.write_text(json.dumps(values), encoding="utf-8")


def open_clip_spec(**values: object) -> OpenClipEmbedder:
    fields = {"provider": "open_clip", "name": "x", "revision": "1", "device": "cpu"}
    return OpenClipEmbedder.model_validate({**fields, **values})


def transformers_spec(folder: Path) -> TransformersEmbedder:
    return TransformersEmbedder(
        provider="transformers", name=str(folder), revision="1", device="cpu"
    )


def refused(spec: PlainModelSpec) -> str:
    """Return the sentence with which a model is refused."""
    with pytest.raises(ModelError) as raised:
        build_embedder(spec)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    "options", [{"trust_remote_code": True}, {"a": [{"auto_map": {"b": 1}}]}, {}]
)
def test_an_open_clip_model_runs_no_code(
    made: dict[str, Path], tmp_path: Path, marker: Path, options: dict[str, Any]
) -> None:
    folder = Path(shutil.copytree(made["open_clip"], tmp_path / "copy"))
    add_code(folder, marker)
    described = json.loads((folder / "open_clip_config.json").read_text(encoding="utf-8"))
    text = described["model_cfg"]["text_cfg"]
    text |= {"hf_tokenizer_name": str(folder), "tokenizer_kwargs": options}
    (folder / "open_clip_config.json").write_text(json.dumps(described), encoding="utf-8")
    architecture = tmp_path / f"hostile-{len(options)}-{'-'.join(options)}.json"
    architecture.write_text(json.dumps(described["model_cfg"]), encoding="utf-8")
    weights = folder / "open_clip_model.safetensors"
    sentences = (
        refused(open_clip_spec(name=f"local-dir:{folder}")),
        refused(open_clip_spec(architecture_file=architecture, checkpoint=weights)),
    )
    assert not marker.exists()
    if options:
        assert all("would run code that comes with a model" in one for one in sentences)


def test_open_clip_takes_nothing_from_repositories_that_are_not_pinned() -> None:
    for name in ("hf-hub:somebody/model", "hf-hub:somebody/model@main"):
        assert "downloaded before" in refused(open_clip_spec(name=name))


@pytest.mark.parametrize("model_type", ["clip", "evil"])
def test_a_folder_of_transformers_runs_no_code(
    made: dict[str, Path], tmp_path: Path, marker: Path, model_type: str
) -> None:
    folder = Path(shutil.copytree(made["clip"], tmp_path / "copy"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "model_type": model_type}))
    add_code(folder, marker)
    try:
        build_embedder(transformers_spec(folder))
    except ModelError as error:
        assert "\n" not in str(error)  # noqa: PT017 - both are right
    assert not marker.exists()


def damaged(kind: str, good: bytes, marker: Path) -> bytes:
    pickled = pickle.dumps({"state_dict": Opening(marker)})
    return {
        "empty": b"",
        "truncated": good[: len(good) // 2],
        "noise": bytes(range(256)) * 9,
        "zip": b"PK\x03\x04" + bytes(99),
        "pickle": pickled,
        "old pickle": pickle.dumps(0x1950A86A20F9469CFC6C) + pickled,
        "page": b"<html>Sign in</html>",
        "header": (2**40).to_bytes(8, "little") + b"{}",
        "no tensors": (2).to_bytes(8, "little") + b"{}",
    }[kind]


KINDS = (
    *("empty", "truncated", "noise", "zip", "pickle", "old pickle", "page", "header"),
    "no tensors",
)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # numpy's
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_or_pickled_checkpoint_ends_in_one_sentence(
    made: dict[str, Path], tmp_path: Path, marker: Path, kind: str
) -> None:
    folder = made["open_clip"]
    good = (folder / "open_clip_model.safetensors").read_bytes()
    for suffix in ("safetensors", "pt", "bin", "npz"):
        checkpoint = tmp_path / f"weights.{suffix}"
        checkpoint.write_bytes(damaged(kind, good, marker))
        architecture = folder / "tiny-clip-of-tests.json"
        refused(open_clip_spec(architecture_file=architecture, checkpoint=checkpoint))
    copy = Path(shutil.copytree(made["clip"], tmp_path / "copy"))
    (copy / "model.safetensors").write_bytes(damaged(kind, good, marker))
    refused(transformers_spec(copy))
    (copy / "model.safetensors").unlink()
    (copy / "pytorch_model.bin").write_bytes(damaged(kind, good, marker))
    refused(transformers_spec(copy))
    assert not marker.exists()
    gc.collect()  # numpy leaves a file open, which is not the fault of a later test


def test_a_folder_of_the_working_folder_does_not_replace_a_model_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "google" / "siglip").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    said = refused(transformers_spec(Path("google/siglip")))
    assert "write './google/siglip' if it is meant" in said


def test_arguments_of_vllm_run_no_code(subtests: pytest.Subtests) -> None:
    hostile: list[dict[str, Any]] = [
        {"trust_remote_code": True},
        {"trust-remote-code": True},
        {"hf_overrides": {"text_config": {"auto_map": {"AutoModel": "evil.Evil"}}}},
        {"speculative_config": {"trust_remote_code": True}},
        {"worker_cls": "evil.Worker"},
        {"model_class_overrides": {"LlamaForCausalLM": "evil:Model"}},
        {"distributed-executor-backend": "evil.Executor"},
        {"worker_extension_cls": "evil.Worker"},
        {"logits_processors": ["evil:Processor"]},
        {"kv_transfer_config": {"kv_connector_module_path": "evil"}},
    ]
    for arguments in hostile:
        with (
            subtests.test(arguments=arguments),
            pytest.raises(ValueError, match="would run code that comes with a model"),
        ):
            VllmChat(provider="vllm", name="a/b", revision="1", engine_arguments=arguments)
    plain = {"max_model_len": 8192, "trust_remote_code": False, "disable_custom_all_reduce": True}
    VllmChat(provider="vllm", name="a/b", revision="1", engine_arguments=plain)


CHANGES: dict[str, Callable[[Path], object]] = {
    "a vocabulary": lambda folder: (folder / "merges.txt").write_text("a b"),
    "a template": lambda folder: (folder / "chat_template.jinja").write_text("{{ x }}"),
    "a module": lambda folder: (folder / "evil.py").write_text("x"),
    "a file of a subfolder": lambda folder: (folder / "below" / "a.json").write_text("{}"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_the_digest_of_a_folder_covers_all_its_files(
    made: dict[str, Path], tmp_path: Path, what: str
) -> None:
    folder = Path(shutil.copytree(made["clip"], tmp_path / "copy"))
    (folder / "below").mkdir()
    before = folder_digest(folder)
    spec = pinned(transformers_spec(folder))
    (folder / ".hidden").write_text("x")
    assert folder_digest(folder) == before
    CHANGES[what](folder)
    assert folder_digest(folder) != before
    assert "has the SHA-256" in refused(spec)
