"""What the types of a step say, and what becomes of its results."""

import json
import os
import re
import types
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow
from typer.testing import CliRunner

import loupe
from loupe import Caption, Crop, Image, Rejection
from loupe.api import selecting
from loupe.api.parts import STEP_PREFIX, OwnRun
from loupe.api.reading import OpenedStore
from loupe.api.records import column_of
from loupe.db.entities import find, find_children
from loupe.db.quarantine import left_out_images, quarantined
from loupe.db.store import Store
from loupe.flows.cli.main import app
from loupe.models.profiles.settings import Settings
from loupe.release.diff import DifferenceCounts, compare_releases
from loupe.schemas.errors import IntegrityError, LoupeError, UsageError
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


def test_quarantine_lists_what_holds_and_the_rest_on_request(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(folder / ".loupe"))

    def listed(*options: str) -> list[tuple[str, str, int]]:
        shown = CliRunner().invoke(app, ["quarantine", *options, "--json"])
        counts = json.loads(shown.stdout)["counts"]
        return [(one["stage"], one["reason"], one["inputs"]) for one in counts]

    @loupe.step(version="1", max_failed=1)
    def refused(caption: Caption) -> Size | Rejection:
        return Rejection.of("no_size", "It has none.")

    (folder / "photos" / "P4.jpg").rename(folder / "P4.jpg")
    lacking = ("import_source", "missing_image", 1)
    first = loupe.step(version="1")(even)
    run(first, refused)
    begun = [("even", "filtered", 3), lacking, ("refused", "no_size", 2)]
    assert sorted(listed("shop")) == sorted(listed()) == begun

    run(loupe.step(version="2")(even).using(keep=1), refused, version="0.2.0")
    now = [("even", "filtered", 2), lacking, ("refused", "no_size", 3)]
    assert sorted(listed("shop")) == sorted(listed()) == now
    every = [("even", "filtered", 5), ("refused", "no_size", 5), lacking]
    assert sorted(listed("shop", "--superseded")) == sorted(every)

    run(first, refused, version="0.3.0")
    assert sorted(listed("shop")) == begun, "an earlier version that is back holds again"
    lines = (folder / "shop.csv").read_text(encoding="utf-8").splitlines()
    kept = [one for one in lines if not one.startswith("P4")]
    (folder / "shop.csv").write_text("\n".join(kept), encoding="utf-8")
    run(first, version="0.4.0")
    assert ("refused", "no_size") not in [one[:2] for one in listed("shop")], "the step is gone"
    assert lacking not in listed("shop"), "so is the row that lacked its image"


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


def test_what_cannot_be_stored_rejects_its_record_alone(run: Run) -> None:
    @loupe.step(version="1", max_failed=1)
    def odd(image: Image) -> list[Caption | Crop | Size] | Rejection:
        match image.identity:
            case "P0":
                return Rejection.of("odd", "It is \ud800.", score=np.float32(0.5), of=ValueError)
            case "P1":
                return [Caption(" ")]
            case "P2":
                return [Crop(b"no image", 1, 1)]
            case "P3":
                return [Size(pixels=2**70)]
            case "P4":
                return [Caption(None)]  # type: ignore[arg-type]
            case _:
                return (Size(pixels=1),)  # type: ignore[return-value]

    found = list(quarantined(run(odd), "shop"))
    assert {one.context["file"]: one.reason for one in found} == {
        "P0.jpg": "odd",
        "P1.jpg": "empty_caption",
        "P2.jpg": "wrong_return",
        "P3.jpg": "wrong_return",
        "P4.jpg": "raised",
    }
    assert found[0].detail == "It is \\ud800."
    assert (found[0].context["score"], found[0].context["of"]) == (0.5, str(ValueError))


def test_a_preview_shows_what_became_of_each_image_below_it(folder: Path) -> None:
    @loupe.step(version="1")
    def cut(image: Image) -> list[Crop]:
        return [Crop.of_picture(image.open(), name="part")]

    @loupe.step(version="1")
    def name(image: Image) -> list[Caption]:
        return [Caption("A part of something."), Caption("A part.")]

    @loupe.step(version="1")
    def long(caption: Caption) -> bool:
        return len(caption.text.split()) > 2

    @loupe.step(version="1")
    def measure(caption: Caption) -> Size:
        return Size(pixels=len(caption.text))

    source = loupe.source("csv", "shop.csv", images="photos", identity="sku", captions=["title"])
    pipeline = loupe.Pipeline(
        "shop",
        version="0.1.0",
        folder=folder,
        sources=[source],
        steps=[loupe.steps.filter("identity != 'P1'"), cut, name, long, measure],
    )
    preview = pipeline.preview(2)
    rows = [
        (row.depth, row.output, row.state, *row.reasons)
        for item in preview.items
        for row in item.rows()
    ]
    unmet = "filter: It does not meet identity != 'P1': identity is P1."
    assert rows == [
        (0, "P0.jpg (P0, test)", "replaced", "replaced by what cut made of it"),
        (1, "caption: thing number 0 of wood", "left out"),
        (0, "P0-part.png (P0-part, test)", "kept"),
        (1, "caption: A part of something.", "kept"),
        (2, "size: pixels=20, name=", "kept"),
        (1, "caption: A part.", "rejected", "long: The step long does not keep it."),
        (0, "P1.jpg (P1, test)", "rejected", unmet),
        (1, "caption: thing number 1 of wood", "left out"),
    ]
    for shown in (str(preview), preview._repr_html_(), preview.as_html()):
        assert shown.index("P0-part.png") < shown.index("pixels=20") < shown.index("P1.jpg")


