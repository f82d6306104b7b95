"""Second opinions of a chat model on rewrites."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loupe.db.decisions import append_decisions, decided_by_people, last_reasons
from loupe.db.entities import AgentRef, NewDecision, find
from loupe.db.store import Store
from loupe.flows.engine.releasing import judge_statistics
from loupe.flows.judgements import read_judgement
from loupe.release.format.row_files import read_release
from loupe.schemas.chat import ChatAnswer
from loupe.schemas.records import Granularity, Rejection, Rewrite
from tests.flows.command_line import Loupe
from tests.flows.worlds import write_people, write_toml
from tests.servers.counting_server import (
    CountingServer,
    completion_of,
    counting_server,
    prompt_text,
)

FACT = "a red umbrella"


def objects_to(rewrite: str) -> bool:
    return len(rewrite) % 3 == 0


def judge(request: dict[str, Any]) -> dict[str, Any]:
    """Object to every third length of a rewrite."""
    rewrite = prompt_text(request).partition("<rewrite>")[2].partition("</rewrite>")[0].strip()
    added = [FACT] if objects_to(rewrite) else []
    return completion_of(request, json.dumps({"added": added, "contradicted": []}))


@pytest.fixture
def judging_model() -> Iterator[CountingServer]:
    with counting_server(complete=judge) as server:
        server.listed = [{"id": "judge"}]
        yield server


def test_objections_of_a_judge_flag_rewrites_and_are_stated_on_the_card(
    loupe: Loupe, home: Path, home_store: Store, judging_model: CountingServer, tmp_path: Path
) -> None:
    folder = tmp_path / "one"
    annotations = write_people(folder, Granularity.COARSE, identities=6, images=2, captions=1)
    source = {
        "name": "one",
        "format": "cuhk-pedes",
        "granularity": "coarse",
        "annotations": annotations,
        "images": folder,
        "licence": "CC0-1.0",
        "citation": "none",
    }
    config = write_toml(
        tmp_path / "build.toml", {"dataset": "judged", "gate": "auto", "sources": [source]}
    )
    model = {
        "provider": "openai",
        "name": "judge",
        "revision": "1",
        "base_url": judging_model.base_url,
    }
    profile = {
        "description": "rules, and a judge",
        "rewrite": {"models": [{"provider": "builtin"}]},
        "judge": {"model": model},
    }
    written = write_toml(tmp_path / "profile.toml", profile)
    run = ("run", "build-ufine3c", "--config", config, "--profile", written)
    built = loupe(*run)
    assert built.exit_code == 0, built.err
    calls = judging_model.ledger.summary()["total"]

    rewrites = list(find(home_store, "judged", Rewrite.kind))
    flagged = {one.id for one in rewrites if objects_to(one.record(Rewrite).text)}
    assert calls == len(rewrites)
    assert 0 < len(flagged) < len(rewrites)
    with home_store.read() as connection:
        assert not decided_by_people(connection, [one.id for one in rewrites])
    reasons = last_reasons(home_store, [one.id for one in rewrites])
    for one in rewrites:
        assert (one.state == "rejected") is (one.id in flagged)
        assert (f"The judge finds no source for: {FACT}" in reasons[one.id]) is (one.id in flagged)

    release = home / "releases" / "judged-0.1.0"
    (stated,) = read_release(release).manifest.statistics.judges
    assert (stated.judge, stated.rewrites, stated.flagged) == ("judge@1", calls, len(flagged))
    assert stated.as_rules == calls - len(flagged), "the rules suspect none"
    assert (stated.reviewed, stated.as_people) == (0, 0)
    assert f"| judge@1 | {calls} | {len(flagged)} (" in (release / "README.md").read_text()
    assert loupe("release", "verify", release).exit_code == 0

    assert loupe(*run).exit_code == 0
    assert judging_model.ledger.summary()["total"] == calls, "nothing is asked again"

    right, wrong = next(iter(flagged)), next(one.id for one in rewrites if one.id not in flagged)
    person = AgentRef("person", "reviewer-ann", "1")
    with home_store.write() as connection:
        rejections = [NewDecision(one, "reject", person) for one in (right, wrong)]
        append_decisions(connection, rejections)
    (reviewed,) = judge_statistics(home_store, "judged")
    assert (reviewed.reviewed, reviewed.as_people) == (2, 1)
    with home_store.write() as connection:
        append_decisions(connection, [NewDecision(wrong, "reopen", person)])
    (reviewed,) = judge_statistics(home_store, "judged")
    assert (reviewed.reviewed, reviewed.as_people) == (1, 1), "reopened, so not reviewed"


def test_answers_of_other_forms_are_rejected() -> None:
    for text, reason in (
        ('{"added": []}', "missing_field"),
        ('{"added": [], "contradicted": "none"}', "wrong_type"),
        ('{"added": [1], "contradicted": []}', "wrong_type"),
        ("The rewrite is faithful.", "unparseable_answer"),
    ):
        found = read_judgement(ChatAnswer(text=text, tokens_in=1, tokens_out=1, seconds=0, raw=""))
        assert isinstance(found, Rejection), text
        assert found.reason == reason, text
