"""Entities derive from the prompt whose answer could be used, also after a repair."""

from typing import Any

import pytest

from loupe.db.entities import fetch, parents_of
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.ccd import refining
from loupe.flows.ccd import strategies as strategy_proposals
from loupe.flows.ccd.pipeline import ccd_pipeline
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.pipeline import run_pipeline
from loupe.models.profiles.loader import load_profile
from loupe.schemas.chat import ChatAnswer
from loupe.schemas.contrast import StrategyDraft
from loupe.schemas.proposals import CaptionGroup, Strategy
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, PromptText, Rejection
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.ccd_world import contrast_build, entities
from tests.flows.drawn_stills import DrawnStills


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(24)


def refuse_first(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    """Make the first parsed answer a rejection; parse all others normally."""
    read = getattr(module, name)
    seen: list[ChatAnswer] = []

    def reading(answer: ChatAnswer, *asked: Any) -> Any:
        seen.append(answer)
        if len(seen) == 1:
            return Rejection(stage="a test", reason="no_use", detail="It is no use.")
        return read(answer, *asked)

    monkeypatch.setattr(module, name, reading)


def prompts_of(run: RunContext, kind: str) -> dict[str, list[str]]:
    """Return the prompt names of each model-written entity of a kind."""
    links = parents_of(run.store, [one.id for one in entities(run, kind)], Role.PROMPTED_BY)
    stored = fetch(run.store, {id_ for found in links.values() for id_ in found})
    names = {id_: one.record(PromptText).prompt_id for id_, one in stored.items()}
    return {id_: sorted(names[one] for one in found) for id_, found in links.items()}


def no_desks() -> MemoryOffice:
    raise AssertionError("no review server may be opened")


def test_repaired_entities_derive_from_the_repair_prompt(
    run: RunContext, stills: StillsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_first(monkeypatch, strategy_proposals, "read_strategies")
    refuse_first(monkeypatch, refining, "read_refinement")
    run_pipeline(
        run, ccd_pipeline(), contrast_build(stills, anchors=2), load_profile("builtin"), no_desks
    )
    for kind in (StrategyDraft.kind, Strategy.kind):
        groups = {one.id: one.group for one in entities(run, kind)}
        by_anchor: dict[str, set[str]] = {"contrast_strategies": set(), "repair_strategies": set()}
        for one, (name,) in prompts_of(run, kind).items():
            by_anchor[name].add(str(groups[one]))
        assert [len(anchors) for anchors in by_anchor.values()] == [1, 1]
    groups_by = prompts_of(run, CaptionGroup.kind)
    repaired = [one for one, names in groups_by.items() if len(names) == 2]
    assert len(repaired) == 1, "one of five captions of one group was repaired"
    captions = {one.id: one.record(Caption) for one in entities(run, Caption.kind)}
    named = prompts_of(run, Caption.kind)
    again = [one for one, names in named.items() if names == ["repair_captions"]]
    described = parents_of(run.store, again, Role.DESCRIBES)
    assert len({captions[one].position for one in again}) == 1
    assert len({found[0] for found in described.values()}) == len(again) >= 2
    assert all(names == ["refine_captions"] for one, names in named.items() if one not in again)
