"""Small datasets in real stores, for the tests of releases."""

import atexit
import io
import random
import shutil
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from PIL import Image as Picture
from sqlalchemy import select

from loupe.db.blobs import BlobStore
from loupe.db.entities import (
    ActivityRecord,
    AgentRef,
    NewDecision,
    NewEntity,
    WorkResult,
    new_entity,
)
from loupe.db.store import Store
from loupe.db.tables import ModelCall, ReleaseItem
from loupe.db.work import commit_chunk, register_plan
from loupe.schemas.base import Split, sha256_of
from loupe.schemas.chat import ModelRef
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Granularity, Image, PromptText, Rewrite, Source

DATASET = "ufine3c"
QWEN = ModelRef(name="Qwen/Qwen-14B-Chat", revision="abc")
LLAMA = ModelRef(name="meta-llama/Llama-2-70b-chat-hf", revision="def")
PERSON = AgentRef("person", "annotator-7")
GATE = AgentRef("software", "loupe", "0.1.0")


class World(NamedTuple):
    """A store and its blobs."""

    store: Store
    blobs: BlobStore


def released_entities(store: Store, release_id: str) -> list[str]:
    """The ids of the entities in a release, sorted."""
    query = select(ReleaseItem.entity_id).where(ReleaseItem.release_id == release_id)
    with store.read() as connection:
        return sorted(connection.execute(query).scalars())


class Contents(NamedTuple):
    """All contents of a world; the order of storing does not matter."""

    entities: tuple[NewEntity, ...]
    decisions: tuple[NewDecision, ...]
    pictures: tuple[bytes, ...]
    calls: tuple[dict[str, Any], ...]


@cache
def picture(number: int, size: tuple[int, int] = (12, 24)) -> bytes:
    """A small JPEG, different for each number."""
    buffer = io.BytesIO()
    chance = random.Random(number)
    image = Picture.new("RGB", size)
    image.putdata([tuple(chance.randbytes(3)) for _ in range(size[0] * size[1])])
    image.save(buffer, "JPEG", quality=80)
    return buffer.getvalue()


def source(name: str, granularity: Granularity | None, **changes: Any) -> Source:
    """A source with licence terms."""
    values: dict[str, Any] = {
        "name": name,
        "format": "cuhk-pedes",
        "annotation_file": "reid_raw.json",
        "annotation_sha256": sha256_of(name.encode()),
        "licence": "CC BY-NC-SA 4.0",
        "citation": f"The authors of {name}, 2017",
        "homepage": "https://example.org/data_set",
        "granularity": granularity,
    }
    return Source(**(values | changes))


PROMPT = PromptText(
    prompt_id="rewrite_description",
    version="1",
    digest="d" * 32,
    text="Please reorganize the description: {{ description }}\n```\n# not a heading\n```",
)
SOURCES = (
    source("CUHK-PEDES", Granularity.COARSE),
    source("ICFG-PEDES", Granularity.MEDIUM, homepage=None),
    source("UFine6926", Granularity.FINE),
)


