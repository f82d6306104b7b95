"""`build-ccd` with models of the real classes: Qwen3-VL behind vLLM, and Qwen-Image-Edit.

Their answers and pictures are nonsense, because their weights are random. All of these must go
to quarantine, with the raw answer, or to annotators; none may be lost or paid for twice.
"""

from collections import Counter
from collections.abc import Iterator

import pytest
from sqlalchemy import select

from loupe.annotate.queues import SHARED
from loupe.db.entities import StoredEntity
from loupe.db.quarantine import quarantined
from loupe.db.tables import ModelCall
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.engine.context import RunContext
from loupe.release.verify import verify_release
from loupe.retrieval.edit_measures import concerns_all
from loupe.schemas.build import CcdBuild
from loupe.schemas.contrast import ContrastGroup, ImageRequest
from loupe.schemas.errors import UsageError
from loupe.schemas.image_edit import QwenImageEdit
from loupe.schemas.profile import OpenAIChat, Profile, Sampling
from loupe.schemas.proposals import Candidate, CaptionGroup, Strategy
from loupe.schemas.records import Caption, Rejection
from tests.annotate.memory_desk import MemoryOffice
from tests.flows.ccd_reviewers import answer, build_once, right
from tests.flows.ccd_world import DATASET, contrast_build, contrast_profile, counted_model, entities
from tests.flows.drawn_stills import DrawnStills
from tests.models.tiny_editors import build_pipeline, qwen_spec
from tests.servers.contrasting import contrast_completion
from tests.servers.counting_server import CountingServer, counting_server
from tests.servers.vllm_server import VllmServer

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

ANCHORS = 3
MAX_TOKENS = 1200


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(40)


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> QwenImageEdit:
    """The paper's pipeline, tiny and with random weights."""
    pytest.importorskip("diffusers")  # not at the top of the module, because it takes seconds
    return qwen_spec(build_pipeline(tmp_path_factory.mktemp("editor") / "pipeline"))


@pytest.fixture
def proposing() -> Iterator[CountingServer]:
    """A counting server that answers like the built-in model."""
    with counting_server(complete=contrast_completion) as server:
        yield server


def vllm_model(server: VllmServer) -> OpenAIChat:
    sampling = Sampling(temperature=1.0, seed=3, max_tokens=MAX_TOKENS)
    return OpenAIChat(
        provider="openai",
        name=server.model,
        revision="random",
        base_url=server.base_url,
        sampling=sampling,
    )


def rejected_answers(run: RunContext, stage: str) -> list[Rejection]:
    """Return the rejections of a stage, which must hold the raw answers."""
    found = [one for one in quarantined(run.store, DATASET) if one.stage == stage]
    assert all(one.context["answer"] for one in found)
    return found


def calls(run: RunContext) -> Counter[tuple[str, str]]:
    """Return the numbers of model calls by stage and status."""
    with run.store.read() as connection:
        return Counter(
            (row.stage, row.status)
            for row in connection.execute(select(ModelCall.stage, ModelCall.status))
        )


def test_nonsense_edits_go_to_annotators_and_nonsense_captions_to_quarantine(
    run: RunContext,
    stills: StillsWorld,
    editor: QwenImageEdit,
    vllm_server: VllmServer,
    proposing: CountingServer,
) -> None:
    profile = contrast_profile(
        strategist=counted_model(proposing.base_url),
        refiner=vllm_model(vllm_server),
        editor=editor,
    )
    build = contrast_build(
        stills, anchors=ANCHORS, candidates_gate="required", max_unusable_share=1.0
    )
    office = MemoryOffice()
    waiting = build_once(run, build, office, profile).waiting
    assert_every_request_has_a_result(run, waiting, editor)
    answer(run, office, SHARED, right)
    is_released = releases(run, build, office, profile)
    groups = entities(run, ContrastGroup.kind)
    written = entities(run, CaptionGroup.kind)
    lost = rejected_answers(run, "refine_captions")
    assert len(written) + len(lost) == len(groups) == ANCHORS
    captions = [one for one in entities(run, Caption.kind, "accepted") if is_fine(one)]
    accepted = [one for one in written if one.state == "accepted"]
    assert is_released == bool(accepted) == bool(captions)
    asked = calls(run)
    assert asked["refine_captions", "answered"] == 5 * len(groups)
    assert asked["propose_strategies", "answered"] == ANCHORS
    assert releases(run, build, office, profile) == is_released
    assert calls(run) == asked, "no new model calls"
    assert proposing.ledger.summary()["total"] == ANCHORS


def assert_every_request_has_a_result(run: RunContext, waiting: int, editor: QwenImageEdit) -> None:
    """Each request gave a measured candidate, flagged if it is noise, or a rejection."""
    orders = entities(run, ImageRequest.kind)
    candidates = [one.record(Candidate) for one in entities(run, Candidate.kind)]
    lost = [one for one in quarantined(run.store, DATASET) if one.stage == "edit_images"]
    assert len(orders) == len(entities(run, Strategy.kind, "accepted")) >= ANCHORS
    assert len(candidates) + len(lost) == len(orders)
    assert waiting == len(candidates) > 0
    for one in candidates:
        assert one.origin.method == "edit"
        assert (one.origin.model, one.origin.steps) == (str(editor.ref), editor.steps)
        assert one.measurement is not None
        assert one.overlay is not None
        assert (one.image.width_px, one.image.height_px) == (
            one.anchor.width_px,
            one.anchor.height_px,
        )
        assert one.measurement.changed_share > 0.9, "the whole picture is noise"
        assert bool(one.warnings) or concerns_all(one.difference)


def releases(run: RunContext, build: CcdBuild, office: MemoryOffice, profile: Profile) -> bool:
    """Run the build; return whether it gave a release, which must verify."""
    try:
        report = build_once(run, build, office, profile)
    except UsageError as error:
        if f"nothing of '{DATASET}' can be released" not in str(error):
            raise
        return False
    assert report.release is not None
    assert verify_release(run.settings.home / "releases" / f"{DATASET}-0.1.0").problems == []
    return True


def is_fine(caption: StoredEntity) -> bool:
    return caption.record(Caption).author is not None
