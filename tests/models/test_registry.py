import importlib.util
from pathlib import Path

import pytest

from models.chat import ChatModel
from models.registry import build_chat_model
from schemas.errors import MissingExtraError, ModelError
from schemas.profile import BuiltinRewriter, OpenAIChat, TransformersChat, VllmChat


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
def test_a_missing_model_is_named(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    spec = TransformersChat(provider="transformers", name=str(tmp_path), revision="1")
    with pytest.raises(ModelError, match=tmp_path.name):
        build_chat_model(spec)
