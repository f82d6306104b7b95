"""Second opinions of a chat model on rewrites."""

import json
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loupe.checks.known_pairs import shipped_pairs
from loupe.db.decisions import append_decisions, decided_by_people, last_reasons
from loupe.db.entities import AgentRef, NewDecision, find
from loupe.db.store import Store
from loupe.flows.engine.releasing import judge_statistics
from loupe.flows.judgements import Judgement, read_judgement
from loupe.flows.ufine3c.pipeline import ufine3c_pipeline
from loupe.models.profiles.loader import load_profile
from loupe.release.format.row_files import read_release
from loupe.schemas.build import SourceSpec, UFine3CBuild
from loupe.schemas.chat import ChatAnswer
from loupe.schemas.profile import EntailmentModel, FaithfulnessSettings, Profile
from loupe.schemas.quality import MeasuredJudge
from loupe.schemas.records import Granularity, Rejection, Rewrite
from loupe.services.diagnosis import Verdict
from tests.flows.command_line import Loupe
from tests.flows.worlds import write_people, write_toml
from tests.servers.counting_server import (
    CountingServer,
    completion_of,
    counting_server,
    prompt_text,
)

FACT = "a red umbrella"
MEASURED = {
    "judge": "judge@1",
    "pairs": "shipped",
    "prompt": "judge_rewrite 2",
    "found": 540,
    "changed": 600,
    "alarms": 50,
    "faithful": 500,
}


def objects_to(rewrite: str) -> bool:
    return len(rewrite) % 3 == 0


def judge(request: dict[str, Any]) -> dict[str, Any]:
    """Object to every third length of a rewrite."""
    rewrite = prompt_text(request).partition("<rewrite>")[2].partition("</rewrite>")[0].strip()
    added = [FACT] if objects_to(rewrite) else []
    return completion_of(request, json.dumps({"source_facts": [], "added": added}))


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
        "judge": {"model": model, "measured": MEASURED},
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
    assert (stated.judge, stated.texts, stated.flagged) == ("judge@1", calls, len(flagged))
    assert stated.as_rules == calls - len(flagged), "the rules suspect none"
    assert (stated.reviewed, stated.as_people) == (0, 0)
    card = (release / "README.md").read_text("utf-8")
    assert f"| judge@1 | {calls} | {len(flagged)} (" in card
    assert "540 of 600 with a wrong fact" in card
    assert "with the caption that it rewrites, by the check “person” and by judge@1." in card
    assert "is 0.80 (95 % interval 0.76 to 0.83); it is 0 for a judge that guesses" in card
    assert loupe("release", "verify", release).exit_code == 0

    assert loupe(*run).exit_code == 0
    assert judging_model.ledger.summary()["total"] == calls, "nothing is asked again"

    for number, (measured, quoted) in enumerate(
        (
            ({"measured": {**MEASURED, "found": 30}}, "30 of 600 with a wrong fact"),
            ({"measured": MEASURED}, "540 of 600 with a wrong fact"),
            ({"measured": {**MEASURED, "prompt": "judge_rewrite 1"}}, None),
            ({}, None),
        ),
        1,
    ):
        version = f"0.{number}.1"
        build = {"dataset": "judged", "version": version, "gate": "auto", "sources": [source]}
        config = write_toml(tmp_path / f"{version}.toml", build)
        judge = {"judge": {"model": model, **measured}}
        written = write_toml(tmp_path / f"judge-{version}.toml", {**profile, **judge})
        built = loupe("run", "build-ufine3c", "--config", config, "--profile", written)
        assert built.exit_code == 0, built.err
        is_stale = bool(measured) and quoted is None
        assert ("so the card does not quote it" in built.out + built.err) is is_stale
        card = (home / "releases" / f"judged-{version}" / "README.md").read_text("utf-8")
        assert ("pairs of texts for which it is known" in card) is bool(quoted)
        assert quoted is None or quoted in card

    other = {"judge": {"model": {**model, "revision": "2"}, "measured": MEASURED}}
    written = write_toml(tmp_path / "other.toml", {**profile, **other})
    refused = loupe("run", "build-ufine3c", "--config", config, "--profile", written)
    assert refused.exit_code == 2
    assert "measured is for judge@1, but the judge is judge@2" in refused.err

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


def judged(text: str) -> Judgement | Rejection:
    return read_judgement(ChatAnswer(text=text, tokens_in=1, tokens_out=1, seconds=0, raw=""))


