"""A chat model that reads images compares captions of ReCoS and CCD with them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loupe.db.decisions import last_reasons
from loupe.db.entities import find
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.judgements import CaptionJudgement, read_caption_judgement
from loupe.flows.recos.pipeline import recos_pipeline
from loupe.models.profiles.loader import load_profile
from loupe.release.format.row_files import read_release
from loupe.release.verify import verify_release
from loupe.schemas.chat import ChatAnswer
from loupe.schemas.errors import ModelError
from loupe.schemas.profile import CaptionJudgeSettings, Profile
from loupe.schemas.proposals import CaptionGroup, Confusion
from loupe.schemas.quality import CaptionCheck
from loupe.schemas.records import Caption, Rejection
from tests.flows.ccd_world import DATASET as CONTRASTS
from tests.flows.ccd_world import (
    contrast_build,
    contrast_profile,
    counted_model,
    run_unattended,
)
from tests.flows.drawn_stills import DrawnStills
from tests.flows.recos_world import DATASET, no_desks, small_build, small_profile
from tests.flows.worlds import write_toml
from tests.servers.counting_server import (
    CountingServer,
    completion_of,
    counting_server,
    prompt_text,
)

_FACT = "a purple elephant"


def objects_to(caption: str) -> bool:
    return len(caption) % 5 == 0


def judge(request: dict[str, Any]) -> dict[str, Any]:
    """Say of a fact of every fifth length of a caption that the image does not show it."""
    caption = prompt_text(request).partition("<caption>")[2].partition("</caption>")[0].strip()
    parts = [part["type"] for part in request["messages"][-1]["content"]]
    assert parts.count("image_url") == 1, "it sees the image"
    facts = [{"fact": "a scene", "verdict": "supported"}]
    if objects_to(caption):
        facts.append({"fact": _FACT, "verdict": "missing"})
    return completion_of(request, json.dumps({"caption_facts": facts}))


@pytest.fixture
def server() -> Iterator[CountingServer]:
    with counting_server(complete=judge) as server:
        yield server


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(40)


def judged_by(server: CountingServer, profile: Profile) -> Profile:
    settings = CaptionJudgeSettings(model=counted_model(server.base_url))
    return profile.model_copy(update={"caption_judge": settings})


def test_captions_of_tasks_are_judged_beside_their_images(
    run: RunContext, stills: StillsWorld, server: CountingServer, tmp_path: Path
) -> None:
    build = small_build(stills, tmp_path, last="v1")
    profile = judged_by(server, small_profile())
    built = run_pipeline(run, recos_pipeline(), build, profile, no_desks)
    calls = server.ledger.summary()["total"]
    store = run.store
    captions = {one.id: one for one in find(store, DATASET, Caption.kind)}
    asked = [one.record(Confusion) for one in find(store, DATASET, Confusion.kind)]
    checks = [one.record(CaptionCheck) for one in find(store, DATASET, CaptionCheck.kind)]
    by_judge = [one for one in checks if one.judge == "counting@1"]
    assert calls <= len(by_judge), "the same question is asked once"
    assert len(asked) < len(by_judge), "captions of v0 are judged, and those of v1"
    objected = {one.warnings for one in by_judge} - {()}
    assert objected == {(f"The judge does not see in the image: {_FACT}",)}
    reasons = last_reasons(store, list(captions))
    for id_, one in captions.items():
        if one.state == "accepted":
            assert not objects_to(one.record(Caption).text)
        if _FACT in reasons.get(id_, ""):
            assert one.state == "rejected"
    assert any(_FACT in reason for reason in reasons.values())

    assert built.release is not None
    v0 = built.release.parent / f"{DATASET}-{build.version('v0')}"
    of_tiers = [read_release(one).manifest.statistics.judges for one in (v0, built.release)]
    ((first,), (second,)) = of_tiers
    assert (first.judge, first.as_rules) == ("counting@1", None)
    assert 0 < first.flagged < first.texts < second.texts
    card = (v0 / "README.md").read_text("utf-8")
    assert "looked at each caption beside its image" in card
    assert "**Not checked**: whether the captions that models wrote" not in card
    assert verify_release(built.release).problems == []

    again = run_pipeline(run, recos_pipeline(), build, profile, no_desks)
    assert again.release_id == built.release_id
    assert server.ledger.summary()["total"] == calls, "nothing is asked again"


def test_an_objection_to_one_caption_flags_its_group(
    run: RunContext, stills: StillsWorld, server: CountingServer
) -> None:
    build = contrast_build(stills, anchors=1)
    profile = judged_by(server, contrast_profile())
    with pytest.raises(ModelError, match="The judge does not see in the image"):
        run_unattended(run, build, profile)  # the only group is dropped
    (group,) = find(run.store, CONTRASTS, CaptionGroup.kind)
    members = group.record(CaptionGroup).members
    texts = [text for member in members for text in member.captions]
    assert any(map(objects_to, texts))
    (check,) = [
        one.record(CaptionCheck)
        for one in find(run.store, CONTRASTS, CaptionCheck.kind)
        if one.record(CaptionCheck).judge
    ]
    assert len(check.warnings) == sum(map(objects_to, texts))
    assert check.warnings[0].startswith("Caption ")
    assert group.state == "rejected"
    assert "The judge does not see" in last_reasons(run.store, [group.id])[group.id]


def test_facts_that_an_image_contradicts_or_lacks_are_objections() -> None:
    def read(text: str) -> CaptionJudgement | Rejection:
        answer = ChatAnswer(text=text, tokens_in=1, tokens_out=1, seconds=0, raw="")
        return read_caption_judgement(answer, "judge_captions")

    verdicts = {"a bus": "supported", "red": "contradicted", "a dog": "missing"}
    facts = [{"fact": fact, "verdict": verdict} for fact, verdict in verdicts.items()]
    found = read(json.dumps({"caption_facts": facts}))
    assert isinstance(found, CaptionJudgement)
    assert list(found.objections) == [
        "The judge sees a contradiction in the image: red",
        "The judge does not see in the image: a dog",
    ]
    unusable = read(json.dumps({"caption_facts": [{"fact": "a bus", "verdict": "yes"}]}))
    assert isinstance(unusable, Rejection)
    assert unusable.reason == "wrong_type"


def test_the_chat_model_that_captions_judges_unless_it_is_turned_off(tmp_path: Path) -> None:
    model = {"provider": "openai", "name": "sees", "revision": "1", "base_url": "http://localhost"}

    def judge_of(**values: Any) -> str | None:
        written = {"description": "p", "captioning": {"model": model}, **values}
        path = write_toml(tmp_path / "profile.toml", written)
        found = load_profile(str(path)).caption_judge
        return str(found.model.ref) if found else None

    assert judge_of() == "sees@1"
    assert judge_of(caption_judge={"model": {**model, "name": "other"}}) == "other@1"
    assert judge_of(caption_judge=False) is None
    assert judge_of(judge=False) is None, "no judge at all"
    assert load_profile("builtin").caption_judge is None
    assert load_profile("paper").caption_judge is None
    found = load_profile("small").caption_judge
    assert found is not None
    assert found.model.sampling.temperature == 0
