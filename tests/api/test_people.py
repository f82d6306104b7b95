"""Pipelines that hide faces: what is stored, released and said."""

import io
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import loupe
from loupe.db.blob_check import BlobCheck
from loupe.db.blobs import BlobStore
from loupe.flows.blob_repair import repair_blobs
from loupe.flows.engine.context import open_context
from loupe.flows.engine.embedding import put_picture
from loupe.models.profiles.settings import Settings
from loupe.schemas.base import sha256_of
from tests.requirements import unavailable

PHOTOGRAPHS = Path(__file__).parents[3] / "shared" / "data" / "coco_captions"
WITH_A_FACE, WITHOUT = "6.jpg", "plain.png"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A photograph of a woman and a picture without anybody, with a table of captions."""
    pytest.importorskip("mediapipe", reason="needs weights: the extra vision")
    if not PHOTOGRAPHS.is_dir():
        unavailable("needs weights: the photographs in shared/data")
    folder = tmp_path_factory.mktemp("people")
    shutil.copy(PHOTOGRAPHS / WITH_A_FACE, folder / WITH_A_FACE)
    Image.new("RGB", (160, 120), "teal").save(folder / WITHOUT)
    lines = ["file,text", f"{WITH_A_FACE},A woman at a desk.", f"{WITHOUT},A wall."]
    (folder / "shown.csv").write_text("\n".join(lines), encoding="utf-8")
    return folder


def run(folder: Path, home: Path, version: str = "0.1.0", **options: Any) -> Any:
    source = loupe.source("csv", "shown.csv", image="file", captions=["text"], licence="CC0-1.0")
    pipeline = loupe.Pipeline(
        "seen",
        version=version,
        folder=folder,
        sources=[source],
        steps=[loupe.release()],
        **options,
    )
    return pipeline.run(settings=Settings(home=home), quiet=True).release


def test_the_original_of_a_treated_image_is_stored_nowhere(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    release = run(folder, home, faces="blur")
    release.verify()
    rows = {row["source_file_path"]: row for row in release.rows()}
    treated, plain = rows[WITH_A_FACE], rows[WITHOUT]
    assert treated["faces"]["method"] == "blur"
    assert treated["faces"]["count"] > 0
    assert plain["faces"]["count"] == 0
    original = (folder / WITH_A_FACE).read_bytes()
    assert plain["sha256"] == sha256_of((folder / WITHOUT).read_bytes())
    stored = {path.stem for path in home.rglob("*") if path.is_file()}
    assert treated["sha256"] in stored
    assert sha256_of(original) not in stored
    pixels = [
        np.asarray(Image.open(io.BytesIO(data)), float) for data in (original, _read(release))
    ]
    changed = np.abs(pixels[0] - pixels[1]).max(axis=2) > 30
    assert changed[157:220, 285:333].mean() > 0.3  # the face
    assert changed.mean() < 0.2


def _read(release: Any) -> bytes:
    row = next(row for row in release.rows() if row["source_file_path"] == WITH_A_FACE)
    data: bytes = (release.folder / row["file_path"]).read_bytes()
    return data


def test_the_card_and_the_lineage_say_what_was_done(folder: Path, tmp_path: Path) -> None:
    release = run(folder, tmp_path / "home", faces="replace")
    (counted,) = release.manifest.statistics.faces
    assert (counted.method, counted.images, counted.changed) == ("replace", 2, 1)
    card = (release.folder / "README.md").read_text(encoding="utf-8")
    assert "**Faces are painted over.**" in card
    assert f"searched 2 of 2 images, and found {counted.faces} face" in card
    assert "in 1 of them. Before an image was stored, each face in it was replaced" in card
    lineage = release.folder / "lineage" / "agents.parquet"
    assert b"mediapipe-face-detection" in lineage.read_bytes()


def test_faces_are_kept_by_default_and_a_release_does_not_mention_them(
    folder: Path, tmp_path: Path
) -> None:
    release = run(folder, tmp_path / "home")
    assert all("faces" not in row for row in release.rows())
    assert "faces" not in (release.folder / "manifest.json").read_text(encoding="utf-8")
    assert sha256_of(_read(release)) in {row["sha256"] for row in release.rows()}


def test_found_and_edited_images_are_stored_without_their_faces(
    folder: Path, tmp_path: Path
) -> None:
    data = (folder / WITH_A_FACE).read_bytes()
    picture = put_picture(BlobStore(str(tmp_path)), data, "image/jpeg", (640, 480), "blur")
    assert picture.faces is not None
    assert picture.faces.count > 0
    (stored,) = (path for path in tmp_path.rglob("*.jpg") if path.is_file())
    assert stored.stem == picture.sha256 == sha256_of(stored.read_bytes()) != sha256_of(data)


def test_a_lost_image_is_repaired_as_it_was_stored(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    release = run(folder, home, faces="blur")
    row = next(row for row in release.rows() if row["source_file_path"] == WITH_A_FACE)
    shutil.rmtree(release.folder)
    (lost,) = (path for path in home.rglob(f"{row['sha256']}*") if path.is_file())
    lost.unlink()
    settings = Settings(home=home)
    context = open_context(settings)
    with closing(context.store), BlobCheck(context.store, context.blobs) as check:
        check.run()
        assert len(list(repair_blobs(context, check, [folder]))) == 1
    assert lost.is_file()