def test_contradicted_and_added_facts_are_objections_and_missing_ones_are_not() -> None:
    facts = [
        {"fact": "a red coat", "verdict": "contradicted"},
        {"fact": "a black bag", "verdict": "missing"},
        {"fact": "jeans", "verdict": "supported"},
    ]
    found = judged(json.dumps({"source_facts": facts, "added": [FACT]}))
    assert isinstance(found, Judgement)
    assert list(found.objections) == [
        f"The judge finds no source for: {FACT}",
        "The judge finds a contradiction: a red coat",
    ]


def test_answers_of_other_forms_are_rejected() -> None:
    for text, reason in (
        ('{"added": []}', "missing_field"),
        ('{"added": "none", "source_facts": []}', "wrong_type"),
        ('{"added": [1], "source_facts": []}', "wrong_type"),
        ('{"added": [], "source_facts": ["a coat"]}', "wrong_type"),
        ('{"added": [], "source_facts": [{"fact": "a coat"}]}', "missing_field"),
        ('{"added": [], "source_facts": [{"fact": "a coat", "verdict": "maybe"}]}', "wrong_type"),
        ("The rewrite is faithful.", "unparseable_answer"),
    ):
        found = judged(text)
        assert isinstance(found, Rejection), text
        assert found.reason == reason, text


def test_a_judge_is_measured_on_pairs_with_known_truth(
    loupe: Loupe, home: Path, judging_model: CountingServer, tmp_path: Path
) -> None:
    """The judge objects to every third length, whatever the text says."""
    model = {
        "provider": "openai",
        "name": "judge",
        "revision": "1",
        "base_url": judging_model.base_url,
    }
    values = {"description": "a judge", "judge": {"model": model}}
    profile = write_toml(tmp_path / "profile.toml", values)
    found = loupe("judge", "calibrate", "--profile", profile, "--limit", "200", "--json").json
    pairs = shipped_pairs()
    asked = [pairs[at * len(pairs) // 200] for at in range(200)]
    right = [objects_to(one.rewrite) for one in asked if one.faithful]
    wrong = [objects_to(one.rewrite) for one in asked if not one.faithful]
    assert (found["alarms"], found["faithful"]) == (sum(right), len(right))
    assert (found["found"], found["changed"]) == (sum(wrong), len(wrong))
    low, high = found["youden_interval"]
    assert low < 0 < high, "it knows nothing"
    assert found["youden"] == pytest.approx(sum(wrong) / len(wrong) - sum(right) / len(right))
    calls = judging_model.ledger.summary()["total"]

    shown = loupe("judge", "calibrate", "--profile", profile, "--limit", "200").out
    assert judging_model.ledger.summary()["total"] == calls, "answers are stored"
    table = shown.partition("for the profile:")[2]
    measured = tomllib.loads(table)["judge"]["measured"]
    assert MeasuredJudge.model_validate(measured).judge == "judge@1"
    assert measured["found"] == sum(wrong)

    own = tmp_path / "own.jsonl"
    own.write_text(json.dumps({"source": "a", "rewrite": "b", "faithful": True}), "utf-8")
    refused = loupe("judge", "calibrate", own, "--profile", profile)
    assert refused.exit_code == 2
    assert "pairs that are faithful and pairs that are not" in refused.err


def test_the_shipped_pairs_have_both_kinds_and_no_pair_twice() -> None:
    pairs = shipped_pairs()
    kinds = Counter(pair.faithful for pair in pairs)
    assert len(pairs) == 1115
    assert len({(pair.source, pair.rewrite) for pair in pairs}) == len(pairs)
    assert min(kinds.values()) > 400


def test_a_check_of_entailment_needs_a_model_that_reads_the_language() -> None:
    source = SourceSpec(
        name="one", format="cuhk-pedes", annotations=Path("a"), images=Path("b"), licence="CC0-1.0"
    )
    build = UFine3CBuild(sources=(source,), checks=("form", "support", "entailment"))
    profile = load_profile("builtin")
    checks = ufine3c_pipeline().checks
    assert list(checks(build.model_copy(update={"checks": ("form",)}), profile)) == []
    (missing,) = checks(build, profile)
    assert "the profile names none" in missing.detail

    def with_model(language: str) -> Profile:
        model = EntailmentModel(name="nli", revision="0" * 40, languages=("en", "de"))
        texts = FaithfulnessSettings(language=language, entailment=model)
        return profile.model_copy(update={"faithfulness": texts})

    (unread,) = checks(build, with_model("ja"))
    assert f"nli@{'0' * 40} reads en, de, and the texts are in 'ja'" in unread.detail
    (found,) = checks(build, with_model("de"))
    assert found.verdict is Verdict.OK