class Composer:
    """Compose a dataset, entity by entity."""

    def __init__(self, dataset: str = DATASET) -> None:
        self.dataset = dataset
        self.entities: dict[str, NewEntity] = {}
        self.decisions: list[NewDecision] = []
        self.pictures: list[bytes] = []
        self.calls: dict[str, dict[str, Any]] = {}
        self.prompt = self.add(new_entity(PROMPT, dataset))

    def add(self, entity: NewEntity) -> str:
        self.entities[entity.id] = entity
        return entity.id

    def image(
        self,
        of: Source,
        identity: str,
        file_path: str,
        *,
        split: Split = "test",
        sampled: bool = True,
        data: bytes | None = None,
        **changes: Any,
    ) -> str:
        """Add an image, sampled from the dataset of its source if `sampled`."""
        home = of.name.lower() if sampled else self.dataset
        origin = self.add(new_entity(of, home))
        data = data or picture(len(self.pictures))
        self.pictures.append(data)
        with Picture.open(io.BytesIO(data)) as opened:
            width_px, height_px = opened.size
        values: dict[str, Any] = {
            "source": of.name,
            "identity": identity,
            "split": split,
            "file_path": file_path,
            "sha256": sha256_of(data),
            "source_sha256": sha256_of(data),
            "media_type": "image/jpeg",
            "width_px": width_px,
            "height_px": height_px,
        }
        record = Image(**(values | changes))
        group = f"{of.name}/{identity}"
        image = new_entity(record, home, parents=[(Role.IMPORTED_FROM, origin)], group=group)
        self.add(image)
        if sampled:
            image = new_entity(
                record, self.dataset, parents=[(Role.SAMPLED_FROM, image.id)], group=group
            )
        return self.add(image)

    def caption(self, image: str, of: Source, text: str, position: int = 0) -> str:
        """Add an original caption of the source."""
        record = Caption(source=of.name, text=text, position=position)
        return self.add(
            new_entity(record, self.dataset, parents=[(Role.DESCRIBES, image)], group=image)
        )

    def rewrite(
        self,
        caption: str,
        text: str,
        model: ModelRef = QWEN,
        *,
        verdict: str | None = "accept",
        by: AgentRef = GATE,
        call: str | None = None,
    ) -> str:
        """Add a rewrite by a model and a decision on it."""
        record = Rewrite(source="x", text=text, author=str(model))
        parents = [(Role.REWRITE_OF, caption), (Role.PROMPTED_BY, self.prompt)]
        if call is not None:
            self.calls[call] = model_call(call, model)
        entity = self.add(new_entity(record, self.dataset, parents=parents, model_call=call))
        if verdict is not None:
            self.decisions.append(NewDecision(entity, verdict, by))  # type: ignore[arg-type]
        return entity

    def edit(self, rewrite: str, text: str, by: AgentRef = PERSON) -> str:
        """Add the edit of a rewrite by a person, which supersedes it."""
        record = Rewrite(source="x", text=text, author=by.name)
        edited = self.add(new_entity(record, self.dataset, parents=[(Role.EDITED_FROM, rewrite)]))
        self.decisions.append(NewDecision(rewrite, "edit", by, successor_id=edited))
        self.decisions.append(NewDecision(edited, "accept", by))
        return edited

    def contents(self) -> Contents:
        return Contents(
            tuple(self.entities.values()),
            tuple(self.decisions),
            tuple(self.pictures),
            tuple(self.calls.values()),
        )


def model_call(key: str, model: ModelRef) -> dict[str, Any]:
    """A row of the store for an answered model call."""
    return {
        "key": key,
        "agent_id": AgentRef.of_model(model).id,
        "stage": "rewrite",
        "dataset": DATASET,
        "prompt_digest": PROMPT.digest,
        "parameters": {"temperature": 0.7, "seed": 0},
        "request": {},
        "response": "…",
        "status": "answered",
        "tokens_in": 100,
        "tokens_out": 40,
        "cost": 0.1,
        "currency": "USD",
    }


