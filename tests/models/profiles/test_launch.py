"""Launch commands of profiles: vLLM knows their models and accepts their flags."""

import pytest

from loupe.models.profiles.loader import load_profile, profile_names
from loupe.schemas.profile import Launch, OpenAIChat, Profile
from loupe.services.environments import lock_file
from tests.servers.child_model import ChildModel
from tests.servers.vllm_flags import unknown_architectures


def chat_models(profile: Profile) -> list[OpenAIChat]:
    contrast = (profile.contrast.strategist, profile.contrast.refiner)
    written = (*profile.rewrite.models, *profile.describe.models, profile.captioning.model)
    return [one for one in (*written, *contrast) if isinstance(one, OpenAIChat)]


def launches() -> dict[str, Launch]:
    """Return the launch settings of each locally served model, by name."""
    found = {}
    for name in profile_names():
        for model in chat_models(load_profile(name, {})):
            if "127.0.0.1" in model.base_url:
                assert model.launch is not None, f"{name}: {model.name} has no launch"
                found[model.name] = model.launch
    return found


@pytest.mark.vllm
def test_the_pinned_vllm_supports_every_model_and_its_flags(offline_vllm: ChildModel) -> None:
    current = [
        (name, one.architecture, one.flags) for name, one in launches().items() if not one.vllm
    ]
    assert offline_vllm.call(unknown_architectures, current) == []


def test_older_versions_of_vllm_are_locked() -> None:
    older = {one.vllm for one in launches().values() if one.vllm}
    assert older
    for version in older:
        assert f"\nvllm=={version} " in lock_file(f"vllm-{version}").read_text("utf-8")


def test_the_context_length_leaves_room_for_answers() -> None:
    for name in profile_names():
        for model in chat_models(load_profile(name, {})):
            flags = model.launch.flags if model.launch else ()
            if "--max-model-len" in flags:
                length = int(flags[flags.index("--max-model-len") + 1])
                assert length > model.sampling.max_tokens + 1000, f"{name}: {model.name}"
