"""Published provenance contains no paths, keys or private texts."""

import importlib
import json
import pkgutil
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from sqlalchemy import insert

from loupe import schemas
from loupe.annotate.answers import AnnotationRecord, ReviewAnswer
from loupe.db.entities import (
    ActivityRecord,
    AgentRef,
    NewDecision,
    WorkResult,
    new_entity,
    register_agents,
)
from loupe.db.lineage import trace
from loupe.db.store import Store
from loupe.db.tables import Annotation, ModelCall, ReviewTask
from loupe.db.work import commit_chunk, register_plan
from loupe.release.lineage import (
    TABLES,
    WHOLE,
    WITHHELD,
    published_configuration,
    published_payload,
    published_reason,
)
from loupe.release.lineage.reading import open_lineage
from loupe.schemas.base import EntityRecord, canonical_json
from loupe.schemas.contrast import FoundHit
from loupe.schemas.image_search import SearchHit
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Rewrite
from loupe.schemas.video import StageSettings
from tests.release.lineage_worlds import KINDS
from tests.release.worlds import QWEN, SOURCES, Composer, World, model_call, store_world

SECRET = "planted-secret"
HOME = f"/home/{SECRET}"


def kinds_of_records() -> set[str]:
    """Kinds of all records that are stored as entities."""
    for module in pkgutil.iter_modules(schemas.__path__):
        importlib.import_module(f"loupe.schemas.{module.name}")
    importlib.import_module("loupe.annotate.answers")
    waiting, kinds = [EntityRecord], set()
    while waiting:
        for one in waiting.pop().__subclasses__():
            waiting.append(one)
            is_ours = one.__module__.startswith(("loupe.schemas.", "loupe.annotate."))
            if is_ours and hasattr(one, "kind"):
                kinds.add(one.kind)
    return kinds


def test_the_published_fields_of_every_kind_are_defined() -> None:
    assert kinds_of_records() == WHOLE | WITHHELD.keys()
    assert not WHOLE & WITHHELD.keys()


def test_payloads_of_unknown_kinds_are_withheld() -> None:
    assert published_payload("diary", "accepted", '{"text":"x"}') == (None, ("*",))


def test_payloads_of_withdrawn_entities_are_withheld() -> None:
    assert published_payload("caption", "withdrawn", '{"text":"x"}') == (None, ("*",))


def test_only_settings_and_prompts_of_a_configuration_are_published() -> None:
    configuration = {
        "settings": {"limit": 3, "pose_model": {"name": f"{HOME}/vit", "device": "cuda:1"}},
        "tracklets": "digest of what there was by then",
        "taken": "also left out",
        "prompt": "abc",
    }
    wanted = '{"prompt":"abc","settings":{"limit":3,"pose_model":{"name":"…/vit"}}}'
    assert published_configuration("rewrite_captions", configuration) == wanted


PREFIXES = ("", "ViT@", "see (", "a\nb ", "x='", "…", "[")
PLACES = (
    *("/home/{}/w", "~{}/w", "C:\\Users\\{}\\w", "C:/Users/{}/w", "file:///srv/{}/w", "../{}/w"),
    *("http://{}:8000/v1", "https://{}:x@example.org/v1", "Bearer {}1", "api_key: {}", "sk-{}"),
)


def test_authors_of_every_kind_are_published_without_paths() -> None:
    kinds = ("caption", "image", "candidate", "sample")
    for kind, before, place in product(kinds, PREFIXES, PLACES):
        if before + place[:1] in ("…/", "…~", "…."):  # no start of a path
            continue
        author = before + place.format(SECRET)
        payload = canonical_json({"author": author, "text": "An /odd/text."})
        published, withheld = published_payload(kind, "accepted", payload)
        assert published is not None, (kind, author)
        assert SECRET not in published, (kind, author)
        assert "author" in withheld, (kind, author)
        if kind == "caption":
            assert json.loads(published)["text"] == "An /odd/text.", author


