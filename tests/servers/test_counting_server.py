"""The counting server: counts that survive a kill, faults and answers."""

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.process import free_port
from tests.servers.counting_server import CountingServer, instance_of, reworded
from tests.servers.processes import running


def ask(base_url: str, text: str) -> httpx.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    return httpx.post(f"{base_url}/v1/chat/completions", json=body, trust_env=False)


def counts(base_url: str) -> dict[str, Any]:
    summary: dict[str, Any] = httpx.get(f"{base_url}/counts", trust_env=False).json()
    return summary


def test_counts_survive_a_killed_server(tmp_path: Path) -> None:
    port = free_port()
    state = tmp_path / "state"
    base_url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "tests.servers.counting_server", "--port", str(port)]
    command += ["--state", str(state)]
    for expected_total in (2, 4):
        with running(command, f"{base_url}/counts", tmp_path / "log") as process:
            assert ask(base_url, "one").json() == ask(base_url, "one").json()
            assert counts(base_url)["total"] == expected_total
            process.kill()
            process.wait()
    assert len(state.read_text().split()) == 4


def test_faults_are_set_over_http_and_matched_by_prompt(counting: CountingServer) -> None:
    base_url = counting.base_url.removesuffix("/v1")
    faults = [{"kind": "status", "status": 503, "match": "two"}]
    httpx.post(f"{base_url}/faults", json=faults, trust_env=False)
    assert ask(base_url, "one").status_code == 200
    assert ask(base_url, "two").status_code == 503
    assert ask(base_url, "two").status_code == 200
    assert counts(base_url)["distinct"] == 2
    httpx.post(f"{base_url}/reset", trust_env=False)
    assert counts(base_url)["total"] == 0


@pytest.mark.parametrize(
    "prompt",
    [
        "Instruction.\n\nA man walks. He wears red.",
        "Instruction.\n\n<description>\nA man walks. He wears red.\n</description>\n\nJSON.",
    ],
)
def test_answers_reword_the_subject_of_the_prompt(prompt: str) -> None:
    answer = reworded(prompt)
    assert answer == "What the picture shows is this: He wears red. A man walks."


def test_answers_match_a_simple_schema() -> None:
    schema = {
        "type": "object",
        "properties": {
            "rewrite": {"type": "string", "maxLength": 3},
            "tags": {"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 2},
            "sure": {"type": "boolean"},
            "score": {"type": "number", "minimum": 1},
        },
    }
    answer = {"rewrite": "abc", "tags": ["x", "x"], "sure": True, "score": 1}
    assert json.dumps(instance_of(schema, "abcdef")) == json.dumps(answer)
