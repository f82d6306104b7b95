"""A model that does not work stops the build with the server's message and no release."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from loupe.schemas.records import Granularity
from tests.flows.command_line import Finished, Loupe
from tests.flows.worlds import write_people, write_toml
from tests.servers.counting_server import (
    CountingServer,
    counting_server,
    prompt_text,
    reworded,
)

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
        self.annotations = annotations = write_people(
            people, Granularity.FINE, identities=CAPTIONS, images=1, captions=1
        )
        self.source = {
            "name": "street",
            "format": "cuhk-pedes",
            "annotations": annotations,
            "images": people,
            "permitted_by": "drawn here",
        }

    def run(
        self, model: Mapping[str, Any] | None = None, *further: Mapping[str, Any], **build: Any
    ) -> Finished:
        """Run `loupe run build-ufine3c` with other settings of the model or the build.

        `further` are more models, with settings other than those of the first.
        """
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
        specs = [spec, *({**spec, **one} for one in further)]
        profile = write_toml(
            self.folder / "hosted.toml",
            {"description": "one", "judge": False, "rewrite": {"models": specs}},
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


def with_an_umbrella(request: dict[str, Any]) -> str:
    """Return a rewrite that adds what the description does not say."""
    rewrite = reworded(prompt_text(request))
    return json.dumps({"rewrite": f"He carries a bright purple umbrella. {rewrite}"})


def test_answers_that_a_gate_drops_count_as_unusable(hosted: Hosted) -> None:
    hosted.server.say = with_an_umbrella
    failed = hosted.run()
    assert failed.exit_code == 1
    assert f"{CAPTIONS} of {CAPTIONS} answers of counting@1 cannot be used" in failed.err
    assert f"queue people-rewrites: {CAPTIONS} dropped as suspect" in failed.err
    assert "purple umbrella" in failed.err
    assert hosted.releases == []
    found = hosted.loupe("quarantine", "people", "--json").json
    assert ["rewrites", "suspect", CAPTIONS] in [list(row.values())[1:] for row in found["counts"]]
    assert found["records"][0]["reason"] == "suspect"
    assert "purple umbrella" in found["records"][0]["context"]["text"]
    assert found["records"][0]["context"]["file"].endswith(".jpg")
    retried = hosted.loupe("quarantine", "people", "--reason", "suspect", "--retry")
    assert "let people decide" in retried.err


def test_stored_answers_count_as_unusable_for_every_dataset_that_uses_them(
    hosted: Hosted,
) -> None:
    loop = "She has a handbag on her right hand. " * 4
    hosted.server.say = lambda _: json.dumps({"rewrite": loop})
    assert hosted.run().exit_code == 1
    paid = hosted.server.ledger.summary()["total"]
    again = hosted.run(dataset="others")
    assert again.exit_code == 1
    assert f"{CAPTIONS} of {CAPTIONS} answers of counting@1 cannot be used" in again.err
    assert hosted.releases == []
    assert hosted.server.ledger.summary()["total"] == paid


def test_the_quarantine_of_a_dataset_lists_the_records_of_its_sources(hosted: Hosted) -> None:
    file = hosted.annotations
    rows = json.loads(file.read_text())
    rows[0]["file_path"] = "missing.jpg"
    file.write_text(json.dumps(rows))
    assert hosted.run().exit_code == 0
    found = hosted.loupe("quarantine", "people", "--json").json
    assert [one["reason"] for one in found["records"]] == ["missing_image"]
    assert [row["dataset"] for row in found["counts"]] == ["street"]
    retried = hosted.loupe("quarantine", "people", "--reason", "missing_image", "--retry", "--json")
    assert retried.json["put_back"] == 1


def test_texts_that_repeat_another_models_do_not_stop_a_release(hosted: Hosted) -> None:
    ran = hosted.run(None, {"revision": "2"})
    assert ran.exit_code == 0, ran.err
    assert f"{CAPTIONS} near_identical_to_sibling" in ran.err
    found = hosted.loupe("quarantine", "people", "--json").json["records"]
    assert {Path(one["context"]["file"]).suffix for one in found} == {".jpg"}
    assert hosted.releases == ["people-0.1.0"]