def test_payloads_without_secrets_are_unchanged() -> None:
    payload = '{"file_path": "dir (1) /0.jpg", "text":"his/her ~ a=b; the bearer of sk- bags"}'
    assert published_payload("image", "accepted", payload) == (payload, ())


def test_only_predefined_reasons_of_people_are_published() -> None:
    two = "2 people answered: wrong_colour, too_short"
    neither = "settled by an adjudicator: fits neither image"
    began = "a person's description began as it"
    for reason, wanted in (
        ("wrong_colour: Ann said so", "wrong_colour"),
        (f"{two}: my boss: said", two),
        ("settled by an adjudicator", "settled by an adjudicator"),
        (neither, neither),
        (began, began),
        ("write to ann@example.org", ""),
        ("first line\nsecond line", ""),
        ("", ""),
    ):
        assert published_reason("reject", "person", reason, answered=True) == wanted, reason


def test_reasons_of_gates_are_published_but_not_of_withdrawals() -> None:
    answer_record = "nobody looked (policy auto): the check found it faithful"
    assert published_reason("accept", "software", answer_record, answered=False) == answer_record
    followed = "as its candidate 0123456789ab was judged"
    assert published_reason("accept", "person", followed, answered=False) == followed
    for kind in ("person", "software"):
        assert published_reason("withdraw", kind, "Ann asked for it", answered=False) == ""


def store_annotation(store: Store, entity_id: str, key: str) -> None:
    """Store a task and an annotation that decisions of people refer to."""
    now = datetime.now(UTC)
    task = {
        "key": key,
        "queue": "q",
        "entity_id": entity_id,
        "server": f"http://{SECRET}:8080",
        "project_id": 1,
        "state": "answered",
        "pushed_at": now,
    }
    annotation = {
        "key": key,
        "review_task_key": key,
        "agent_id": PERSON.id,
        "remote_id": 1,
        "state": "clear",
        "result": {"note": SECRET},
        "answer": {"note": SECRET},
        "annotated_at": now,
        "received_at": now,
    }
    with store.write() as connection:
        register_agents(connection, [PERSON])
        connection.execute(insert(ReviewTask), task)
        connection.execute(insert(Annotation), annotation)


PERSON = AgentRef("person", "annotator-7")


