"""Reading texts in images: rendered ones, and photographs of the OCR task."""

import io
import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Picture

from loupe.db.entities import count_entities, find
from loupe.db.quarantine import quarantined
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.recos.pipeline import recos_pipeline
from loupe.flows.recos.rendered_images import import_rendered
from loupe.flows.recos.run import RecosRun
from loupe.models.ocr import TextLine, TextReader, build_text_reader
from loupe.release.verify import verify_release
from loupe.schemas.base import sha256_of
from loupe.schemas.build import RecosBuild, SourceSpec, TaskSpec
from loupe.schemas.chat import ModelRef
from loupe.schemas.profile import Profile
from loupe.schemas.records import Caption, Image
from loupe.schemas.recos import DiscriminabilitySettings, TextReading
from loupe.schemas.taxonomy import RetrievalTask
from loupe.schemas.video import StageSettings
from loupe.sources.rendered import TRUTHS_FILE, write_rendered_collection
from loupe.sources.rendered.collection import render_tasks
from tests.flows.recos_reviewers import sizes
from tests.flows.recos_world import no_desks, small_profile

SIGNS = 4


@pytest.fixture(scope="module")
def reader() -> TextReader:
    reader = build_text_reader("pp-ocr")
    assert reader is not None
    return reader


def reading_profile() -> Profile:
    profile = small_profile(DiscriminabilitySettings(k=3, rounds=1))
    captioning = profile.captioning.model_copy(update={"text_reader": "pp-ocr"})
    return profile.model_copy(update={"captioning": captioning})


def test_an_illegible_rendered_image_is_rejected(
    run: RunContext, reader: TextReader, tmp_path: Path
) -> None:
    truths = write_rendered_collection(tmp_path, RetrievalTask.TRANSLATION, 4, 2)
    lines = [json.loads(line) for line in truths.read_text("utf-8").splitlines()]
    blank = tmp_path / lines[1]["file_path"]
    with Picture.open(blank) as picture:
        Picture.new("RGB", picture.size, "white").save(blank)
    lines[1]["sha256"] = sha256_of(blank.read_bytes())
    truths.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert truths.name == TRUTHS_FILE
    spec = SourceSpec(
        name="signs", format="rendered", annotations=truths, images=tmp_path, licence="CC0-1.0"
    )
    _, report = import_rendered(run, spec, reader=reader)
    assert (report.done, report.rejected) == (1, {"illegible_text": 1})
    (lost,) = quarantined(run.store, "signs")
    assert lost.detail == (
        f"{reader.ref} cannot read 100% of what is written in '00001.png'; at most 50% may be "
        f"unread"
    )
    assert lost.context["read"] == []


def photographs(folder: Path, signs: int = SIGNS) -> SourceSpec:
    """A source of English signs without annotations, and one image without any text."""
    folder.mkdir()
    drawn = render_tasks(RetrievalTask.TRANSLATION, 8, 60)
    truths = ((one, one.truth.truth) for one in drawn)
    english = (one for one, of in truths if of["shown"] == "en" and len(of["pairs"]) == 1)
    for number, one in zip(range(signs), english, strict=False):
        with Picture.open(io.BytesIO(one.png)) as picture:
            picture.save(folder / f"{number}.jpg", quality=90)
    Picture.new("RGB", (320, 240), (30, 120, 60)).save(folder / "wall.jpg")
    names = folder / "names.txt"
    names.write_text("".join(f"{one.name}\n" for one in sorted(folder.glob("*.jpg"))), "utf-8")
    return SourceSpec(
        name="street", format="image-list", annotations=names, images=folder, licence="CC0-1.0"
    )


def test_texts_read_in_photographs_appear_in_their_captions(
    run: RunContext, tmp_path: Path
) -> None:
    task = TaskSpec(task=RetrievalTask.OCR, images=SIGNS + 1, source="street")
    build = RecosBuild(
        dataset="read",
        last="v0",
        sources=(photographs(tmp_path / "street"),),
        tasks=(task,),
        max_unusable_share=1,
        further_rounds=0,
    )
    report = run_pipeline(run, recos_pipeline(), build, reading_profile(), no_desks)
    assert report.release is not None
    assert verify_release(report.release).problems == []
    (stage,) = (one for one in report.stages if one.stage == "read texts of v0")
    assert (stage.done, stage.rejected) == (SIGNS, {"no_text_found": 1})
    images = list(find(run.store, "read", Image.kind))
    rejected = {one.record(Image).file_path for one in images if one.state == "rejected"}
    assert rejected == {"wall.jpg"}
    settings = [one.record(StageSettings) for one in find(run.store, "read", StageSettings.kind)]
    (validated,) = (one for one in settings if one.stage == "validate_captions")
    assert len(validated.values["images"]) == SIGNS, "captions are not compared with the wall"
    readings = [one.record(TextReading) for one in find(run.store, "read", TextReading.kind)]
    captions = " ".join(one.record(Caption).text for one in find(run.store, "read", Caption.kind))
    for one in readings:
        assert any(
            f"the words “{text}” are written".casefold() in captions.casefold()
            for text in one.texts
        ), one
    assert count_entities(run.store, "read", TextReading.kind) == SIGNS


def test_similar_images_without_text_are_replaced_in_the_same_run(
    run: RunContext, tmp_path: Path
) -> None:
    class SparseReader(TextReader):
        """Finds no text in the first pictures of v1."""

        def __init__(self) -> None:
            self.ref, self._numbers = ModelRef(name="sparse", revision="1"), count(1)

        def read(self, picture: Picture.Image) -> list[TextLine]:
            number = next(self._numbers)
            is_blank = SIGNS < number <= 2 * SIGNS
            return [] if is_blank else [TextLine(f"Gate {number}", 20.0, 0.0, 90.0)]

    reader = SparseReader()

    def start(*values: Any) -> RecosRun:
        started = RecosRun(*values)
        started.reader = reader
        return started

    source = photographs(tmp_path / "street", 3 * SIGNS)
    names = tmp_path / "first.txt"
    names.write_text("".join(f"{number}.jpg\n" for number in range(SIGNS)), "utf-8")
    task = TaskSpec(task=RetrievalTask.OCR, images=SIGNS, source="street", names=names)
    build = RecosBuild(
        dataset="tasks", last="v1", sources=(source,), tasks=(task,), max_unusable_share=1
    )
    pipeline = replace(recos_pipeline(), start=start)
    once = run_pipeline(run, pipeline, build, reading_profile(), no_desks)
    before = sizes(run)
    again = run_pipeline(run, pipeline, build, reading_profile(), no_desks)
    assert (again.release_id, sizes(run)) == (once.release_id, before)
