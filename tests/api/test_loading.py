"""Pipelines are found in files, modules and TOML, and registered as deployments of Prefect."""

from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import yaml
from typer import BadParameter

import loupe
from loupe.api.deployments import register_pipelines
from loupe.api.loading import load_pipeline, pipeline_of
from loupe.api.reading import OpenedStore
from loupe.db.store import Store
from loupe.flows.cli.run import run
from loupe.models.profiles.settings import Settings
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.services.prefect_server import deployments_of
from tests.db.samples import caption, store_entities

DOCS = Path(__file__).parents[2] / "docs"
SHOP = """
import loupe
source = loupe.source("csv", "shop.csv", images="photos", identity="sku", licence="CC0-1.0")
{}
"""
ONE = 'pipeline = loupe.Pipeline("{}", version="0.1.0", sources=[source], steps=[loupe.release()])'


def write(folder: Path, *lines: str, name: str = "shop.py") -> str:
    path = folder / name
    path.write_text(SHOP.format("\n".join(lines)), encoding="utf-8")
    return str(path)


def test_a_pipeline_knows_the_folder_of_its_file(tmp_path: Path) -> None:
    pipeline = load_pipeline(write(tmp_path, ONE.format("shop")))
    assert pipeline.build().sources[0].annotations == tmp_path / "shop.csv"
    assert repr(pipeline).startswith("Pipeline shop 0.1.0\n  source shop.csv (csv)\n  release")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((), "holds no loupe.Pipeline; assign one to the name 'pipeline'"),
        (("1 / 0",), r"shop.py cannot be imported: ZeroDivisionError: division by zero .line 4."),
        (("def f(",), "shop.py cannot be imported: SyntaxError"),
        (
            (ONE.format("a").replace("pipeline", "a"), ONE.format("b").replace("pipeline", "b")),
            "holds several pipelines: name one, such as .*shop.py:a",
        ),
        ((ONE.format("no name"),), "needs the name of a pipeline: letters, digits"),
        ((ONE.format("x").replace("loupe.release()", "print"),), "'print' is no step; decorate it"),
        (
            (ONE.format("x").replace("()]", "(), loupe.release()]"),),
            "shop.py .line 4.: pipeline 'x' has two parts called 'release'",
        ),
        ((ONE.format("x").replace("[source]", "[]"),), "pipeline 'x' has no source: sources="),
        (
            ("@loupe.step(paralel='process')\ndef f(image: loupe.Image) -> bool: ...",),
            "loupe.step has no setting 'paralel'; did you mean parallel",
        ),
        (
            (ONE.format("x").replace("()]", '(), loupe.describe("x.md")]'),),
            "the release must be the last step; move it behind 'describe'",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, lines: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        load_pipeline(write(tmp_path, *lines))


def test_a_missing_prompt_is_named_with_its_folder(tmp_path: Path) -> None:
    steps = ONE.format("x").replace("loupe.release()", 'loupe.describe("descrbe.md")')
    pipeline = load_pipeline(write(tmp_path, steps))
    with pytest.raises(ConfigurationError, match=f"there is no prompt '{tmp_path}/descrbe.md'"):
        pipeline.check("builtin")


def test_a_model_of_drawn_worlds_is_refused_for_photographs(tmp_path: Path) -> None:
    steps = ONE.format("x").replace("loupe.release()", "loupe.describe()")
    pipeline = load_pipeline(write(tmp_path, steps))
    profile = tmp_path / "mine.toml"
    profile.write_text('description = "It states no model that is asked."\n', encoding="utf-8")
    lacking = [one for one in pipeline.check(str(profile)) if one.subject.startswith("model ")]
    assert "knows only drawn pictures" in lacking[0].detail
    assert "[captioning.model]" in lacking[0].remedy
    page = (DOCS / "python.md").read_text(encoding="utf-8")
    stated = page.partition("```toml\ndescription")[2].partition("```")[0]
    profile.write_text(f"description{stated}", encoding="utf-8")
    found = [one for one in pipeline.check(str(profile)) if one.subject.startswith("model ")]
    assert [one.subject for one in found] == ["model Qwen/Qwen3-VL-4B-Instruct@main"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [("identitiy", "identity"), ("caption", "captions"), ("licens", "licence")],
)
def test_a_misspelt_key_of_a_source_is_corrected(written: str, meant: str) -> None:
    source = loupe.source("csv", "shop.csv", **{written: "x"})
    pipeline = loupe.Pipeline("shop", version="0.1.0", sources=[source], steps=[loupe.release()])
    with pytest.raises(ConfigurationError, match=f"'{written}'; did you mean {meant}.$"):
        pipeline.build()


def test_a_wrong_policy_names_its_gate() -> None:
    with pytest.raises(UsageError, match="gate 'labels': a policy must be"):
        loupe.gate("labels", policy="always")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            'use = "describ"',
            r"shop.toml: step 1 .describ.: no step is called.*did you mean describe",
        ),
        ('name = "x"', 'step 1 does not say what it uses: use = "describe"'),
        ('use = "filter"\nwhere = "sharp > 1"', "asks for 'sharp', which is no fact of images"),
        (
            'use = "filter"\nwere = "1"',
            r"step 1 .filter.: unknown key 'were'; did you mean 'where'",
        ),
        ('use = "filter"', "step 1 .filter.: where is missing"),
        ('use = "release"\ntest_share = "lots"', "must be a number from 0 to 1; got 'lots'"),
        (
            'use = "near_duplicates"\nhash_bit = 4',
            "near_duplicates: unknown key 'hash_bit'; did you mean 'hash_bits'",
        ),
        ('use = "gate"\nname = "g"\npage = "txt"', "no page is called 'txt'; did you mean text"),
    ],
)
def test_a_wrong_step_in_toml_is_one_sentence(tmp_path: Path, step: str, message: str) -> None:
    path = tmp_path / "shop.toml"
    head = 'dataset = "shop"\nversion = "0.1.0"\n[[sources]]\nformat = "csv"\nannotations = "a"\n'
    path.write_text(f"{head}images = 'b'\n[[steps]]\n{step}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=message):
        load_pipeline(str(path))


def test_a_pipeline_becomes_a_deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(home=tmp_path / "home")
    monkeypatch.setenv("LOUPE_HOME", str(settings.home))
    names = register_pipelines(settings, [write(tmp_path, ONE.format("my-shop"))])
    assert names == ["my-shop/default"]
    listed = yaml.safe_load(deployments_of(settings.home).read_text("utf-8"))["deployments"]
    entrypoint = listed[-1]["entrypoint"]
    assert entrypoint == "loupe.api.deployments:my_shop"
    assert len(listed) > 1, "those of the papers are there as well"
    assert resolve_name(entrypoint).name == "my-shop"
    with pytest.raises(UsageError, match="is that of a flow of Loupe"):
        register_pipelines(settings, [write(tmp_path, ONE.format("evaluate"), name="other.py")])


def test_what_cannot_be_meant_is_refused(tmp_path: Path, sqlite_store: Store) -> None:
    path = write(tmp_path, ONE.format("shop"))
    with pytest.raises(UsageError, match="at least one record of each source; got 0"):
        load_pipeline(path).preview(0)
    with pytest.raises(BadParameter, match="--config is for the builds of papers"):
        run(path, config=tmp_path / "build.toml")
    store_entities(sqlite_store, [made := caption()])
    opened = OpenedStore(sqlite_store)
    assert repr(opened) == f"OpenedStore of {made.dataset}"
    with pytest.raises(UsageError, match=r"no state is called 'refused'"):
        opened.items(made.dataset, state="refused")
    assert set(dir(loupe.steps)) >= {"check", "describe", "filter", "near_duplicates"}
    assert "Part" not in dir(loupe.steps)


def test_steps_of_the_papers_are_stated_in_toml(tmp_path: Path) -> None:
    source = {"format": "image-list", "annotations": "list.txt", "images": "photos"}
    steps: list[dict[str, Any]] = [
        {"use": "crop_people", "least_height_px": 96},
        {"use": "rewrite", "styles": ["plain", "expert"]},
        {"use": "check_rewrites", "checks": ["form", "support"]},
        {"use": "gate", "name": "rewrites", "of": "rewrite", "policy": "auto"},
    ]
    stated = {"dataset": "x", "version": "0.1.0", "sources": [source], "steps": steps}
    lines = repr(pipeline_of(stated, tmp_path, "x.toml")).splitlines()[2:]
    assert lines == [
        "  crop_people: Image -> Crop (version 1)",
        "  rewrite: each model rewrites each caption in 2 styles",
        "  check_rewrites: form, support",
        "  gate rewrites: Rewrite, page text, policy auto",
    ]
    steps[1]["style"] = ["plain"]
    with pytest.raises(ConfigurationError, match=r"step 2 \(rewrite\): .*'style'.*styles"):
        pipeline_of(stated, tmp_path, "x.toml")
