"""What the types of a step say, and what becomes of its results."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow
from typer.testing import CliRunner

import loupe
from loupe import Caption, Crop, Image, Rejection
from loupe.api import selecting
from loupe.api.parts import STEP_PREFIX, OwnRun
from loupe.db.entities import find, find_children
from loupe.db.quarantine import left_out_images, quarantined
from loupe.db.store import Store
from loupe.flows.cli.main import app
from loupe.models.profiles.settings import Settings
from loupe.release.diff import DifferenceCounts, compare_releases
from loupe.schemas.errors import LoupeError, UsageError
from tests.api.shop import PROFILE, draw_photograph
from tests.servers.counting_server import completion_of, counting_server, prompt_text


class Size(loupe.Record, kind="size"):
    pixels: int
    name: str = ""


class Shelf(loupe.Record, kind="shelf"):
    members: int


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    lines = ["sku,title,shelf"]
    for number in range(6):
        draw_photograph(tmp_path / "photos" / f"P{number}.jpg", number)
        lines.append(f"P{number},thing number {number} of wood,{number % 2}")
    (tmp_path / "shop.csv").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


Run = Callable[..., Store]


@pytest.fixture
def run(folder: Path) -> Iterator[Run]:
    stores = []

    def run(*steps: Any, **more: Any) -> Store:
        settings = Settings(home=more.pop("home", folder / ".loupe"))
        pipeline = loupe.Pipeline(
            "shop",
            version=more.pop("version", "0.1.0"),
            folder=folder,
            sources=[
                loupe.source(
                    "csv",
                    "shop.csv",
                    images="photos",
                    identity=more.pop("identity", "sku"),
                    captions=["title"],
                    licence="CC0-1.0",
                )
            ],
            steps=[*steps, loupe.release()],
        )
        run.report = pipeline.run(quiet=True, settings=settings)  # type: ignore[attr-defined]
        stores.append(Store.open_existing(settings.database_url, settings.home))
        return stores[-1]

    yield run
    for one in stores:
        one.close()


def states(store: Store, kind: str) -> list[str]:
    return sorted(one.state for one in find(store, "shop", kind))


def fields(store: Store, form: type[loupe.Record], *wanted: str) -> list[Any]:
    found = find(store, "shop", form.kind, states=wanted or ("proposed", "accepted"))
    return [one.record(form) for one in found]


@loupe.step(version="1")
def size(image: Image) -> Size | Rejection:
    if image.identity == "P3":
        return Rejection.of("Too odd!", "It is odd.")
    return Size(pixels=image.width_px * image.height_px, name=image.identity)


def test_a_function_derives_records_and_refuses_with_a_reason(run: Run) -> None:
    store = run(size)
    assert len(fields(store, Size)) == 5
    (refused,) = quarantined(store, "shop")
    assert (refused.reason, refused.detail) == ("too_odd", "It is odd.")
    assert refused.context == {"file": "P3.jpg"}


def test_a_raised_exception_rejects_its_record_with_text_and_place(run: Run) -> None:
    @loupe.step(version="1")
    def fails(image: Image) -> Size:
        if image.identity == "P1":
            raise ValueError("no such thing")
        return Size(pixels=1)

    store = run(fails)
    assert len(fields(store, Size)) == 5
    (refused,) = quarantined(store, "shop")
    assert refused.reason == "raised"
    assert "ValueError: no such thing (test_steps.py, line" in refused.detail


def test_a_filter_that_returns_another_value_is_told_how_to_make_one(run: Run) -> None:
    @loupe.step(version="1")
    def louder(caption: Caption) -> Caption:
        return Caption(caption.text.upper()) if "number 1" in caption.text else caption

    (refused,) = quarantined(run(louder), "shop")
    assert refused.detail.endswith("a step that makes new ones returns list[Caption].")


def test_a_step_that_fails_on_most_inputs_ends_the_run(run: Run) -> None:
    @loupe.step(version="1", max_failed=0.5)
    def fails(image: Image) -> Size:
        return Size(pixel=1)  # type: ignore[call-arg]

    with pytest.raises(
        LoupeError, match=r"'fails' failed on 6 of 6 inputs, more than 50%"
    ) as caught:
        run(fails)
    first = r"the first is P0.jpg: ValidationError: Size: .*'pixel'.* .test_steps.py, line \d+."
    assert re.search(first, str(caught.value))
    assert "https" not in str(caught.value)
    with pytest.raises(LoupeError, match="'fails' failed on 6 of 6 inputs"):
        run(fails)  # again: nothing was corrected


def test_a_wrong_return_is_named(run: Run) -> None:
    @loupe.step(version="1", max_failed=1)
    def wrong(image: Image) -> Size:
        return image.identity  # type: ignore[return-value]

    (refused, *_) = quarantined(run(wrong), "shop")
    assert refused.detail == "It returned str ('P0'); its types say Size."


def test_a_filter_that_returns_nothing_is_named(run: Run) -> None:
    @loupe.step(version="1", max_failed=1)
    def forgot(image: Image) -> bool:
        return None if image.identity == "P0" else True  # type: ignore[return-value]

    store = run(even_ones, forgot)
    (faulty,) = quarantined(store, "shop", stage="forgot")
    assert faulty.reason == "wrong_return"
    (dropped, *_) = quarantined(store, "shop", stage="even_ones")
    assert dropped.reason == "filtered"


@loupe.step(version="1")
def even_ones(image: Image) -> Image | None:
    return image if int(image.identity[1:]) % 2 == 0 else None


def _class(name: str, **types: type) -> Any:
    """Return a class of the kind "same", as a file or a cell declares it."""
    of = {"__annotations__": types, "__module__": __name__, "__qualname__": name}
    metaclass: Any = type(loupe.Record)
    return metaclass(name, (loupe.Record,), of, kind="same")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (_class("Same", cap=str), _class("Same", cap=str), ""),
        (_class("Same", cap=str), _class("Other", cap=str), "are both of the kind 'same'"),
        (_class("Same", cap=str), _class("Same", cap=int), "declare both steps again"),
    ],
)
def test_a_pipeline_has_one_class_of_a_kind(first: Any, second: Any, message: str) -> None:
    def makes(name: str, form: Any) -> Any:
        def make(image: Image) -> Any:
            return form(cap="red")

        make.__annotations__["return"] = form
        return loupe.step(version="1")(make).named(name)

    def declare() -> loupe.Pipeline:
        source = loupe.source("csv", "shop.csv")
        return loupe.Pipeline(
            "x", version="0.1.0", sources=[source], steps=[makes("a", first), makes("b", second)]
        )

    if not message:
        assert len(list(declare()._columns())) == 1
        return
    with pytest.raises(UsageError, match=message):
        declare()


def test_images_without_captions_and_the_size_of_the_release_are_said(folder: Path) -> None:
    for number in range(1, 6):
        (folder / "photos" / f"P{number}.txt").write_text(f"A thing number {number}.", "utf-8")
    source = loupe.source("folder", "photos", licence="CC0-1.0")
    pipeline = loupe.Pipeline(
        "shop", version="0.1.0", folder=folder, sources=[source], steps=[loupe.release()]
    )
    settings = Settings(home=folder / ".loupe")
    for begin in ("release", "nothing was to be done: release"):
        report = pipeline.run(settings=settings, quiet=True).report
        said = "1 of 6 images has no caption and is not released: P0.jpg"
        assert report.as_json()["warnings"] == [said]
        assert report.sentence == (
            f"{begin} {str(report.release_id)[:12]} of shop: 5 images, 5 captions, "
            f"in {report.release}"
        )


def test_rows_whose_records_differ_in_their_ids_alone_are_the_same(run: Run, folder: Path) -> None:
    run(size)
    run(loupe.step(version="2")(size.function), version="0.2.0")
    releases = folder / ".loupe" / "releases"
    found = compare_releases(releases / "shop-0.1.0", releases / "shop-0.2.0")
    assert found.counts == DifferenceCounts(same=6)


def test_quarantine_shows_the_first_of_each_stage_and_counts_the_others(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @loupe.step(version="1", max_failed=1)
    def third(image: Image) -> Size | Rejection:
        return Rejection.of("third", f"It is not the third: {image.identity}.")

    @loupe.step(version="1", max_failed=1)
    def second(image: Image) -> Size | Rejection:
        return Rejection.of("second", f"It is not the second: {image.identity}.")

    run(third, second, size)
    monkeypatch.setenv("LOUPE_HOME", str(folder / ".loupe"))
    shown = CliRunner().invoke(app, ["quarantine", "shop", "--limit", "5"]).output
    reasons = re.findall(r"^(\w+) file P", shown, re.MULTILINE)
    assert sorted(reasons) == ["second", "second", "third", "third", "too_odd"]
    assert shown.endswith("… and 8 more: --limit 13\n")


def test_a_pipeline_without_release_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = loupe.source("csv", "shop.csv", images="photos", identity="sku", licence="CC0-1.0")
    pipeline = loupe.Pipeline("shop", version="0.1.0", folder=folder, sources=[source], steps=[])
    report = pipeline.run(settings=Settings(home=folder / ".loupe"))
    assert str(report) == (
        "all steps of shop are done; the pipeline has no release, so none was made"
    )
    assert "demonstration" not in capsys.readouterr().err


def even(image: Image, keep: int = 0) -> bool:
    return int(image.identity[1:]) % 2 == keep


def test_another_version_of_a_filter_reconsiders_what_the_earlier_one_dropped(run: Run) -> None:
    first = loupe.step(version="1")(even)
    assert states(run(first), "image") == ["proposed"] * 3 + ["rejected"] * 3
    second = loupe.step(version="2")(even).using(keep=1)
    store = run(second, version="0.2.0")
    left = [str(one.group) for one in find(store, "shop", "image", states=("proposed",))]
    assert sorted(left) == ["shop-source/P1", "shop-source/P3", "shop-source/P5"]
    again = run(first, version="0.3.0")
    left = [str(one.group) for one in find(again, "shop", "image", states=("proposed",))]
    assert sorted(left) == ["shop-source/P0", "shop-source/P2", "shop-source/P4"]


def test_records_of_an_earlier_version_no_longer_count(run: Run) -> None:
    def area(image: Image, factor: int = 1) -> Size:
        return Size(pixels=factor * image.width_px, name=image.identity)

    assert {one.pixels for one in fields(run(loupe.step(version="1")(area)), Size)} == {320}
    store = run(loupe.step(version="1")(area).using(factor=2), version="0.2.0")
    assert {one.pixels for one in fields(store, Size)} == {640}
    assert {one.pixels for one in fields(store, Size, "inactive")} == {320}


def test_changed_code_under_the_same_version_is_warned_of_with_both_digests(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(OwnRun, "say", lambda _, sentence: said.append(sentence))

    def one() -> Any:
        def same(image: Image) -> Size:
            return Size(pixels=1)

        return same

    def two() -> Any:
        def same(image: Image) -> Size:
            return Size(pixels=2)

        return same

    run(loupe.step(version="1")(one()))
    run(loupe.step(version="1")(two()), version="0.2.0")
    (warning,) = [sentence for sentence in said if "warning" in sentence]
    assert "the code of step 'same' changed (digest " in warning
    assert "its version is still '1'" in warning


def test_a_group_makes_one_record(run: Run) -> None:
    @loupe.step(version="1", by="identity")
    def shelf(images: list[Image]) -> Shelf:
        return Shelf(members=len(images))

    found = fields(run(shelf, identity="sku"), Shelf)
    assert [one.members for one in found] == [1] * 6


def test_crops_replace_their_image_and_are_released(run: Run) -> None:
    @loupe.step(version="1")
    def halves(image: Image) -> list[Crop]:
        left = loupe.Box(0, 0, image.width_px / 2, image.height_px)
        right = loupe.Box(image.width_px / 2, 0, image.width_px, image.height_px)
        return [Crop.of(image, one) for one in (left, right)]

    @loupe.step(version="1")
    def name(image: Image) -> Caption:
        return Caption(f"A part of {image.identity}, as wide as {image.width_px} pixels.")

    store = run(halves, name)
    assert states(store, "image") == ["proposed"] * 12 + ["rejected"] * 6
    release = run.report.release  # type: ignore[attr-defined]
    release.verify()
    rows = list(release.rows())
    assert len(rows) == 12
    assert {row["width_px"] for row in rows} == {160}
    assert {tuple(row["caption_origins"]) for row in rows} == {("drafted",)}
    assert "shop.csv" in str(release.lineage(rows[0], caption=0))


def test_a_batch_is_given_and_returned_as_a_list(run: Run) -> None:
    seen: list[int] = []

    @loupe.step(version="1", batch=4)
    def many(images: list[Image]) -> list[Size]:
        seen.append(len(images))
        return [Size(pixels=one.width_px) for one in images]

    assert len(fields(run(many), Size)) == 6
    assert sorted(seen) == [2, 4]


def test_a_step_in_processes_gives_the_same_and_outlives_its_workers(run: Run) -> None:
    store = run(in_processes)
    found = fields(store, Size)
    assert {one.pixels for one in found} == {320 * 240 * 3}
    assert str(os.getpid()) not in {one.name for one in found}
    refused = {one.context["file"]: one for one in quarantined(store, "shop")}
    assert {one.reason for one in refused.values()} == {"ends_its_process"}
    assert {file: one.detail.partition("on it: ")[2] for file, one in refused.items()} == {
        "P1.jpg": "it ended the process that worked on it with exit code 1.",
        "P4.jpg": "it made its process end by SIGKILL, which is mostly a lack of memory.",
    }


@loupe.step(version="1", parallel="process")
def in_processes(image: Image) -> Size:
    if image.identity == "P1":
        os._exit(1)
    if image.identity == "P4":
        os.kill(os.getpid(), signal.SIGKILL)
    return Size(pixels=int(image.pixels.size), name=str(os.getpid()))


def _no_types(image, other=1):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return True


def _no_return(image: Image):  # type: ignore[no-untyped-def]  # noqa: ANN202
    return True


def _unknown(image: int) -> bool:
    return True


def _gives_unknown(image: Image) -> dict[str, int]:
    return {}


async def _waits(image: Image) -> bool:
    return True


def _asks_without_default(image: Image, least: float) -> bool:
    return True


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_no_types, "step '_no_types': parameter 'image' has no type; write image: loupe.Image"),
        (_no_return, "step '_no_return' has no return type; write -> bool for a filter"),
        (_unknown, "step '_unknown': parameter 'image' is of the type int; expected loupe.Image"),
        (_gives_unknown, "step '_gives_unknown' returns the type dict.str, int.; expected bool"),
        (lambda image: True, "a lambda cannot be a step, as it has no types; write a function"),
        (_asks_without_default, "parameter 'least' must have a default, or be a model of the"),
        (_waits, "step '_waits' is async; a step is a plain function"),
        (Size, "step 'Size' is a class; a step is a plain function"),
    ],
)
def test_unusable_types_are_one_sentence(function: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        loupe.step(version="1")(function)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"version": 1}, "loupe.step: version: Input should be a valid string, got 1"),
        ({"parallel": "proces"}, "parallel: .* got 'proces'; did you mean 'process'"),
        ({"workers": 0}, "workers: Input should be greater than or equal to 1, got 0"),
        ({"max_failed": 2}, "max_failed: Input should be less than or equal to 1, got 2"),
        ({"by": "source"}, "takes one Image at a time; by= is for steps that take a list"),
    ],
)
def test_settings_that_do_not_fit_are_one_sentence(settings: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        loupe.step(**settings)(size.function)


@pytest.mark.parametrize(
    ("value", "message"), [("many", "least must be a number, as its default; got 'many'"), (4, "")]
)
def test_a_value_has_the_type_of_its_default(value: Any, message: str) -> None:
    @loupe.step(version="1")
    def wide(image: Image, least: int = 3) -> bool:
        return image.width_px >= least

    if not message:
        assert wide.using(least=value).parameters == {"least": value}
        return
    with pytest.raises(UsageError, match=message):
        wide.using(least=value)


def test_a_step_in_a_function_cannot_go_to_processes(run: Run) -> None:
    @loupe.step(version="1", parallel="process")
    def inside(image: Image) -> bool:
        return True

    with pytest.raises(UsageError, match="cannot be sent to other processes, because it is defin"):
        run(inside)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("sharpnes > 1", "did you mean sharpness"),
        ("width_px >=", "cannot be read"),
        ("open('x')", "may have comparisons"),
        ("__import__ > 1", "no fact of images"),
    ],
)
def test_a_condition_may_only_compare_facts(where: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        loupe.steps.filter(where)


def test_own_kinds_need_a_name_of_their_own() -> None:
    with pytest.raises(UsageError, match="'caption' is one of Loupe's"):

        class Mine(loupe.Record, kind="caption"):
            text: str


def test_a_step_asks_the_chat_model_of_the_profile_once(folder: Path) -> None:
    @loupe.step(version="1")
    def judged(image: Image, model: loupe.ChatModel) -> Size | Rejection:
        if image.identity == "P5":
            return Rejection.of("unasked", model.ask(f"Say why {image.identity} is odd."))
        return model.ask(f"Measure {image.identity}.", [image], answer=Size)

    def say(request: dict[str, Any]) -> dict[str, Any]:
        is_measured = "Measure" in prompt_text(request)
        text = '{"pixels": 7, "name": "x"}' if is_measured else "It is odd."
        return completion_of(request, text)

    settings = Settings(home=folder / ".loupe")
    source = loupe.source(
        "csv", "shop.csv", images="photos", identity="sku", captions=["title"], licence="CC0-1.0"
    )
    pipeline = loupe.Pipeline(
        "shop", version="0.1.0", folder=folder, sources=[source], steps=[judged, loupe.release()]
    )
    with counting_server(complete=say) as server:
        profile = folder / "server.toml"
        profile.write_text(PROFILE.format(url=server.base_url), encoding="utf-8")
        first = pipeline.run(str(profile), quiet=True, settings=settings)
        again = pipeline.run(str(profile), quiet=True, settings=settings)
        assert server.ledger.counts.total() == 6
    assert first.release_id == again.release_id
    rows = list(first.release.rows())
    assert [len(row["size"]) for row in rows] == [1, 1, 1, 1, 1, 0]
    with loupe.open_store(settings) as store:
        assert store.items("shop", Size).column("pixels").to_pylist() == [7] * 5


def test_faults_of_the_world_cost_no_record(run: Run) -> None:
    tries: list[str] = []

    @loupe.step(version="1")
    def flaky(image: Image) -> Size:
        tries.append(image.identity)
        if tries.count(image.identity) < 2:
            raise TimeoutError("no answer")
        return Size(pixels=1)

    store = run(flaky)
    assert len(fields(store, Size)) == 6
    assert list(quarantined(store, "shop")) == []


def test_a_step_that_is_moved_behind_a_writer_works_on_what_that_wrote(run: Run) -> None:
    @loupe.step(version="1")
    def words(caption: Caption) -> Size:
        return Size(pixels=len(caption.text.split()), name=caption.author or "")

    @loupe.step(version="1")
    def write(image: Image) -> Caption:
        return Caption(f"Two words about {image.identity}.")

    assert {one.name for one in fields(run(words, write), Size)} == {""}
    store = run(write, words, version="0.2.0")
    assert {one.name for one in fields(store, Size)} == {"shop.write@1"}
    (report,) = [one for one in run.report.report.stages if one.stage == "words"]  # type: ignore[attr-defined]
    assert (report.done, report.passed_over) == (6, 6)
    assert report.summary.startswith("6 done, 6 are no inputs of it")


@loupe.step(version="1", by="source")
def first_of_all(images: list[Image]) -> Size:
    return Size(pixels=len(images), name=" ".join(one.identity for one in images))


def test_a_release_does_not_depend_on_the_order_of_storage(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # P4 shows the same as P1
    Pillow.open(folder / "photos" / "P1.jpg").save(folder / "photos" / "P4.jpg", quality=80)
    ids = []
    for name, turned in (("first", list), ("second", lambda found: reversed(list(found)))):
        monkeypatch.setattr(
            selecting,
            "find_children",
            lambda *args, turned=turned: turned(find_children(*args)),
        )
        store = run(loupe.near_duplicates(), first_of_all, home=folder / name)
        (left_out,) = find(store, "shop", "image", states=("rejected",))
        assert left_out.group == "shop-source/P4"
        ((_, listed),) = left_out_images(store, STEP_PREFIX, "shop")
        assert (listed.stage, listed.detail) == ("near_duplicates", "It shows the same as P1.jpg.")
        assert [one.name for one in fields(store, Size)] == ["P0 P1 P2 P3 P5"]
        ids.append(run.report.release_id)  # type: ignore[attr-defined]
        stored = [one.group for one in find(store, "shop", "image")]
        assert stored == [f"shop-source/P{number}" for number in turned(range(6))]
    assert ids[0] == ids[1]
