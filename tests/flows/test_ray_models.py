"""Models in actors of a cluster: two nodes with a GPU each, as far as Ray can tell.

Vectors, tracks and answers are those of one process, also if an actor is killed.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import psutil
import pytest
from PIL import Image

from loupe.db.entities import find
from loupe.db.tables import ModelCall
from loupe.demo.stills.drawing import draw_still
from loupe.demo.stills.scene import Scene, Thing
from loupe.demo.worlds.stills import jpeg_of
from loupe.flows.engine import cluster_models
from loupe.flows.engine.context import open_context
from loupe.flows.engine.embedding import CachedEmbedder, build_embedder, image_file
from loupe.flows.engine.ledger import RecordedChatModel
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.engine.programs import Computation
from loupe.flows.engine.ray import _pools, open_ray
from loupe.flows.engine.report import LineProgress
from loupe.flows.rewriting import request_rewrite
from loupe.flows.ufine6926.pipeline import ufine6926_pipeline
from loupe.models.chat import ChatModel
from loupe.models.embedding import ImageTextEmbedder, Vectors
from loupe.models.profiles.loader import load_profile
from loupe.models.profiles.settings import load_settings
from loupe.models.registry import OnDemandChatModel, build_detector, build_image_editor
from loupe.models.tracking.detector import PersonDetector
from loupe.prompts.loader import load_prompt
from loupe.schemas.base import sha256_of
from loupe.schemas.build import UFine6926Build, VideoSourceSpec
from loupe.schemas.chat import ChatAnswer, ChatImage
from loupe.schemas.embedding import BuiltinEmbedder, EmbeddingModelSpec
from loupe.schemas.errors import IntegrityError
from loupe.schemas.image_edit import BuiltinEditor, EditedPicture, EditRequest
from loupe.schemas.tracking import DetectorSpec
from loupe.schemas.video import Track
from tests.db.samples import row_count
from tests.flows.ray_cluster import RayCluster, ray_cluster
from tests.flows.recos_world import no_desks
from tests.flows.street import write_short_street
from tests.flows.test_ufine6926_build import profile

T = TypeVar("T")
IMAGES = 200
COLOURS = ("red", "green", "blue", "black", "white", "grey", "brown", "orange", "pink")


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with ray_cluster() as cluster:
        yield cluster


def drawn(folder: Path) -> list[Path]:
    """Write different images."""
    folder.mkdir()
    paths = []
    for number in range(IMAGES):
        path = folder / f"{number}.png"
        Image.new("RGB", (20, 40), (number, 255 - number, 7 * number % 256)).save(path)
        paths.append(path)
    return paths


def vectors(engine: str, home: Path, paths: Sequence[Path]) -> Vectors:
    """Embed images; with Ray, no model is loaded in this process."""
    settings = load_settings(home=home, engine=engine, engine_gpus=1.0)

    def build(spec: EmbeddingModelSpec) -> ImageTextEmbedder:
        assert engine != "ray"
        return build_embedder(spec)

    embedder = CachedEmbedder(
        open_context(settings).store,
        BuiltinEmbedder(),
        LineProgress(lambda _: None),
        build,
        settings,
    )
    images = embedder.embed_images([image_file(sha256_of(one.read_bytes()), one) for one in paths])
    texts = embedder.embed_texts([f"a {colour} coat" for colour in COLOURS])
    return np.concatenate([images, texts])


class Killed(NamedTuple, Generic[T]):
    """A result, how many actors were killed, and the processes of actors at the end."""

    result: T
    actors: int
    at_the_end: list[int]
    after_their_time: list[int]


def processes_of_actors() -> list[int]:
    """Return the actors that have started a process for their work."""
    return [one.pid for one in psutil.process_iter(["cmdline"]) if is_busy_actor(one)]


def is_busy_actor(process: psutil.Process) -> bool:
    is_actor = "ray::Actor" in " ".join(process.info["cmdline"] or ())
    try:
        return is_actor and bool(process.children())
    except psutil.NoSuchProcess:  # it has ended meanwhile
        return False


def despite_a_kill(function: Callable[..., T], *args: Any) -> Killed[T]:
    """Call a function; kill the first actor that has started a process for its work."""
    killed: list[int] = []

    def kill_one() -> None:
        while not killed:
            for pid in processes_of_actors():
                psutil.Process(pid).kill()
                killed.append(pid)
                return
            time.sleep(0.002)

    watcher = Thread(target=kill_one, daemon=True)
    watcher.start()
    found = function(*args)
    watcher.join(10)
    kept = processes_of_actors()
    _pools.close_unused(0.0)
    deadline = time.monotonic() + 30
    while processes_of_actors() and time.monotonic() < deadline:
        time.sleep(0.1)
    return Killed(found, len(killed), kept, processes_of_actors())


def test_vectors_are_the_same_on_a_cluster_that_loses_an_actor(
    cluster: RayCluster, tmp_path: Path
) -> None:
    paths = drawn(tmp_path / "images")
    local = vectors("threads", tmp_path / "local", paths)
    found = cluster.run(despite_a_kill, vectors, "ray", tmp_path / "home", paths)
    assert found.actors == 1
    assert found.at_the_end, "the actors keep their model for the next call"
    assert not found.after_their_time
    np.testing.assert_array_equal(found.result, local)
    assert len(np.unique(local, axis=0)) > IMAGES / 2, "rows in another order would be seen"


def refusal_of_a_damaged_image(home: Path, path: Path) -> str:
    with pytest.raises(IntegrityError) as refused:
        vectors("ray", home, [path])
    return str(refused.value)


def test_an_actor_reports_an_image_that_cannot_be_decoded(
    cluster: RayCluster, tmp_path: Path
) -> None:
    path = tmp_path / "half.png"
    path.write_bytes(drawn(tmp_path / "images")[0].read_bytes()[:60])
    message = cluster.run(refusal_of_a_damaged_image, tmp_path / "home", path)
    assert f"the image {str(path)!r} " in message


@dataclass(frozen=True)
class Devices(Computation[int, str]):
    """The GPUs that a worker process may use."""

    stage = "devices"

    def work(self, items: Sequence[int]) -> list[str]:
        return [os.environ.get("CUDA_VISIBLE_DEVICES", "all") for _ in items]


def devices(home: Path, gpus: float) -> list[str]:
    settings = load_settings(home=home, engine="ray", engine_gpus=gpus)
    with open_ray(settings, Devices()) as actors:
        return actors.work([1])


def test_a_worker_process_sees_the_gpu_of_its_actor_only(
    cluster: RayCluster, tmp_path: Path
) -> None:
    of_gpu = partial(cluster.run, devices, tmp_path)
    assert (of_gpu(1.0), of_gpu(0.0)) == (["0"], [""])


def release(engine: str, home: Path, street: Path) -> list[str]:
    """Return the release of a build, and its tracks; with Ray, this process loads no detector."""
    run = open_context(load_settings(home=home, engine=engine))
    spec = VideoSourceSpec(
        name="street", videos=(str(street),), licence="CC0-1.0", every_nth_frame=2
    )
    build = UFine6926Build(dataset="people", drawn=True, test_share=0, sources=(spec,))

    def make(detector: DetectorSpec) -> PersonDetector:
        assert engine != "ray"
        return build_detector(detector)

    report = run_pipeline(run, ufine6926_pipeline(make), build, profile(), no_desks)
    assert report.release_id is not None, report
    return [report.release_id, *sorted(one.id for one in find(run.store, "people", Track.kind))]


def test_a_release_is_the_same_on_a_cluster_that_loses_an_actor(
    cluster: RayCluster, tmp_path: Path
) -> None:
    street = write_short_street(tmp_path / "street", seconds=3).folder
    local = release("threads", tmp_path / "local", street)
    found = cluster.run(despite_a_kill, release, "ray", tmp_path / "home", street)
    assert found.actors == 1
    assert found.result == local


def answers(engine: str, home: Path, descriptions: Sequence[str]) -> tuple[list[str], int]:
    """Return the answers to requests, and how many calls are stored."""
    settings = load_settings(home=home, engine=engine)
    run = open_context(settings)
    spec = load_profile("builtin").rewrite.models[0]
    model: ChatModel = OnDemandChatModel(spec)
    if engine == "ray":
        model = cluster_models.chat_model(spec, settings, 4)
    ledger = RecordedChatModel(model, run.store, "people", None, run.budget)
    prompt = load_prompt(load_profile("builtin").rewrite.prompt)
    outcomes = dict(ledger.answer([request_rewrite(one, prompt, 600) for one in descriptions]))
    texts = []
    for _, outcome in sorted(outcomes.items()):
        assert isinstance(outcome, ChatAnswer), outcome
        texts.append(outcome.text)
    return texts, row_count(run.store, ModelCall)


def test_answers_are_the_same_on_a_cluster_that_loses_an_actor(
    cluster: RayCluster, tmp_path: Path
) -> None:
    people = [f"A man in a {colour} coat carries a bag." for colour in COLOURS]
    local = answers("threads", tmp_path / "local", people)
    found = cluster.run(despite_a_kill, answers, "ray", tmp_path / "home", people)
    assert found.actors == 1
    assert found.result == local == (local[0], len(people))


def edits(engine: str, home: Path, car: ChatImage) -> list[bytes]:
    """Return the car in other colours, and nothing for an edit that cannot be made."""
    spec = BuiltinEditor()
    model = build_image_editor(spec)
    if engine == "ray":
        model = cluster_models.image_editor(spec, load_settings(home=home, engine=engine))
    colours = ("blue", "green", "striped", "black")
    instructions = (f"Change the colour of the car from red to {one}." for one in colours)
    asked = [EditRequest(image=car, instruction=one, seed=1) for one in instructions]
    made = [outcome for _, outcome in model.edit(asked)]
    return [one.image.data if isinstance(one, EditedPicture) else b"" for one in made]


def test_edits_are_the_same_on_a_cluster_that_loses_an_actor(
    cluster: RayCluster, tmp_path: Path
) -> None:
    scene = Scene("park", "flat drawing", 4, (Thing("car", "red", 30, 200, 64),))
    car = ChatImage(media_type="image/jpeg", data=jpeg_of(draw_still(scene)))
    local = edits("threads", tmp_path / "local", car)
    found = cluster.run(despite_a_kill, edits, "ray", tmp_path / "home", car)
    assert found.actors == 1
    assert found.result == local
    assert [bool(one) for one in local] == [True, True, False, True]
