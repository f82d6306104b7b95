"""Unusable answers of models in `build-ccd`: repaired or quarantined, and none lost."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from loupe.db.entities import StoredEntity
from loupe.db.quarantine import quarantined
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.ccd.pipeline import ccd_pipeline
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.release.verify import verify_release
from loupe.schemas.contrast import StrategyDraft
from loupe.schemas.errors import ModelError
from loupe.schemas.proposals import CaptionGroup, Strategy
from loupe.schemas.records import Caption, Image, Rejection
from loupe.schemas.requests import (
    CAPTIONS_FIELD,
    STRATEGIES_FIELD,
    TRANSLATIONS_FIELD,
    RefinementBrief,
    StrategyBrief,
)
from tests.flows.ccd_world import DATASET, entities, strategy_pipeline
from tests.flows.drawn_stills import DrawnStills
from tests.flows.found_variants import FoundVariants, build_found
from tests.flows.still_families import Family, families
from tests.servers.contrasting import Spoil, asks_for_captions, brief_of, is_repair, translation
from tests.servers.counting_server import CountingServer, Fault, prompt_text

CUT = '{"strategies": [{"detail": "There is'
FAMILIES = 5
MANY = 99


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(40)


@pytest.fixture(scope="module")
def shown_families(stills: StillsWorld) -> list[Family]:
    found = families(stills)[:FAMILIES]
    assert len(found) == FAMILIES
    return found


@pytest.fixture
def build_with(
    run: RunContext, web: FoundVariants, model: CountingServer
) -> Callable[..., BuildReport]:
    """Runs the build, or a part of it, with answers changed by `spoil`."""
    complete = model.complete

    def build(
        spoil: Spoil = lambda _, text: text, pipeline: Any = ccd_pipeline, **values: Any
    ) -> BuildReport:
        def completed(request: dict[str, Any]) -> dict[str, Any]:
            answer = complete(request)
            message = answer["choices"][0]["message"]
            message["content"] = spoil(request, message["content"])
            return answer

        model.complete = completed
        wanted = web.build.model_copy(update=values)
        return build_found(run, wanted, web.profile(model), pipeline=pipeline)

    return build


def caption_of(request: dict[str, Any]) -> str:
    """Return the caption for which strategies or fine captions are requested."""
    parse = RefinementBrief if asks_for_captions(request) else StrategyBrief
    return parse.parse(brief_of(request)).caption


def rejections(run: RunContext, stage: str) -> list[Rejection]:
    return [one for one in quarantined(run.store, DATASET) if one.stage == stage]


def anchors_of_strategies(run: RunContext) -> Counter[str]:
    """Return the number of strategies by the first caption of their anchor."""
    return Counter(one.record(Strategy).caption for one in entities(run, Strategy.kind))


def released(run: RunContext, version: str = "0.1.0") -> list[dict[str, Any]]:
    folder = run.settings.home / "releases" / f"{DATASET}-{version}"
    assert verify_release(folder).problems == []
    rows: list[dict[str, Any]] = json.loads((folder / f"{DATASET}.json").read_text())
    return rows


def no_change(caption: str) -> dict[str, str]:
    return {
        "detail": "There is a purple book.",
        "type": "Entity Attribute",
        "plan": "The purple book becomes a purple book.",
        "caption": caption,
        "instruction": "Change the colour of the book from purple to purple.",
    }


def test_every_anchor_has_strategies_or_a_rejection(
    build_with: Callable[..., BuildReport],
    run: RunContext,
    shown_families: list[Family],
    model: CountingServer,
) -> None:
    good, repaired, broken, partly, refusing = (one.first.captions[0] for one in shown_families)
    extra = [no_change(partly), {"detail": "nothing else"}, "no object at all"]

    def spoil(request: dict[str, Any], text: str) -> str:
        caption = caption_of(request)
        if asks_for_captions(request) or caption == good:
            return text
        if caption == repaired:
            return text if is_repair(request) else CUT
        if caption == broken:
            return f"{CUT} again" if is_repair(request) else CUT
        if caption == partly:
            return json.dumps({STRATEGIES_FIELD: json.loads(text)[STRATEGIES_FIELD] + extra})
        return text

    model.ledger.add_faults(Fault("status", match=json.dumps(refusing)[1:-1], status=400))
    build_with(spoil, strategy_pipeline)
    anchors = {
        one.id: one.record(Image).file_path
        for one in entities(run, Image.kind)
        if one.record(Image).contrast is None
    }
    strategies = anchors_of_strategies(run)
    assert strategies == {
        family.first.captions[0]: len(family.variants)
        for family in shown_families
        if family.first.captions[0] in (good, repaired, partly)
    }
    lost = rejections(run, "propose_strategies")
    whole = [one for one in lost if "strategy" not in one.context]
    assert len(anchors) == FAMILIES == len(strategies) + len(whole)
    by_reason = {one.reason: one for one in whole}
    assert len(by_reason) == 2
    answered = next(one for one in whole if "answer" in one.context)
    assert answered.context["answer"] == f"{CUT} again", "the raw answer of the last round"
    unanswered = next(one for one in whole if "raw" in one.context)
    assert "instructed to answer 400" in unanswered.context["raw"]
    parts = [one for one in lost if "strategy" in one.context]
    kept = strategies[partly]
    assert [one.context["strategy"] for one in parts] == [kept + 1, kept + 2, kept + 3]
    assert [one.reason for one in parts] == ["no_change", "missing_field", "wrong_type"]
    assert all(json.loads(one.context["answer"])[STRATEGIES_FIELD][-3:] == extra for one in parts)
    drafts = [one.record(StrategyDraft) for one in entities(run, StrategyDraft.kind)]
    assert sum(one.strategy is not None for one in drafts) == strategies.total()
    assert sum(one.refusal is not None for one in drafts) == len(parts)

    asked = [one.body for one in model.ledger.seen if not asks_for_captions(one.body)]
    repairs = [one for one in asked if is_repair(one)]
    assert Counter(map(caption_of, repairs)) == {repaired: 1, broken: 1}
    assert all(json.dumps(CUT) in prompt_text(one) for one in repairs), "quoted as data"
    before = Counter(model.ledger.counts)
    assert set(before.values()) == {1}
    build_with(spoil, strategy_pipeline)
    assert model.ledger.counts == before


def test_the_next_run_asks_only_for_answers_that_server_faults_left_open(
    build_with: Callable[..., BuildReport],
    run: RunContext,
    shown_families: list[Family],
    model: CountingServer,
) -> None:
    failing, repaired = shown_families[1].first.captions[0], shown_families[2].first.captions[0]

    def spoil(request: dict[str, Any], text: str) -> str:
        if asks_for_captions(request) or is_repair(request) or caption_of(request) != repaired:
            return text
        return CUT

    model.ledger.add_faults(
        Fault("status", match=json.dumps(failing)[1:-1], status=500, times=MANY),
        Fault("status", match="<problem>", status=503, times=MANY),
    )
    with pytest.raises(ModelError, match="server_error"):
        build_with(spoil, strategy_pipeline)
    assert len({one.group for one in entities(run, StrategyDraft.kind)}) == FAMILIES - 2
    assert rejections(run, "propose_strategies") == [], "a server fault rejects nothing"
    model.ledger.faults.clear()
    before = model.ledger.counts.total()
    build_with(spoil, strategy_pipeline)
    asked = [one.body for one in model.ledger.seen[before:] if not asks_for_captions(one.body)]
    assert Counter(map(caption_of, asked)) == {failing: 1, repaired: 1}
    assert anchors_of_strategies(run).keys() == {one.first.captions[0] for one in shown_families}


def test_a_group_is_repaired_or_quarantined_whole(
    build_with: Callable[..., BuildReport],
    run: RunContext,
    shown_families: list[Family],
    model: CountingServer,
) -> None:
    """A coarse caption whose answer is unusable twice costs its group, but no other group."""
    repaired, broken = shown_families[0].first.captions[1], shown_families[1].first.captions[2]

    def spoil(request: dict[str, Any], text: str) -> str:
        if not asks_for_captions(request) or caption_of(request) not in (repaired, broken):
            return text
        if caption_of(request) == repaired and is_repair(request):
            return text
        return json.dumps({CAPTIONS_FIELD: json.loads(text)[CAPTIONS_FIELD][:-1]})

    build_with(spoil)
    (rejection,) = rejections(run, "refine_captions")
    assert rejection.reason == "wrong_count"
    wanted = 1 + len(shown_families[1].variants)
    answer = json.loads(rejection.context["answer"])
    assert len(answer[CAPTIONS_FIELD]) == wanted - 1
    groups = [one.record(CaptionGroup) for one in entities(run, CaptionGroup.kind)]
    assert len(groups) == FAMILIES - 1
    names = {row["file_path"]: row for row in released(run)}
    firsts = [row for row in names.values() if row["contrast"] is None]
    assert len(firsts) == FAMILIES - 1
    assert not any(broken in row["coarse_captions"] for row in firsts)
    assert all(len(row["captions"]) == 5 for row in names.values())
    assert set(model.ledger.counts.values()) == {1}


def test_a_second_language_added_later_costs_only_requests_for_captions(
    build_with: Callable[..., BuildReport],
    run: RunContext,
    shown_families: list[Family],
    model: CountingServer,
    web: FoundVariants,
) -> None:
    """An answer without a translation, or with one in English, is requested again."""
    build_with()
    plain = released(run)
    assert all(row["translations"] == {} for row in plain)
    before, searches = Counter(model.ledger.counts), list(web.service.queries)
    lacking, english = shown_families[0].first.captions[1], shown_families[1].first.captions[2]

    def spoil(request: dict[str, Any], text: str) -> str:
        if not asks_for_captions(request) or is_repair(request):
            return text
        answer = json.loads(text)
        if caption_of(request) == lacking:
            return json.dumps({CAPTIONS_FIELD: answer[CAPTIONS_FIELD]})
        if caption_of(request) == english:
            return json.dumps({**answer, TRANSLATIONS_FIELD: answer[CAPTIONS_FIELD]})
        return text

    build_with(spoil, second_language="zh", version="0.2.0")
    rows = released(run, "0.2.0")
    assert [row["file_path"] for row in rows] == [row["file_path"] for row in plain]
    assert (model.ledger.counts - before).total() == 5 * FAMILIES + 2
    assert web.service.queries == searches
    assert len(rows) == FAMILIES + sum(len(one.variants) for one in shown_families)
    for row in rows:
        assert row["translations"] == {"zh": [translation(one) for one in row["captions"]]}
        assert len(row["captions"]) == 5
    languages = Counter(_language(one) for one in entities(run, Caption.kind, "accepted"))
    assert languages == {None: 5 * len(rows), "zh": 5 * len(rows)}
    assert rejections(run, "refine_captions") == []
    lines = run.settings.home / "releases" / f"{DATASET}-0.2.0" / "ccd.jsonl"
    assert translation(rows[0]["captions"][0]) in lines.read_text(encoding="utf-8")


def _language(caption: StoredEntity) -> str | None:
    return caption.record(Caption).language
