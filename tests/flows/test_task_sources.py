"""Facts about images from their sources, from annotations to requests and releases."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Picture
from pydantic import ValidationError

from loupe.db.entities import find, parents_of
from loupe.db.quarantine import quarantined
from loupe.demo.worlds.stills import StillsWorld, load_stills_truth, write_stills_world
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.importing import import_source
from loupe.flows.engine.pipeline import load_build, run_pipeline
from loupe.flows.engine.report import StageReport
from loupe.flows.image_facts import facts_of
from loupe.flows.recos.pipeline import recos_pipeline
from loupe.flows.recos.run import RecosRun
from loupe.flows.recos.task_images import take_images
from loupe.models.weights import installed_folder
from loupe.schemas.build import RecosBuild, SourceSpec, TaskSpec
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.profile import OpenAIChat, Profile
from loupe.schemas.provenance import Role
from loupe.schemas.quality import CaptionCheck
from loupe.schemas.records import Attribution, Caption, Image
from loupe.schemas.recos import DiscriminabilitySettings, TaskDraw
from loupe.schemas.taxonomy import RetrievalTask, in_order
from loupe.sources.rendered import FontShelf, RenderOptions
from tests.flows.recos_world import no_desks, small_profile, stills_source
from tests.servers.counting_server import CountingServer, Fault

DATASET = "known"


@pytest.fixture(scope="module")
def stills(tmp_path_factory: pytest.TempPathFactory) -> StillsWorld:
    return write_stills_world(tmp_path_factory.mktemp("stills"), seed=5, count=24)


def write_pictures(folder: Path, names: Sequence[str]) -> Path:
    """Write images of different colours."""
    for number, name in enumerate(names):
        buffer = io.BytesIO()
        Picture.new("RGB", (32, 24), (40 * number % 256, 90, 200)).save(buffer, "JPEG")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(buffer.getvalue())
    return folder


def take(run: RunContext, source: SourceSpec, **task: Any) -> StageReport:
    """Import the source and take images for a task from it."""
    entity, _ = import_source(run, source)
    values = {"task": RetrievalTask.OBJECT, "images": 9, "source": source.name, **task}
    spec = TaskSpec(**values)
    build = RecosBuild(dataset=DATASET, seed=3, sources=(source,), tasks=(spec,))
    return take_images(RecosRun(run, build, small_profile(), no_desks), spec, entity)


def facts(run: RunContext) -> dict[str, tuple[str, ...]]:
    """Return the facts about the images of the build, by path."""
    images = list(find(run.store, DATASET, Image.kind))
    known = facts_of(run.store, [one.id for one in images])
    return {one.record(Image).file_path: known.get(one.id, ()) for one in images}


def coco(folder: Path) -> SourceSpec:
    categories = {1: "person", 3: "car", 18: "dog"}
    things = {1: [18, 18], 2: [3], 3: [1], 4: []}
    content = {
        "licenses": [{"id": 1, "name": "CC BY 2.0"}],
        "images": [{"id": one, "file_name": f"{one}.jpg", "license": 1} for one in things],
        "annotations": [
            {"image_id": image, "category_id": thing}
            for image, found in things.items()
            for thing in found
        ],
        "categories": [{"id": one, "name": name} for one, name in categories.items()],
    }
    folder.mkdir(exist_ok=True)
    annotations = folder / "instances_val2017.json"
    annotations.write_text(json.dumps(content))
    write_pictures(folder, [f"{one}.jpg" for one in things])
    return SourceSpec(name="coco", format="coco-instances", annotations=annotations, images=folder)


def licensed(folder: Path) -> SourceSpec:
    people = [
        {"file_name": "a.jpg", "licence": "CC BY 4.0", "name": "Ada Lovelace", "creator": "Chalon"},
        {"file_name": "b.jpg", "name": "Charles Babbage"},
    ]
    write_pictures(folder, [str(one["file_name"]) for one in people])
    annotations = folder / "people.jsonl"
    annotations.write_text("\n".join(map(json.dumps, people)))
    return SourceSpec(
        name="people", format="Licensed_Images", annotations=annotations, images=folder
    )


def test_images_are_taken_by_category(run: RunContext, tmp_path: Path) -> None:
    report = take(run, coco(tmp_path / "coco"), categories=("Dog", "car", "unicorn"))
    assert (report.done, report.rejected) == (2, {"unknown_category": 1})
    assert facts(run) == {"1.jpg": ("There are two dogs.",), "2.jpg": ("There is a car.",)}
    (lost,) = quarantined(run.store, DATASET)
    assert lost.detail == "No usable image of coco has the category 'unicorn'."
    (draw,) = (one.record(TaskDraw) for one in find(run.store, DATASET, TaskDraw.kind))
    assert (draw.method, draw.categories) == ("categories", ("Dog", "car", "unicorn"))


def test_a_task_uses_an_image_of_two_sources_once(run: RunContext, tmp_path: Path) -> None:
    sources = []
    for name in ("ab", "abc"):
        paths = [f"{one}.jpg" for one in name]
        folder = write_pictures(tmp_path / name, paths)
        annotations = folder / "images.txt"
        annotations.write_text("\n".join(paths))
        sources.append(
            SourceSpec(
                name=name,
                format="image-list",
                annotations=annotations,
                images=folder,
                licence="CC0-1.0",
            )
        )
    assert [take(run, one).done for one in sources] == [2, 1]
    images = [one.record(Image) for one in find(run.store, DATASET, Image.kind)]
    assert len(images) == len({one.sha256 for one in images}) == 3
    details = {one.detail for one in quarantined(run.store, DATASET, "duplicate_image")}
    assert "a.jpg of abc is a.jpg of ab, an image of the task already." in details
    again = [take(run, one) for one in sources]
    assert [(one.done, one.already_done) for one in again] == [(0, 2), (0, 3)]


def test_the_licence_of_an_image_is_kept_when_it_is_taken(run: RunContext, tmp_path: Path) -> None:
    assert take(run, licensed(tmp_path / "people"), task=RetrievalTask.CELEBRITY).done == 1
    (image,) = find(run.store, DATASET, Image.kind)
    assert image.record(Image).attribution == Attribution(licence="CC BY 4.0", creator="Chalon")
    assert facts(run) == {"a.jpg": ("It shows Ada Lovelace.",)}
    (lost,) = quarantined(run.store, "people")
    assert lost.reason == "missing_licence"
    (original,) = parents_of(run.store, [image.id], Role.SAMPLED_FROM)[image.id]
    assert len(parents_of(run.store, [original], Role.KNOWN_FROM)[original]) == 1


def test_the_celebrity_task_needs_a_licence_for_each_image(tmp_path: Path) -> None:
    task = TaskSpec(task=RetrievalTask.CELEBRITY, images=1, source="coco")
    message = (
        "task celebrity: its source must state a licence for each image "
        r"\(format 'licensed-images'\); got 'coco' in format 'coco-instances'"
    )
    with pytest.raises(ValidationError, match=message):
        RecosBuild(sources=(coco(tmp_path),), tasks=(task,))
    people = licensed(tmp_path / "people")
    RecosBuild(sources=(people,), tasks=(task.model_copy(update={"source": "people"}),))


def test_conflicting_options_of_a_task_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"query": "a dog", "categories": "dog"}, "give query or categories, not both"),
        ({"source": None, "categories": "dog"}, "names, query and categories need a source"),
        ({"task": "colr"}, "captions is missing: what its captions are about; did you mean color"),
        ({"task": "colr", "captions": "colours", "source": None}, "source is missing"),
    ]
    for values, message in cases:
        with (
            subtests.test(values=values, message=message),
            pytest.raises(ValidationError, match=message),
        ):
            TaskSpec(**{"task": "code reasoning", "images": 1, "source": "coco", **values})


def test_tables_of_one_task_must_agree(tmp_path: Path) -> None:
    task = TaskSpec(task=RetrievalTask.COLOR, images=1, source="coco")
    other = TaskSpec(task=RetrievalTask.COLOR, images=1, source="people", captions="colours")
    sources = (coco(tmp_path), licensed(tmp_path / "people"))
    with pytest.raises(ValidationError, match="task color: two tables take images of the same s"):
        RecosBuild(sources=sources, tasks=(task, task.model_copy(update={"images": 2})))
    with pytest.raises(ValidationError, match="task color: its tables differ in captions or kn"):
        RecosBuild(sources=sources, tasks=(task, other))
    RecosBuild(sources=sources, tasks=(task, other.model_copy(update={"captions": None})))


def test_a_task_is_added_by_a_file(tmp_path: Path) -> None:
    file = tmp_path / "windows.toml"
    file.write_text(
        'task = "shop windows"\nsource = "town"\nquery = "a shop window"\n'
        'captions = "what is sold, and how it is displayed"\nknown = "texts"\n'
    )
    build = tmp_path / "build.toml"
    build.write_text(
        'gate = "auto"\n[[sources]]\nname = "town"\nformat = "image-list"\n'
        'annotations = "town.txt"\n'
        'images = "town"\n[[tasks]]\nfile = "windows.toml"\nimages = 3\n'
        '[[tasks]]\ntask = "color"\nimages = 3\nsource = "town"\n'
    )
    windows, colours = load_build(build, RecosBuild).tasks
    assert (windows.task, windows.query, windows.images) == ("shop windows", "a shop window", 3)
    assert windows.form.known == "texts"
    assert windows.form.captions == "what is sold, and how it is displayed"
    assert in_order([windows.task, colours.task]) == [RetrievalTask.COLOR, windows.task]
    assert RetrievalTask("shop windows") is windows.task
    file.unlink()
    with pytest.raises(ConfigurationError, match=r"task file .*windows\.toml"):
        load_build(build, RecosBuild)


def without_chinese(module: str) -> Path | None:
    return None if module == "pylopdf_fonts_zh_cn" else installed_folder(module)


def test_a_missing_font_only_skips_its_task(run: RunContext) -> None:
    drawing = RenderOptions(shelf=FontShelf(without_chinese))
    tasks = [
        TaskSpec(task=RetrievalTask.CALCULATION, images=8, pool=8),
        TaskSpec(task=RetrievalTask.TRANSLATION, images=2, pool=2),
    ]
    build = RecosBuild(dataset=DATASET, last="v0", tasks=tuple(tasks), further_rounds=0)
    report = run_pipeline(run, recos_pipeline(drawing=drawing), build, small_profile(), no_desks)
    assert report.release_id
    (left_out,) = (one for one in report.stages if one.stage == "draw text translation")
    assert left_out.rejected == {"missing_font": 1}
    (lost,) = quarantined(run.store, DATASET)
    assert lost.detail == (
        "the font 'Noto Sans SC' (package 'pylopdf-fonts-zh-cn', extra 'render') is not installed; "
        "install it with: uv pip install -e '.[render]'"
    )
    alone = build.model_copy(update={"dataset": "alone", "tasks": tuple(tasks[1:])})
    with pytest.raises(ConfigurationError, match="no task can be drawn: the font 'Noto Sans SC'"):
        run_pipeline(run, recos_pipeline(drawing=drawing), alone, small_profile(), no_desks)


FOREIGN = (
    "Ein roter Ball liegt neben einem blauen Würfel auf der grünen Wiese.",
    "A red ball and 一个蓝色的杯子 on a table.",
)


def test_captions_in_other_languages_are_rejected(
    run: RunContext, stills: StillsWorld, counting: CountingServer
) -> None:
    truths = load_stills_truth(stills.folder)[:12]
    for truth in truths:
        answer = json.dumps({"captions": [*truth.captions[:3], *FOREIGN]})
        counting.ledger.add_faults(Fault("content", text=answer))
    task = TaskSpec(task=RetrievalTask.OBJECT, images=12, source="stills")
    build = RecosBuild(dataset=DATASET, last="v0", sources=(stills_source(stills),), tasks=(task,))
    run_pipeline(run, recos_pipeline(), build, _asking(counting), no_desks)
    captions = {one.id: one for one in find(run.store, DATASET, Caption.kind)}
    assert len(captions) == 60
    foreign = {id_ for id_, one in captions.items() if one.record(Caption).text in FOREIGN}
    checks = list(find(run.store, DATASET, CaptionCheck.kind))
    doubted = parents_of(run.store, [one.id for one in checks], Role.EXAMINES)
    warnings = {doubted[one.id][0]: " ".join(one.record(CaptionCheck).warnings) for one in checks}
    assert all("must be in English" in warnings[one] for one in foreign)
    assert {captions[one].state for one in foreign} == {"rejected"}
    accepted = {id_ for id_, one in captions.items() if one.state == "accepted"}
    assert accepted  # some English captions are accepted
    assert not any(warnings[one] for one in accepted)


def _asking(server: CountingServer) -> Profile:
    """Return a profile whose captions come from a server and are not rewritten."""
    profile = small_profile(DiscriminabilitySettings(k=6, eta=0.5, rounds=0))
    model = OpenAIChat(provider="openai", name="scripted", revision="1", base_url=server.base_url)
    captioning = profile.captioning.model_copy(update={"model": model})
    return profile.model_copy(update={"captioning": captioning})
