"""Vectors of images on a cluster: two nodes with a GPU each, as far as Ray can tell."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import numpy as np
import psutil
import pytest
from PIL import Image

from loupe.flows.engine.context import open_context
from loupe.flows.engine.embedding import CachedEmbedder, build_embedder, image_file
from loupe.flows.engine.programs import Computation
from loupe.flows.engine.ray import open_ray
from loupe.flows.engine.report import LineProgress
from loupe.models.embedding import ImageTextEmbedder, Vectors
from loupe.models.profiles.settings import load_settings
from loupe.schemas.base import sha256_of
from loupe.schemas.embedding import BuiltinEmbedder, EmbeddingModelSpec
from loupe.schemas.errors import IntegrityError
from tests.flows.ray_cluster import RayCluster, ray_cluster

IMAGES = 200


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
    return embedder.embed_images([image_file(sha256_of(one.read_bytes()), one) for one in paths])


class Killed(NamedTuple):
    vectors: Vectors
    actors: int


def vectors_despite_a_kill(home: Path, paths: Sequence[Path]) -> Killed:
    """Kill the first actor that has started a process for its work."""
    killed: list[int] = []

    def kill_one() -> None:
        while not killed:
            for process in psutil.process_iter(["name", "cmdline"]):
                if "ray::Actor" in " ".join(process.info["cmdline"] or ()) and process.children():
                    process.kill()
                    killed.append(process.pid)
                    return
            time.sleep(0.002)

    watcher = Thread(target=kill_one, daemon=True)
    watcher.start()
    found = vectors("ray", home, paths)
    watcher.join(10)
    return Killed(found, len(killed))


def test_vectors_are_the_same_on_a_cluster_that_loses_an_actor(
    cluster: RayCluster, tmp_path: Path
) -> None:
    paths = drawn(tmp_path / "images")
    local = vectors("threads", tmp_path / "local", paths)
    found = cluster.run(vectors_despite_a_kill, tmp_path / "home", paths)
    assert found.actors == 1
    np.testing.assert_array_equal(found.vectors, local)
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