def test_the_page_of_a_preview_is_one_file_with_pictures_and_reasons(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts are not markup, and what a check finds is a doubt about its caption, not an item."""
    monkeypatch.setenv("LOUPE_HOME", str(folder / "home"))
    (folder / "shop.py").write_text(
        "import loupe\n"
        "@loupe.step(version='1')\n"
        "def name(image: loupe.Image) -> loupe.Caption | loupe.Rejection:\n"
        "    if image.identity == 'P1':\n"
        "        raise ValueError('<b>too dark</b>')\n"
        "    return loupe.Caption('- a red cup')\n"
        "source = loupe.source('csv', 'shop.csv', images='photos', identity='sku')\n"
        "pipeline = loupe.Pipeline('shop', version='0.1.0', sources=[source],\n"
        "    steps=[name, loupe.check('form')])\n",
        encoding="utf-8",
    )
    page = folder / "preview.html"
    command = ("run", str(folder / "shop.py"), "--limit", "2", "--html", str(page))
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    written = page.read_text(encoding="utf-8")
    assert written.count('src="data:image/jpeg;base64,') == 2
    assert "ValueError: &lt;b&gt;too dark&lt;/b&gt; (shop.py, line 5)" in written
    assert "doubted" in written
    assert "caption_check" not in written
    assert "base64" not in done.stdout
    refused = CliRunner().invoke(app, ["run", str(folder / "shop.py"), "--html", str(page)])
    assert refused.exit_code == 2
    assert "--html is for previews, such as --limit 10" in refused.output


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
    (refused,) = quarantined(store, "shop")
    assert (refused.reason, refused.context["file"]) == ("ends_its_process", "P1.jpg")
    assert refused.detail.endswith("it ended the process that worked on it with exit code 1.")


@loupe.step(version="1", parallel="process")
def in_processes(image: Image) -> Size:
    if image.identity == "P1":
        os._exit(1)
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


async def _streams(image: Image) -> list[Caption]:  # type: ignore[misc]
    yield Caption("A mug.")


def _yields(image: Image) -> list[Caption]:  # type: ignore[misc]
    yield Caption("A mug.")


def _takes_any(*images: Image) -> bool:
    return True


class _Method:
    def judge(self, image: Image) -> bool:
        return True


def _gives_images(image: Image) -> list[Image]:
    return [image]


def _has_an_object(image: Image, of: object = object()) -> bool:
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
        (_gives_images, "list.loupe.Image.; expected .* or loupe.Crop for a new image"),
        (_has_an_object, "of must be a text, a number, a truth value, None, or a list or dict of"),
        (_waits, "step '_waits' is async; a step is a plain function"),
        (_streams, "step '_streams' is async; a step is a plain function"),
        (_yields, r"step '_yields' is a generator \(yield, where it must return a list\)"),
        (_takes_any, "step '_takes_any': .images takes any number of values; name each"),
        (_Method.judge, "step 'judge' is a method; define it outside the class"),
        (partial(_takes_any), "is of the type partial; a step is a plain function"),
        (Size, "step 'Size' is a class; a step is a plain function"),
    ],
)
def test_unusable_types_are_one_sentence(function: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        loupe.step(version="1")(function)


def test_a_field_that_records_need_is_refused_and_mixed_values_are_texts() -> None:
    for name in ("payload", "kind", "model_config"):
        with pytest.raises(UsageError, match=f"the field '{name}' of Odd must have another name"):
            types.new_class(
                "Odd",
                (loupe.Record,),
                {"kind": "odd"},
                lambda body, name=name: body.update(__annotations__={name: str}),  # type: ignore[misc]
            )
    with pytest.raises(UsageError, match=r"the kind of Odd must be up to 40 small .*; got 3"):
        types.new_class("Odd", (loupe.Record,), {"kind": 3})

    class Mixed(loupe.Record, kind="mixed"):
        pair: tuple[int, str]
        same: tuple[int, ...]

    assert [(one.type, one.is_list) for one in column_of(Mixed).parts] == [
        ("string", True),
        ("int64", True),
    ]


any_loupe: Any = loupe
SOURCE: dict[str, Any] = {"format": "csv", "annotations": "shop.csv"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: any_loupe.Pipeline("shop", steps=[]), "Pipeline: missing a required argument: 'v"),
        (lambda: pipeline(version=1), "Pipeline needs its version: .* got 1"),
        (lambda: pipeline(name=None), "Pipeline needs the name of a pipeline: .* got None"),
        (lambda: pipeline(steps=size), "pipeline 'shop': steps must be a list; got .*Step"),
        (lambda: pipeline(tags="toys"), "pipeline 'shop': tags must be a list; got 'toys'"),
        (lambda: pipeline().preview("two"), "at least one record of each source; got 'two'"),
        (lambda: pipeline().run(profil="x"), "run has no parameter 'profil'; did you mean profile"),
        (lambda: pipeline().run(max_cost=-1), "max_cost must be a number of at least 0; got -1"),
        (lambda: pipeline().run(max_tokens="1"), "max_tokens must be a number .*; got '1'"),
        (lambda: any_loupe.gate(3), "the name of a gate must be a text, such as 'captions'; got 3"),
        (
            lambda: any_loupe.gate("labels", of=Size, page="choice"),
            r"'choice' needs to know which field of Size people choose \(field=…\): pixels, name",
        ),
        (
            lambda: any_loupe.source("csv", None),
            "annotations must be a path or an address; got None",
        ),
        (
            lambda: any_loupe.open_release(None),
            "a release must be a folder, or a name .*; got None",
        ),
        (lambda: any_loupe.open_store("home"), "a home is named by LOUPE_HOME, not by settings"),
        (lambda: any_loupe.similar("a mug", datasets="shop"), r"must be a list: \['shop'\]"),
    ],
)
def test_arguments_that_do_not_fit_are_one_sentence(call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()


def pipeline(**stated: Any) -> Any:
    return loupe.Pipeline(
        **{"name": "shop", "version": "0.1.0", "sources": [SOURCE], "steps": []} | stated
    )


def test_what_a_release_and_store_lack_is_one_sentence(run: Run, folder: Path) -> None:
    class Either(loupe.Record, kind="either"):
        value: int | str

    @loupe.step(version="1")
    def either(image: Image) -> Either:
        number = int(image.identity[1:])
        return Either(value=number if number % 2 else str(number))

    store = run(either)
    release: Any = loupe.open_release(folder / ".loupe" / "releases" / "shop-0.1.0")
    assert release.image(1).size == (320, 240)
    opened: Any = OpenedStore(store)
    calls: list[tuple[Any, str]] = [
        (lambda: release.image({}), "a row must be one of rows.., or its number from 1; got {}"),
        (lambda: release.lineage("x"), "a row must be one of rows.., or its number from 1; got 'x"),
        (lambda: release.lineage(1, caption=9), "the row has 1 caption, counted from 0; got 9"),
        (lambda: release.score(3), "an embedder is named by a text, .*; got 3"),
        (lambda: opened.items("shop", "captoin"), "no kind is called 'captoin'; did you mean capt"),
        (lambda: opened.items("shop", int), "a kind is a text or a class of records; got"),
        (lambda: opened.items("shop", state=3), "state must be one of proposed, .*; got 3"),
        (lambda: opened.costs("shp"), "there is no dataset 'shp'; did you mean shop"),
    ]
    for call, message in calls:
        with pytest.raises(UsageError, match=message):
            call()
    values = opened.items("shop", Either).column("value").to_pylist()
    assert sorted(values) == ["0", "1", "2", "3", "4", "5"], "values of two types are texts"
    next((release.folder / "data").iterdir()).unlink()
    with pytest.raises(IntegrityError, match="cannot be read"):
        release.to_datasets()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"version": 1}, "loupe.step: version: must be a text, got 1"),
        ({"parallel": "proces"}, "parallel: .* got 'proces'; did you mean 'process'"),
        ({"workers": 0}, "workers: must be greater than or equal to 1, got 0"),
        ({"max_failed": 2}, "max_failed: must be less than or equal to 1, got 2"),
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
        ("__import__ > 1", "not a fact of images"),
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


def test_what_images_are_together_does_not_depend_on_what_a_later_step_refuses(
    run: Run, folder: Path
) -> None:
    photos = folder / "photos"
    Pillow.open(photos / "P1.jpg").save(photos / "P4.jpg", quality=80)  # P4 shows the same
    steps = loupe.near_duplicates(), loupe.steps.filter("identity != 'P1'"), loupe.steps.sample(3)
    left = []
    for _ in range(2):
        found = find(run(*steps), "shop", "image", states=("proposed", "accepted"))
        left.append([one.group for one in found])
    assert left[0] == left[1]
    assert len(left[0]) == 3
    assert not {"shop-source/P1", "shop-source/P4"} & set(left[0])


@loupe.step(version="1")
def spoken(image: Image) -> Caption:
    more = " A red umbrella stands beside it." if image.identity == "P1" else ""
    return Caption(f"A {image.captions[0]}.{more}")


def test_other_checks_decide_again_on_what_nobody_looked_at(run: Run) -> None:
    """Also if earlier checks are asked for again."""

    def kept(version: str, *checks: str) -> int:
        found = states(run(spoken, loupe.check(*checks), version=version), "caption")
        return found.count("accepted")

    everything, but_one = kept("0.1.0", "form"), kept("0.2.0", "support")
    assert everything == but_one + 1
    assert kept("0.3.0", "form") == everything
    assert kept("0.4.0", "support") == but_one