@pytest.fixture
def world_with_secrets(tmp_path: Path) -> World:
    """A released text with secrets wherever its ancestors, runs or calls may contain them."""
    composer = Composer()
    image = composer.image(SOURCES[0], "1", "a.jpg")
    caption = composer.caption(image, SOURCES[0], "A man.")
    world = store_world(tmp_path / "world", composer.contents())
    settings = StageSettings(
        stage="rewrite",
        version="1",
        values={
            "model": {"name": f"{HOME}/qwen", "revision": "1"},
            "base_url": f"http://{SECRET}:8000",
            "detector": {"checkpoint": f"{HOME}/dla.pth", "device": SECRET},
            "limit": 7,
        },
    )
    answer_record = ReviewAnswer(
        verdict="reject",
        choices={"verdict": ("reject",)},
        texts={"note": SECRET},
        reason=f"wrong: {SECRET}",
        remark=SECRET,
    )
    hit = SearchHit(rank=1, image_url=f"https://example.org/a.jpg?key={SECRET}")
    with_settings = new_entity(settings, composer.dataset)
    answer = new_entity(
        AnnotationRecord(queue="q", author=PERSON.name, answer=answer_record), composer.dataset
    )
    found = new_entity(FoundHit(engine="openverse@v1", query="a man", hit=hit), composer.dataset)
    draft = new_entity(
        Caption(source="x", text=f"Withdrawn: {SECRET}.", position=1, author=str(QWEN)),
        composer.dataset,
        parents=[(Role.DESCRIBES, image)],
    )
    key = "e" * 32
    rewrite = new_entity(
        Rewrite(source="x", text="Said again.", author=str(QWEN)),
        composer.dataset,
        parents=[
            *((Role.REWRITE_OF, caption), (Role.DRAFTED_WITH, with_settings.id)),
            *(
                (Role.ANNOTATED_BY, answer.id),
                (Role.FOUND_AS, found.id),
                (Role.REVISED_FROM, draft.id),
            ),
        ],
        model_call=key,
    )
    plan = register_plan(
        world.store,
        "rewrite",
        "1",
        {"settings": {"folder": HOME, "n": 1}, "refusal": SECRET, "model": f"{HOME}/qwen"},
    )
    agents = (AgentRef("model", f"{HOME}/qwen", "1"), AgentRef("software", "loupe", "0.1.0"))
    run = ActivityRecord(plan, "ds", SECRET, f"run on {SECRET}", datetime.now(UTC), agents)
    call = {
        **model_call(key, QWEN),
        "parameters": {"seed": 0, "base_url": f"http://{SECRET}/v1"},
        "request": {"prompt": SECRET},
        "response": SECRET,
        "called_at": datetime.now(UTC),
        "seconds": 1.0,
    }
    with world.store.write() as connection:
        connection.execute(insert(ModelCall), call)
    made = (with_settings, answer, found, draft, rewrite)
    commit_chunk(world.store, run, [WorkResult(number, (one,)) for number, one in enumerate(made)])
    store_annotation(world.store, rewrite.id, "a" * 32)
    decisions = (
        NewDecision(rewrite.id, "reject", PERSON, f"wrong: {SECRET}", None, "a" * 32),
        NewDecision(rewrite.id, "accept", agents[1], f"http://{SECRET}/x says so"),
        NewDecision(draft.id, "withdraw", PERSON, f"{SECRET} asked for it"),
    )
    commit_chunk(world.store, run, [WorkResult(99, decisions=decisions)])
    return world


def test_no_planted_secret_is_published(world_with_secrets: World, tmp_path: Path) -> None:
    folder = KINDS["plain"].build(world_with_secrets, tmp_path / "out").folder
    with open_lineage(folder) as lineage:
        (rewrite,) = pq.read_table(folder / "data/test-00000-of-00001.parquet")[
            "caption_entity_ids"
        ].to_pylist()[0][1:]
        traced = lineage.trace(rewrite)
    known = trace(world_with_secrets.store, rewrite)
    world_with_secrets.store.close()
    assert json.dumps([node.entity.payload for node in known.entities.values()]).count(SECRET) > 8
    for table in TABLES:
        details = pq.read_table(folder / table.path).to_pylist()
        assert SECRET not in json.dumps(details), table.name
        assert SECRET.encode() not in (folder / table.path).read_bytes()
    by_kind = {node.entity.kind: node.entity for node in traced.entities.values()}
    assert set(by_kind) == {one.entity.kind for one in known.entities.values()}
    assert json.loads(by_kind["settings"].payload)["values"] == {
        "model": {"name": "…/qwen", "revision": "1"},
        "detector": {},
        "limit": 7,
    }
    assert by_kind["settings"].withheld == ("values",)
    assert by_kind["annotation"].withheld == ("answer.texts", "answer.reason", "answer.remark")
    assert by_kind["found_hit"].withheld == ("hit",)
    assert by_kind["source"].withheld == ()
    assert '"image_url":"https://example.org/a.jpg"' in by_kind["found_hit"].payload
    reasons = [one.reason for one in traced.decisions[rewrite]]
    assert reasons == ["wrong", "(withheld) says so"]
    (call,) = traced.calls.values()
    assert call.parameters == {"seed": 0}
    draft = next(n.entity for n in traced.entities.values() if n.entity.state == "withdrawn")
    assert (draft.payload, draft.withheld) == ("{}", ("*",))
    assert "model …/qwen@1" in {str(agent) for agent in traced.agents.values()}
