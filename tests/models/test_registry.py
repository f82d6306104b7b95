import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from loupe.models.chat import ChatModel
from loupe.models.registry import build_chat_model
from loupe.schemas.errors import MissingExtraError
from loupe.schemas.profile import BuiltinRewriter, OpenAIChat, VllmChat

REPOSITORY = Path(__file__).resolve().parents[2]
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # as if it were not installed
from pathlib import Path
from loupe.models import registry
from loupe.schemas import embedding, tracking
from loupe.schemas.errors import MissingExtraError
for build, spec in (
    (registry.build_embedder, embedding.OpenClipEmbedder(
        provider="open_clip", name="some/open_clip", revision="1")),
    (registry.build_embedder, embedding.TransformersEmbedder(
        provider="transformers", name="some/transformers", revision="1")),
    (registry.build_embedder, embedding.MllmEmbedder(
        provider="mllm", name="some/mllm", revision="1", family="gme")),
    (registry.build_detector, tracking.FairMOTDetector(
        provider="fairmot", checkpoint=Path("some.pth"))),
    (registry.build_pose_model, tracking.ViTPoseModel(name="some/pose", revision="1")),
):
    try:
        build(spec)
    except MissingExtraError as error:
        print(error)
"""


def test_the_builtin_model_and_the_client_need_no_extra() -> None:
    client = OpenAIChat(provider="openai", name="m", revision="1", base_url="http://127.0.0.1:1/v1")
    for spec in (BuiltinRewriter(), client):
        model = build_chat_model(spec)
        assert isinstance(model, ChatModel)
        assert model.ref == spec.ref
        assert model.parameters == spec.parameters


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_a_missing_extra_is_named() -> None:
    with pytest.raises(MissingExtraError, match=r"'some/model'.*\.\[gpu\]"):
        build_chat_model(VllmChat(provider="vllm", name="some/model", revision="1"))


@pytest.mark.slow
def test_each_model_of_the_missing_extra_torch_is_named() -> None:
    command = [sys.executable, "-c", WITHOUT_TORCH]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    names = ("some/open_clip", "some/transformers", "some/mllm", "fairmot_dla34", "some/pose")
    for name, line in zip(names, done.stdout.splitlines(), strict=True):
        assert name in line
        assert line.endswith(".[torch]'")