def small_world(images_per_source: int = 4) -> Composer:
    """Three sources, two images per identity, two rewrites per caption, all kinds of decisions."""
    world = Composer()
    for rank, of in enumerate(SOURCES):
        for number in range(images_per_source):
            image = world.image(of, str(9 + number // 2), f"dir/{number}.jpg", sampled=rank > 0)
            for position in range(2):
                text = f"A {('tall', 'short')[position]} person {number} in a blue coat. " * (
                    1 + rank
                )
                caption = world.caption(image, of, text, position)
                key = sha256_of(caption.encode())[:32]
                world.rewrite(caption, f"{text} Said again.", QWEN, call=key)
                _varied(world, caption, text, number)
    return world


def _varied(world: Composer, caption: str, text: str, number: int) -> None:
    match number % 4:
        case 0:
            world.rewrite(caption, f"Seen is: {text}", LLAMA, by=PERSON)
        case 1:
            shown = world.rewrite(caption, f"{text} Wrong.", LLAMA, verdict=None)
            world.edit(shown, f"{text} Put right.")
        case 2:
            world.rewrite(caption, f"{text} Refused.", LLAMA, verdict="reject", by=PERSON)
        case _:
            world.rewrite(caption, f"{text} Undecided.", LLAMA, verdict=None)


def store_world(
    folder: Path,
    contents: Contents,
    *,
    url: str | None = None,
    shuffle: int | None = None,
    days: int = 0,
) -> World:
    """Store `contents` in a new store, shuffled by the seed `shuffle` as far as links allow.

    Equal contents in the plain order are stored once a process and copied.
    """
    if url is None and shuffle is None and not days:
        shutil.copytree(_stored(contents), folder, dirs_exist_ok=True)
        store = Store.open(f"sqlite:///{folder / 'loupe.db'}")
        return World(store, BlobStore(str(folder / "blobs")))
    return _store(folder, contents, url, shuffle, days)


_STORED: dict[str, Path] = {}
"""The folders of stores by their contents, which are removed at exit."""


def _stored(contents: Contents) -> Path:
    key = repr((*contents[:2], contents.calls, [sha256_of(one) for one in contents.pictures]))
    if key not in _STORED:
        _STORED[key] = Path(mkdtemp(prefix="loupe-world-"))
        atexit.register(shutil.rmtree, _STORED[key])
        _store(_STORED[key], contents, None, None, 0).store.close()
    return _STORED[key]


def _store(
    folder: Path, contents: Contents, url: str | None, shuffle: int | None, days: int
) -> World:
    store = Store.open(url or f"sqlite:///{folder / 'loupe.db'}")
    blobs = BlobStore(str(folder / "blobs"))
    for data in contents.pictures:
        with Picture.open(io.BytesIO(data)) as opened:
            blobs.put(data, f"image/{str(opened.format).lower()}")
    called_at = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=days)
    store_calls(store, contents.calls, called_at)
    plan = register_plan(store, "test", "1", {})
    for number, wave in enumerate(_waves(contents.entities, shuffle)):
        activity = ActivityRecord(plan, DATASET, "revision", f"run {days}", called_at)
        results = [WorkResult(number * 100_000 + i, (one,)) for i, one in enumerate(wave)]
        commit_chunk(store, activity, results)
    decide(store, plan, contents.decisions)
    return World(store, blobs)


def decide(store: Store, plan: int, decisions: Sequence[NewDecision]) -> None:
    """Store decisions on existing entities."""
    activity = ActivityRecord(plan, DATASET, "revision", "run", datetime.now(UTC))
    commit_chunk(store, activity, [WorkResult(99_000_000, decisions=tuple(decisions))])


def store_calls(store: Store, calls: Iterable[dict[str, Any]], called_at: datetime) -> None:
    """Store model calls with this time."""
    from sqlalchemy import insert

    from loupe.db.entities import register_agents

    with store.write() as connection:
        register_agents(connection, [AgentRef.of_model(QWEN), AgentRef.of_model(LLAMA)])
        rows = [{**call, "called_at": called_at, "seconds": random.random()} for call in calls]
        if rows:
            connection.execute(insert(ModelCall), rows)


def _waves(entities: Sequence[NewEntity], shuffle: int | None) -> Iterable[list[NewEntity]]:
    """Groups of entities with all parents in earlier groups."""
    remaining = list(entities)
    if shuffle is not None:
        random.Random(shuffle).shuffle(remaining)
    stored: set[str] = set()
    while remaining:
        wave = [one for one in remaining if all(parent in stored for _, parent in one.parents)]
        assert wave, "a parent is missing"
        stored.update(one.id for one in wave)
        remaining = [one for one in remaining if one.id not in stored]
        yield wave
