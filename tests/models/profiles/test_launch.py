"""The commands that `loupe doctor` prints start servers that exist: vLLM itself reads them."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from models.profiles.loader import load_profile, profile_names
from schemas.profile import Launch, OpenAIChat, Profile

READ = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.model_executor.models.registry import ModelRegistry
from vllm.utils.argparse_utils import FlexibleArgumentParser

parser = make_arg_parser(FlexibleArgumentParser())
launches = json.loads(sys.argv[1])
for name, architecture, flags in launches:
    parser.parse_args(["--model", name, *flags])
known = set(ModelRegistry.get_supported_archs())
print(json.dumps([name for name, architecture, _ in launches if architecture not in known]))
"""


def chat_models(profile: Profile) -> list[OpenAIChat]:
    contrast = (profile.contrast.strategist, profile.contrast.refiner)
    written = (*profile.rewrite.models, *profile.describe.models, profile.captioning.model)
    return [one for one in (*written, *contrast) if isinstance(one, OpenAIChat)]


def launches() -> dict[str, Launch]:
    """How each model that a profile serves on this machine is launched, by its name."""
    found = {}
    for name in profile_names():
        for model in chat_models(load_profile(name, {})):
            if "127.0.0.1" in model.base_url:
                assert model.launch is not None, f"{name}: {model.name} has no launch"
                found[model.name] = model.launch
    return found


@pytest.mark.vllm
def test_the_pinned_vllm_serves_every_model_with_its_flags(vllm_environment: Path) -> None:
    current = [
        (name, one.architecture, one.flags) for name, one in launches().items() if not one.vllm
    ]
    done = subprocess.run(
        [str(vllm_environment / "bin" / "python"), "-c", READ, json.dumps(current)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_the_flags_leave_room_for_answers() -> None:
    for name in profile_names():
        for model in chat_models(load_profile(name, {})):
            flags = model.launch.flags if model.launch else ()
            if "--max-model-len" in flags:
                length = int(flags[flags.index("--max-model-len") + 1])
                assert length > model.sampling.max_tokens + 1000, f"{name}: {model.name}"
