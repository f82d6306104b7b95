"""Pipelines are found in files, modules and TOML, and registered as deployments of Prefect."""

import re
import tomllib
from contextlib import closing
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import yaml
from typer import BadParameter
from typer.testing import CliRunner

import loupe
from loupe import Caption
from loupe import SimilarPair as Pair
from loupe.api.deployments import register_pipelines
from loupe.api.loading import load_pipeline, pipeline_of
from loupe.api.reading import OpenedStore
from loupe.db.entities import datasets_of
from loupe.db.store import Store
from loupe.flows.cli.main import app
from loupe.flows.cli.run import run
from loupe.models.profiles.settings import Settings
from loupe.schemas.build import SourceSpec
from loupe.schemas.errors import ConfigurationError, LoupeError, UsageError
from loupe.services.prefect_server import deployments_of
from tests.api.shop import draw_photograph
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


def source_of(pipeline: loupe.Pipeline) -> SourceSpec:
    (spec,) = pipeline.build().sources
    assert isinstance(spec, SourceSpec)
    return spec


def test_a_pipeline_knows_the_folder_of_its_file(tmp_path: Path) -> None:
    pipeline = load_pipeline(write(tmp_path, ONE.format("shop")))
    assert source_of(pipeline).annotations == tmp_path / "shop.csv"
    lines = ONE.format("shop").replace("[source]", "[{**source, 'images': 'a/../b'}]")
    above = write(tmp_path, lines, name="above.py")
    assert source_of(load_pipeline(above)).images == tmp_path / "b"
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
        (
            (ONE.format("x").replace("loupe.release()", "print"),),
            "'print' is not a step; decorate it",
        ),
        (
            (ONE.format("x").replace("loupe.release()", "loupe.near_duplicates"),),
            r"'near_duplicates' is not a step; call it: near_duplicates\(\)",
        ),
        (
            (ONE.format("x").replace("loupe.release()", "loupe.gate"),),
            r"'gate' is not a step; call it: gate\(…\)",
        ),
        (
            (ONE.format("x").replace("()]", "(), loupe.release()]"),),
            "shop.py .line 4.: pipeline 'x' has two parts called 'release'",
        ),
        ((ONE.format("x").replace("[source]", "[]"),), "pipeline 'x' has no source: sources="),
        (
            (ONE.format("x").replace("loupe.release()", "loupe.steps.confuse()"),),
            "step 'confuse' takes SimilarPair, which no step before it makes; put loupe.steps.pair",
        ),
        (
            (ONE.format("x").replace("()]", "(test_shar=0.3)]"),),
            r"shop.py .line 4.: release has no parameter 'test_shar'; did you mean test_share",
        ),
        (("keep = loupe.steps.sample('many')",), "sample: a value is of a wrong type .*got 'many'"),
        (("loupe.steps.track(nth=2)",), "track has no parameter 'nth'; known are name"),
        (
            ("loupe.steps.filter_tracks.using(least_height_px=9)",),
            r"filter_tracks has no using\(…\); pass its values directly: filter_tracks\(…\)",
        ),
        (("loupe.gate('g', of='tracklet')",), "gate 'g': of must be one of .*loupe.Tracklet"),
        (
            ("loupe.source('video', 'a.mp4')",),
            "no format is called 'video'; did you mean videos",
        ),
        (
            ("@loupe.step(paralel='process')\ndef f(image: loupe.Image) -> bool: ...",),
            "loupe.step has no setting 'paralel'; did you mean parallel",
        ),
        (
            (ONE.format("x").replace("()]", '(), loupe.describe("x.md")]'),),
            "the release must be the last step; move it after 'describe'",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, lines: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        load_pipeline(write(tmp_path, *lines))


def test_what_is_found_later_is_named_with_its_file_and_its_place(tmp_path: Path) -> None:
    steps = ONE.format("x").replace("loupe.release()", 'loupe.describe("descrbe.md")')
    pipeline = load_pipeline(write(tmp_path, steps))
    said = {one.subject: one.detail for one in pipeline.check("builtin")}
    assert said["step describe"] == (
        f"shop.py (line 4): there is no prompt '{tmp_path}/descrbe.md'"
    )
    source = 'dataset = "x"\nversion = "0.1.0"\nsteps = []\n[[sources]]\nformat = "csv"\n'
    stated = {
        'licence = "CC-BY-4"': r"^shop.toml: source 'a': licence 'CC-BY-4' is no known one",
        'licens = "x"': r"^shop.toml: \[\[sources\]\] 1: source 'a.csv': unknown key 'licens'",
    }
    for line, message in stated.items():
        text = f'{source}annotations = "a.csv"\n{line}\n'
        values = tomllib.loads(text)
        with pytest.raises(ConfigurationError, match=message):
            pipeline_of(values, tmp_path, "shop.toml").build()


def test_a_model_of_drawn_worlds_is_refused_for_photographs(tmp_path: Path) -> None:
    steps = ONE.format("x").replace("loupe.release()", "loupe.describe()")
    pipeline = load_pipeline(write(tmp_path, steps))
    profile = tmp_path / "mine.toml"
    profile.write_text('description = "It states no model that is asked."\n', encoding="utf-8")
    lacking = [one for one in pipeline.check(str(profile)) if one.subject.startswith("model ")]
    assert "knows only the pictures of Loupe's demonstrations" in lacking[0].detail
    assert len(lacking) == 1, "it is not listed as built in, too"
    assert "[captioning.model]" in lacking[0].remedy
    with pytest.raises(ConfigurationError, match=r"cannot start.*\n.*knows only the pictures"):
        pipeline.preview(1, str(profile))
    page = (DOCS / "python.md").read_text(encoding="utf-8")
    stated = page.partition("```toml\ndescription")[2].partition("```")[0]
    profile.write_text(f"description{stated}", encoding="utf-8")
    found = [one for one in pipeline.check(str(profile)) if one.subject.startswith("model ")]
    assert [one.subject for one in found] == ["model Qwen/Qwen3-VL-4B-Instruct@main"]


def gate_of(of: type, *before: Any) -> loupe.Pipeline:
    source = loupe.source("videos", "street.mp4", licence="CC0-1.0")
    steps = [*before, loupe.gate("looked at", of=of)]
    return loupe.Pipeline("people", version="0.1.0", sources=[source], steps=steps)


def test_a_part_is_behind_what_makes_its_things() -> None:
    track, filtered = loupe.steps.track(), loupe.steps.filter_tracks()
    makers = {loupe.Strategy: "propose_contrasts", loupe.Rewrite: "rewrite", Pair: "pair_similar"}
    for of, maker in makers.items():
        with pytest.raises(UsageError, match=f"gate .* takes {of.__name__}, .*; put .*{maker}"):
            gate_of(of, track, filtered)
    gate_of(loupe.Tracklet, track, filtered)
    with pytest.raises(UsageError, match=r"takes Tracklet, .*put loupe.steps.filter_tracks\(\)"):
        gate_of(loupe.Tracklet, track)
    people = [track, filtered, loupe.steps.form_identities()]
    with pytest.raises(UsageError, match="takes Caption, which no step before it makes"):
        gate_of(Caption, *people)
    gate_of(Caption, *people, loupe.gate("descriptions", of=loupe.Image, page="text"))
    source = loupe.source("videos", "street.mp4", licence="CC0-1.0")
    described, released = loupe.describe(), loupe.release(test_share=0.3)
    for steps, message in (
        (
            (*people[:2], described, people[2], released),
            "'describe' takes Image.*'form_identities'",
        ),
        ((*people[:2], released), r"'release' takes Image, .*loupe.steps.form_identities\(\)"),
        ((*people, released), r"'release' takes Caption, .*put loupe.describe\(\) before it"),
    ):
        with pytest.raises(UsageError, match=message):
            loupe.Pipeline("people", version="0.1.0", sources=[source], steps=steps)
    whole = loupe.Pipeline(
        "people", version="0.1.0", sources=[source], steps=[*people, described, released]
    )
    assert "30% of the people of videos are for testing, all of a video or none" in repr(whole)


def test_captions_that_nothing_writes_are_missed_before_a_run(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    draw_photograph(tmp_path / "photos" / "a.jpg", 1)
    (tmp_path / "list.txt").write_text("a.jpg\n", encoding="utf-8")
    (tmp_path / "said.csv").write_text("image,title\na.jpg,a cup of tea\n", encoding="utf-8")
    terms: dict[str, Any] = {"images": "photos", "licence": "CC0-1.0"}
    bare = loupe.source("image-list", "list.txt", **terms)
    said = loupe.source("csv", "said.csv", image="image", captions=["title"], **terms)

    def missing(*sources: Any) -> list[str]:
        steps = [loupe.steps.pair_similar(), loupe.steps.confuse()]
        pipeline = loupe.Pipeline(
            "shop", version="0.1.0", folder=tmp_path, sources=sources, steps=steps
        )
        found = pipeline.check("builtin")
        assert not [one for one in found if one.subject.startswith("source") and one.remedy]
        return [one.detail for one in found if one.subject == "captions"]

    (detail,) = missing(bare)
    assert detail.startswith("step 'confuse' needs captions: no record of the sources has one")
    assert missing(bare, said) == []


@pytest.mark.parametrize(
    ("written", "meant"),
    [("identitiy", "identity"), ("caption", "captions"), ("licens", "licence")],
)
def test_a_misspelt_key_of_a_source_is_corrected(written: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"'{written}'; did you mean {meant}.$"):
        loupe.source("csv", "shop.csv", **{written: "x"})


def test_one_table_where_a_list_of_tables_is_wanted_names_the_brackets(tmp_path: Path) -> None:
    values: dict[str, Any] = {"dataset": "shop", "version": "0.1.0", "sources": {}, "steps": []}
    with pytest.raises(
        ConfigurationError, match=r"shop.toml: sources .* write \[\[sources\]\] above"
    ):
        pipeline_of(values, tmp_path, "shop.toml")
    for wrong in ("release", {"use": 3}, {}):
        with pytest.raises(
            ConfigurationError, match=r"shop\.toml: step 1 does not say what it uses"
        ):
            pipeline_of({**values, "sources": [], "steps": [wrong]}, tmp_path, "shop.toml")


def test_a_file_that_ends_the_program_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ends.py").write_text("raise SystemExit(3)", encoding="utf-8")
    (tmp_path / "fails.py").write_text("1 / 0", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for named, message in (
        ("ends.py", "ends.py cannot be imported: SystemExit: 3"),
        ("fails:pipeline", "the module fails cannot be imported: ZeroDivisionError"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            load_pipeline(named)


def test_a_misspelt_licence_is_refused_before_anything_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "licence 'CC-BY-4.O' is no known one; did you mean 'CC-BY-4.0'?"
    stated = 'name = "photos"\nannotations = "list.txt"\nlicence = "CC-BY-4.O"\n'
    source = f'[[sources]]\nformat = "image-list"\n{stated}'
    shop = 'dataset = "shop"\nversion = "0.1.0"\n'
    (tmp_path / "shop.toml").write_text(f"{shop}steps = []\n{source}", encoding="utf-8")
    (tmp_path / "build.toml").write_text(f'gate = "auto"\n{source}', encoding="utf-8")
    (tmp_path / "list.txt").write_text("a.jpg\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "home"))
    commands = (
        ["run", "shop.toml"],
        ["run", "build-ufine3c", "--config", "build.toml", "--in-process"],
        ["import", "image-list", "list.txt", "--licence", "CC-BY-4.O"],
        ["import", "videos", "list.txt", "--licence", "CC-BY-4.O"],
        ["init", "list.txt", "--build=pipeline", "--name=shop", "--licence=CC-BY-4.O"],
    )
    for command in commands:
        refused = CliRunner().invoke(app, command)
        assert isinstance(refused.exception, LoupeError), refused.output
        assert "did you mean 'CC-BY-4.0'?" in str(refused.exception)
    photos = loupe.source("image-list", "list.txt", licence="CC-BY-4.O")
    with pytest.raises(LoupeError, match=re.escape(said)):
        loupe.Pipeline("shop", version="0.1.0", folder=tmp_path, sources=[photos], steps=[]).run()
    with closing(Store.open(Settings().database_url)) as store:
        assert datasets_of(store) == []


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
        ('use = "relase"', "no step is called 'relase'; did you mean release"),
        ('name = "x"', 'step 1 does not say what it uses: use = "describe"'),
        ('use = "filter"\nwhere = "sharp > 1"', "asks for 'sharp', which is not a fact of images"),
        (
            'use = "filter"\nwere = "1"',
            r"step 1 .filter.: filter has no parameter 'were'; did you mean where",
        ),
        ('use = "filter"', "step 1 .filter.: filter: missing a required argument: 'where'"),
        ('use = "release"\ntest_share = "lots"', "must be a number from 0 to 1; got 'lots'"),
        (
            'use = "near_duplicates"\nhash_bit = 4',
            "near_duplicates: unknown key 'hash_bit'; did you mean 'hash_bits'",
        ),
        (
            'use = "gate"\nname = "g"\nof = "tracklets"',
            "there is no such kind; did you mean tracklet",
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
    assert list(names.values()) == ["my-shop/default"]
    listed = yaml.safe_load(deployments_of(settings.home).read_text("utf-8"))["deployments"]
    entrypoint = listed[-1]["entrypoint"]
    assert entrypoint == "loupe.api.deployments:my_shop"
    assert len(listed) > 1, "those of the papers are there as well"
    assert resolve_name(entrypoint).name == "my-shop"
    with pytest.raises(UsageError, match="is that of a flow of Loupe"):
        register_pipelines(settings, [write(tmp_path, ONE.format("evaluate"), name="other.py")])


def test_a_pipeline_that_cannot_be_used_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = ONE.format("good").replace("pipeline", "good")
    bad = ONE.format("bad").replace("pipeline", "bad").replace("[source]", "[]")
    gate = 'labels = loupe.gate("labels", policy="always")'
    after = ONE.format("after").replace("pipeline", "after").replace("loupe.release()", "labels")
    both = write(tmp_path, bad, gate, after, good, name="both.py")
    said: list[str] = []
    assert load_pipeline(f"{both}:good", said.append).name == "good"
    assert len(said) == 2
    assert re.match(r"warning: .*both.py \(line 4\): pipeline 'bad' has no source", said[0])
    with pytest.raises(ConfigurationError, match=r"line 5.: gate 'labels': a policy must be"):
        load_pipeline(f"{both}:after")
    with pytest.raises(ConfigurationError, match="pipeline 'bad' has no source"):
        load_pipeline(both)
    settings = Settings(home=tmp_path / "home")
    monkeypatch.setenv("LOUPE_HOME", str(settings.home))
    asked = [f"{both}:bad", f"{both}:good"]
    said.clear()
    assert register_pipelines(settings, asked, said.append) == {asked[1]: "good/default"}
    assert said[0].startswith(f"{asked[0]} is left out: ")
    Path(both).unlink()
    said.clear()
    assert register_pipelines(settings, [write(tmp_path, ONE.format("other"))], said.append)
    assert said == [f"good/default is left out: there is no file {both}"]


def test_an_earlier_value_does_not_stand_for_one_that_is_refused(tmp_path: Path) -> None:
    step = "@loupe.step(version='1')\ndef keep(image: loupe.Image) -> bool:\n    return True\n"
    changed = "keep = keep.using(most=3)\n"
    pipeline = ONE.format("shop").replace("loupe.release()", "keep, loupe.release()")
    path = write(tmp_path, f"import loupe\n{step}{changed}{pipeline}")
    with pytest.raises(ConfigurationError, match="step 'keep' has no parameter 'most'"):
        load_pipeline(path)


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
    said = str(loupe.steps.crop_people.__doc__).partition(".\n")[0]
    lines = repr(pipeline_of(stated, tmp_path, "x.toml")).splitlines()[2:]
    assert [one.partition(" (version ")[0] for one in lines] == [
        f"  crop_people: Image -> Crop; least_height_px=96; {said}",
        "  rewrite: each model rewrites each caption in the styles plain, expert",
        "  check_rewrites: form, support",
        "  gate rewrites: Rewrite, page rewrite-revision, policy auto",
    ]
    steps[1]["style"] = ["plain"]
    with pytest.raises(ConfigurationError, match=r"step 2 \(rewrite\): .*'style'.*styles"):
        pipeline_of(stated, tmp_path, "x.toml")
