"""`build-recos` with sign pairs written by a model: requests, drawings and records."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from loupe.db.calls import cost_rows
from loupe.db.entities import StoredEntity, children_of, find, parents_of
from loupe.db.quarantine import quarantined
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.pipeline import PipelineSpec, run_pipeline
from loupe.flows.recos.pipeline import recos_pipeline
from loupe.flows.recos.run import RecosRun, images_of_tier, originals_of
from loupe.schemas.build import RecosBuild, TaskSpec
from loupe.schemas.errors import ConfigurationError, ModelError
from loupe.schemas.profile import OpenAIChat, Profile
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image
from loupe.schemas.recos import DiscriminabilitySettings, RenderedTruth, Selection
from loupe.schemas.requests import SignPairsBrief, WrittenSignPair
from loupe.schemas.taxonomy import RetrievalTask
from loupe.sources.rendered import RenderOptions
from loupe.sources.rendered.signs import shipped_pairs
from tests.annotate.interfaces.regions import ticked
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.recos_reviewers import answer, sizes
from tests.flows.recos_world import DATASET, no_desks, small_profile
from tests.servers.captioning import caption_completion
from tests.servers.counting_server import (
    CountingServer,
    Fault,
    completion_of,
    counting_server,
    prompt_text,
)

DIGITS = "零一二三四五六七八九"
WANTED = 25
DRAWING = RenderOptions(pairs=shipped_pairs()[:6])
TASK = TaskSpec(task=RetrievalTask.TRANSLATION, images=8, pool=12, further_pairs=WANTED)


def written(number: int) -> dict[str, str]:
    chinese = "".join(DIGITS[int(digit)] for digit in str(number))
    return {
        "kind": "notice",
        "chinese": f"请去{chinese}号",
        "english": f"Please go to No. {number}",
    }


def pairs_answer(request: dict[str, Any]) -> str:
    """Return the requested number of pairs; in the first answer, the last two are unusable."""
    found = re.search(r"<brief>\n(.*?)\n</brief>", prompt_text(request), re.DOTALL)
    assert found is not None
    brief = SignPairsBrief.parse(found[1])
    pairs = [written(len(brief.taken) + place) for place in range(brief.count)]
    if not any("请去" in pair for pair in brief.taken):
        taken = shipped_pairs()[0]
        pairs[-2] = {**pairs[-2], "chinese": taken.chinese}
        pairs[-1] = {**pairs[-1], "english": "I'm sorry, I cannot help with that."}
    return json.dumps({"pairs": pairs})


def complete(request: dict[str, Any]) -> dict[str, Any]:
    if "Pairs: " in prompt_text(request):
        return completion_of(request, pairs_answer(request))
    return caption_completion(request)


@pytest.fixture
def server() -> Iterator[CountingServer]:
    with counting_server(complete=complete) as one:
        yield one


def profile_with(server: CountingServer) -> Profile:
    profile = small_profile(DiscriminabilitySettings(k=4, eta=0.5, rounds=0))
    model = OpenAIChat(
        provider="openai",
        name="scripted",
        revision="1",
        base_url=server.base_url,
        max_retries=0,
    )
    captioning = profile.captioning.model_copy(update={"model": model})
    return profile.model_copy(update={"captioning": captioning})


def build(**values: Any) -> RecosBuild:
    return RecosBuild(dataset=DATASET, last="v0", tasks=(TASK,), further_rounds=0, **values)


def drawing_alone(options: RenderOptions) -> PipelineSpec[RecosBuild, RecosRun]:
    """Return `build-recos` up to its images, without captions."""
    whole = recos_pipeline(drawing=options)
    return replace(whole, steps=whole.steps[:2])


def stored_pairs(run: RunContext) -> dict[str, StoredEntity]:
    return {one.id: one for one in find(run.store, DATASET, WrittenSignPair.kind)}


def test_signs_are_drawn_from_pairs_of_a_model_and_are_marked(
    run: RunContext, server: CountingServer
) -> None:
    office, profile = MemoryOffice(), profile_with(server)
    spec = build(selection_gate="required")
    first = run_pipeline(run, recos_pipeline(drawing=DRAWING), spec, profile, lambda: office)

    asked = [one for one in server.ledger.seen if "Pairs: " in prompt_text(one.body)]
    assert len(asked) == 2, "18 of the first 20 are usable, so 7 are requested again"
    pairs = stored_pairs(run)
    assert len(pairs) == WANTED
    assert {one.record(WrittenSignPair).author for one in pairs.values()} == {"scripted@1"}
    assert all(
        parents_of(run.store, list(pairs), role) for role in (Role.PROMPTED_BY, Role.WRITTEN_WITH)
    )
    calls = {one.record(WrittenSignPair).pair.model_call for one in pairs.values()}
    assert len(calls) == 2
    assert {one.reason for one in quarantined(run.store, DATASET)} == {"duplicate_text", "refusal"}
    assert sum(row.calls for row in cost_rows(run.store)) == 2

    images = images_of_tier(run.store, DATASET, "v0")
    originals = originals_of(run.store, images)
    truths = parents_of(run.store, list(originals.values()), Role.RENDERED_FROM)
    (source,) = {one.record(Image).source for one in images}
    assert source.startswith("drawn-text-translation-0-12-")
    worded = parents_of(run.store, [found[0] for found in truths.values()], Role.WORDED_BY)
    assert worded
    for truth in find(run.store, source, RenderedTruth.kind):
        shown = truth.record(RenderedTruth).truth["pairs"]
        keys = sorted(one["model_call"] for one in shown if "model_call" in one)
        parents = parents_of(run.store, [truth.id], Role.WORDED_BY).get(truth.id, [])
        linked = [pairs[one].record(WrittenSignPair).pair.model_call for one in parents]
        assert keys == sorted(call for call in linked if call)

    questions = list(find(run.store, DATASET, Selection.kind))
    by_model = {image.id for image in images if truths[originals[image.id]][0] in worded}
    assert first.waiting == len(questions) == len(by_model) > 0
    for one in questions:
        text = one.record(Selection).proposed_by
        assert text.startswith("drawn with a translation by a model that nobody checked: 请去")

    before = sizes(run)
    run_pipeline(run, recos_pipeline(drawing=DRAWING), spec, profile, lambda: office)
    assert sizes(run) == before
    assert server.ledger.counts.total() == 2, "no further request is sent"

    answer(run, office, lambda _: [ticked("verdict", "accept")])
    last = run_pipeline(run, recos_pipeline(drawing=DRAWING), spec, profile, lambda: office)
    assert last.waiting == 0
    assert last.release_id
    assert last.release is not None
    entities = pq.read_table(last.release / "lineage" / "entities.parquet").to_pylist()
    stored = {one["id"]: one["payload"] for one in entities if one["kind"] == "sign_pair"}
    used = children_of(run.store, list(pairs), Role.WORDED_BY)
    assert stored
    assert stored.keys() <= used.keys()
    assert all('"author":"scripted@1"' in payload for payload in stored.values())


def test_an_unreachable_server_ends_the_run_and_the_next_run_continues(
    run: RunContext, server: CountingServer
) -> None:
    profile = profile_with(server)
    server.ledger.add_faults(Fault("status", status=503, match="Pairs: 7"))
    with pytest.raises(ModelError, match=r"scripted@1 did not answer \(1 server_error\)"):
        run_pipeline(run, drawing_alone(DRAWING), build(), profile, no_desks)
    assert len(stored_pairs(run)) == 18
    assert not (run.settings.home / "rendered").exists()
    run_pipeline(run, drawing_alone(DRAWING), build(), profile, no_desks)
    assert len(stored_pairs(run)) == WANTED
    asked = [one for one in server.ledger.seen if "Pairs: " in prompt_text(one.body)]
    assert len(asked) == 3


def test_a_model_that_writes_no_usable_pair_is_asked_once(
    run: RunContext, server: CountingServer
) -> None:
    text = "I'm sorry, I cannot help with that."
    server.ledger.add_faults(Fault("content", text=text, match="Pairs: 20"))
    run_pipeline(run, drawing_alone(RenderOptions()), build(), profile_with(server), no_desks)
    asked = [one for one in server.ledger.seen if "Pairs: " in prompt_text(one.body)]
    assert len(asked) == 1
    assert stored_pairs(run) == {}
    assert "refusal" in {one.reason for one in quarantined(run.store, DATASET)}


def test_built_in_models_cannot_write_pairs(run: RunContext) -> None:
    message = (
        r"^task text translation: further_pairs = 25 needs a model that writes texts, and "
        r"loupe-coded-stills-captioner is built in and cannot; "
        r"name another as \[captioning\.model\]"
    )
    with pytest.raises(ConfigurationError, match=message):
        run_pipeline(run, recos_pipeline(), build(), small_profile(), no_desks)
    assert sizes(run) == [0, 0, 0], "nothing is stored"
    assert not (run.settings.home / "rendered").exists()


def test_only_drawn_signs_have_further_pairs(subtests: pytest.Subtests) -> None:
    cases: list[dict[str, Any]] = [
        {"task": RetrievalTask.CODE},
        {"task": RetrievalTask.TRANSLATION, "source": "photographs"},
    ]
    for values in cases:
        with (
            subtests.test(values=values),
            pytest.raises(ValidationError, match="further_pairs is for text translation without"),
        ):
            TaskSpec(images=2, further_pairs=1, **values)
