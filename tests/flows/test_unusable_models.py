"""A model that does not work stops the build with the server's message and no release."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from schemas.records import Granularity
from tests.flows.command_line import Finished, Loupe
from tests.flows.worlds import write_people, write_toml
from tests.servers.counting_server import CountingServer, counting_server

SERVER_MESSAGE = "Unsupported parameter: 'max_tokens' is not supported with this model."
CAPTIONS = 8


class Hosted:
    """A build of eight descriptions, with a model behind a server."""

    def __init__(self, loupe: Loupe, folder: Path, home: Path, server: CountingServer) -> None:
        self.loupe = loupe
        self.folder = folder
        self.home = home
        self.server = server
        people = folder / "street"
        annotations = write_people(
            people, Granularity.FINE, identities=CAPTIONS, images=1, captions=1
        )
        self.source = {
            "name": "street",
            "format": "cuhk-pedes",
            "annotations": annotations,
            "images": people,
            "permitted_by": "drawn here",
        }

    def run(self, model: Mapping[str, Any] | None = None, **build: Any) -> Finished:
        """Run `loupe run build-ufine3c` with other settings of the model or the build."""
        values = {"dataset": "people", "gate": "auto", **build, "sources": [self.source]}
        config = write_toml(self.folder / "build.toml", values)
        spec = {
            "provider": "openai",
            "name": "counting",
            "revision": "1",
            "base_url": self.server.base_url,
            "max_in_flight": 2,
            "max_retries": 0,
            **(model or {}),
        }
        profile = write_toml(
            self.folder / "hosted.toml", {"description": "one", "rewrite": {"models": [spec]}}
        )
        return self.loupe("run", "build-ufine3c", "--config", config, "--profile", profile)

    @property
    def releases(self) -> list[str]:
        """Names of all releases."""
        return sorted(path.name for path in (self.home / "releases").glob("*"))


@pytest.fixture
def server() -> Iterator[CountingServer]:
    with counting_server() as running:
        yield running


@pytest.fixture
def hosted(loupe: Loupe, tmp_path: Path, home: Path, server: CountingServer) -> Hosted:
    return Hosted(loupe, tmp_path, home, server)


def test_refusals_of_every_request_stop_the_build_and_can_be_retried(
    hosted: Hosted,
) -> None:
    hosted.server.refuse = lambda body: SERVER_MESSAGE if "max_tokens" in body else None
    refused = hosted.run()
    assert refused.exit_code == 1
    assert SERVER_MESSAGE in refused.err
    assert "misconfigured" in refused.err
    assert hosted.releases == []
    assert hosted.loupe("quarantine", "people", "--json").json["counts"] == []
    again = hosted.run({"limit_parameter": "max_completion_tokens"})
    assert again.exit_code == 0, again.err
    assert hosted.releases == ["people-0.1.0"]


def test_a_single_refused_request_is_quarantined_with_its_reason(
    hosted: Hosted,
) -> None:
    refused: list[str] = []

    def refuse_first(body: dict[str, Any]) -> str | None:
        text = json.dumps(body["messages"])
        if not refused:
            refused.append(text)
        return "This text is not allowed." if text in refused else None

    hosted.server.refuse = refuse_first
    assert hosted.run().exit_code == 0
    found = hosted.loupe("quarantine", "people").out
    assert "This text is not allowed." in found
    card = (hosted.home / "releases" / "people-0.1.0" / "README.md").read_text()
    assert "| rewrite description | refused request | 1 |" in card


def test_a_repetitive_answer_is_rejected(hosted: Hosted) -> None:
    loop = "She has a handbag on her right hand. " * 4
    hosted.server.say = lambda _: (
        f"Sure! Here it is:\n```json\n{json.dumps({'rewrite': loop})}\n```"
    )
    failed = hosted.run()
    assert failed.exit_code == 1
    assert "repetition" in failed.err
