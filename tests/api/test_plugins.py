"""A plugin in a folder of installed packages: its format, step, check, page and model."""

import json
import re
import shutil
import sqlite3
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

import loupe
from loupe.annotate.interfaces.own_pages import page_problem
from loupe.annotate.interfaces.registry import interface_of
from loupe.annotate.queues import Queue, declare_queues
from loupe.api.steps import step_called
from loupe.checks.rewrites import judge_rewrite
from loupe.db.calls import cost_rows
from loupe.db.entities import find
from loupe.db.lineage import prov_json, trace
from loupe.db.quarantine import put_back, quarantined
from loupe.db.store import Store
from loupe.demo.worlds.stills import write_stills_world
from loupe.demo.worlds.writing import CITATION, LICENCE
from loupe.flows.cli.main import app
from loupe.flows.engine.ledger import RecordedChatModel
from loupe.flows.engine.pipeline import run_pipeline
from loupe.flows.engine.stopping import Budget
from loupe.flows.exploring.similar import similar_images
from loupe.models import registry
from loupe.models.foreign import Foreign, ForeignChatModel
from loupe.models.profiles.loader import load_profile
from loupe.models.profiles.settings import Settings
from loupe.models.registry import build_embedder
from loupe.models.tracking.detector import Detections, Frame
from loupe.release.export import export_release
from loupe.release.export.formats import format_called
from loupe.schemas import plugins
from loupe.schemas.chat import ChatAnswer, ChatFailure, ChatImage, ChatRequest
from loupe.schemas.content_filter import PluginContentFilter
from loupe.schemas.embedding import PluginEmbedder
from loupe.schemas.errors import ModelError, UsageError
from loupe.schemas.faithfulness import FaithfulnessReport, RewritePair
from loupe.schemas.image_edit import EditRequest, PluginEditor
from loupe.schemas.image_search import PluginSearch
from loupe.schemas.profile import FaithfulnessSettings, PluginChat, Profile
from loupe.schemas.tracking import PluginDetector, PluginPoseModel
from loupe.services.diagnosis import Verdict, check_models, check_specs
from loupe.sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, SourceRow
from tests.annotate.interfaces.regions import ticked, written
from tests.api import plugin_models
from tests.api.shop import EXAMPLES, draw_photograph
from tests.flows.ccd_reviewers import answer_all, open_office
from tests.flows.runs import context_of

FEED = """<feed>
<product sku="A" photo="a.jpg"><title>A wooden thing with many colours.</title></product>
<product sku="B"><title>No photo.</title></product>
<product sku="C" photo="c.jpg"><title>A plain thing for $5.</title></product>
</feed>"""


PROFILE = """
description = "An embedder of a plugin."

[captioning.embedder]
provider = "plugin"
name = "mean-colour"
"""


MODELS = (
    "loupe.demo.stills.contraster:StillsContraster",
    "loupe.demo.stills.editor:StillsEditor",
    "tests.api.plugin_models:EmptySearch",
    "tests.api.plugin_models:EmptyDetector",
    "tests.api.plugin_models:EmptyPose",
    "tests.api.plugin_models:NoPictures",
    "tests.api.plugin_models:Faulty",
    "tests.api.plugin_models:SometimesFaulty",
    "tests.api.plugin_models:Forgetful",
)


class Note(loupe.Record, kind="note"):
    text: str


class Colour(loupe.Record, kind="colour"):
    name: str


@loupe.step(version="1")
def note(image: loupe.Image) -> Note:
    return Note(text=f"of {image.identity}")


@loupe.step(version="1")
def unpeopled(image: loupe.Image, detector: loupe.Detector, pose: loupe.PoseModel) -> bool:
    return not detector.detect(image) and pose is not None


@loupe.step(version="1")
def any_colour(image: loupe.Image, embedder: loupe.Embedder) -> bool:
    return embedder.similarity(image, "red") > -1


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Lay the example out as an installer does, with one entry point that is broken."""
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLES / "plugin" / "loupe_shop_feed", site / "loupe_shop_feed")
    project = tomllib.loads((EXAMPLES / "plugin" / "pyproject.toml").read_text("utf-8"))["project"]
    points = project["entry-points"]
    points["loupe.steps"]["broken"] = "loupe_shop_feed:nothing_there"
    points["loupe.models"] |= dict(zip(plugin_models.NAMES, MODELS, strict=True))
    points["loupe.pages"]["a-page"] = "tests.api.plugin_models:WritingPage"
    points["loupe.profiles"] = {"a-profile": "tests.api.plugin_models:PROFILE"}
    info = site / "loupe_shop_feed-0.1.0.dist-info"
    info.mkdir()
    head = "Metadata-Version: 2.1\nName: loupe-shop-feed\nVersion: 0.1.0\n"
    (info / "METADATA").write_text(head, encoding="utf-8")
    lines = []
    for group, listed in points.items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in listed.items())]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    sys.path.insert(0, str(site))
    plugins.plugins.cache_clear()
    yield
    sys.path.remove(str(site))
    plugins.plugins.cache_clear()


def stages_of(package: str, version: str, home: Path) -> set[str]:
    """Return the stages whose work names a package at a version as its agent."""
    query = """
        select plan.stage from plan
        join activity on activity.plan_id = plan.id
        join association on association.activity_id = activity.id
        join agent on agent.id = association.agent_id
        where agent.kind = 'software' and agent.name = ? and agent.revision = ?
    """
    with closing(sqlite3.connect(home / "loupe.db")) as store:
        return {stage for (stage,) in store.execute(query, (package, version))}


@pytest.mark.usefixtures("plugin")
def test_a_plugin_has_its_parts_in_a_pipeline(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for number, name in enumerate("ac"):
        draw_photograph(tmp_path / "photos" / f"{name}.jpg", number)
    (tmp_path / "feed.xml").write_text(FEED, encoding="utf-8")
    pipeline = loupe.Pipeline(
        "feed",
        version="0.1.0",
        folder=tmp_path,
        sources=[loupe.source("shop-feed", "feed.xml", images="photos", licence="CC0-1.0")],
        steps=[
            loupe.steps.not_bare.using(least=1.0),
            any_colour,
            loupe.steps.embed(),
            loupe.steps.check("no-price"),
            loupe.gate("titles", page="text", policy="auto"),
            loupe.release(),
        ],
    )
    profile = tmp_path / "plugin.toml"
    profile.write_text(PROFILE, encoding="utf-8")
    settings = Settings(home=tmp_path / ".loupe")
    report = pipeline.run(str(profile), quiet=True, settings=settings)
    rows = list(report.release.rows())
    assert [row["identity"] for row in rows] == ["A"]  # the title of C states a price
    named = ("import_source", "select", "not_bare", "any_colour", "embed", "check")
    assert stages_of("loupe-shop-feed", "0.1.0", tmp_path / ".loupe") == set(named)
    with closing(Store.open(settings.database_url)) as store:
        query = tmp_path / "photos" / "c.jpg"
        found = similar_images(store, load_profile(str(profile)), query, ["feed"], 2)
    assert [one.name for one in found] == ["c.jpg", "a.jpg"]
    assert found[0].similarity == pytest.approx(1)
    assert "software loupe-shop-feed@0.1.0" in str(report.release.lineage(rows[0]))
    card = (report.release.folder / "README.md").read_text("utf-8")
    assert re.search(r"^\| any\\_colour \| 1 \|.*\| mean-colour@1 \|$", card, re.MULTILINE)
    form = report.release.manifest.form
    assert form is not None
    assert [one.name for one in form.steps if one.selects] == ["any_colour"], "embed only stores"
    out = tmp_path / "export"
    export_release(report.release.folder, format_called("titles"), out)
    record = json.loads((out / "export.json").read_text("utf-8"))
    assert record["format"] == "titles of loupe-shop-feed 0.1.0"
    assert (out / "titles.tsv").read_text("utf-8") == "A\tA wooden thing with many colours."


@pytest.mark.usefixtures("plugin")
def test_the_package_of_models_and_profile_is_an_agent_of_what_they_did(tmp_path: Path) -> None:
    write_stills_world(tmp_path, 7, 2)
    source = loupe.source(
        "coco-captions", "captions_test.json", images="images", licence=LICENCE, citation=CITATION
    )
    steps = loupe.steps
    pipeline = loupe.Pipeline(
        "stills",
        version="0.1.0",
        folder=tmp_path,
        sources=[source],
        steps=[
            unpeopled,
            steps.propose_contrasts(1),
            steps.search(),
            steps.edit(),
            steps.group(),
            loupe.release(),
        ],
    )
    home = tmp_path / ".loupe"
    pipeline.run(str(plugin_models.PROFILE), quiet=True, settings=Settings(home=home))
    by_models = {"propose_strategies", "search_images", "edit_images", "edit_pictures", "unpeopled"}
    assert stages_of("loupe-shop-feed", "0.1.0", home) == by_models

    pipeline.version = "0.2.0"
    report = pipeline.run("a-profile", quiet=True, settings=Settings(home=tmp_path / "other"))
    of_all = stages_of("loupe-shop-feed", "0.1.0", tmp_path / "other")
    assert of_all > by_models | {"import_source", "form_groups"}
    row = next(row for row in report.release.rows() if row["contrast"])
    assert "software loupe-shop-feed@0.1.0" in str(report.release.lineage(row))


@pytest.mark.usefixtures("plugin")
def test_an_edit_that_a_filter_refuses_is_named_and_not_stored(tmp_path: Path) -> None:
    write_stills_world(tmp_path, 7, 2)
    source = loupe.source(
        "coco-captions", "captions_test.json", images="images", licence=LICENCE, citation=CITATION
    )
    pipeline = loupe.Pipeline(
        "stills",
        version="0.1.0",
        folder=tmp_path,
        sources=[source],
        steps=[loupe.steps.propose_contrasts(1), loupe.steps.edit()],
    )
    profile = tmp_path / "filtering.toml"
    rule = '[contrast.content_filter]\nprovider = "plugin"\nname = "a-filter"\n'
    profile.write_text(plugin_models.PROFILE.read_text("utf-8") + rule, "utf-8")
    home = tmp_path / ".loupe"
    pipeline.run(str(profile), quiet=True, settings=Settings(home=home))
    with closing(Store.open(Settings(home=home).database_url)) as store:
        refused = list(quarantined(store, "stills", "refused_content"))
    assert refused
    assert "the edited image is refused by a-filter" in refused[0].detail
    assert not list(home.rglob("*.png")), "the drawn originals are JPEG, edits PNG"


@pytest.mark.usefixtures("plugin")
def test_the_package_of_a_page_is_an_agent_of_what_people_wrote_there(
    sqlite_store: Store, tmp_path: Path
) -> None:
    (tmp_path / "photos").mkdir()
    draw_photograph(tmp_path / "photos" / "a.jpg", 0)
    pipeline = loupe.Pipeline(
        "photos",
        version="0.1.0",
        folder=tmp_path,
        sources=[loupe.source("folder", "photos", licence="CC0-1.0")],
        steps=[note, loupe.gate("notes", of=Note, page="a-page", policy="required")],
    )
    run = context_of(sqlite_store, tmp_path / "home")
    office, people = open_office(run)
    declare_queues(pipeline.name, pipeline.queues())
    spec, build, profile = pipeline.spec(), pipeline.build(), load_profile("builtin")
    assert run_pipeline(run, spec, build, profile, lambda: office).waiting == 1
    changed = [ticked("verdict", "edit"), written("changed", "another")]
    assert len(answer_all(run, office, people, lambda _: changed)) == 1
    assert run_pipeline(run, spec, build, profile, lambda: office).waiting == 0
    notes = {one.record(Note).text: one.id for one in find(run.store, "photos", Note.kind)}
    with run.store.read() as connection:
        traced = prov_json(trace(connection, notes["another"]))
    assert "loupe-shop-feed" in str(traced["agent"])


@pytest.mark.usefixtures("plugin")
def test_checks_of_captions_and_of_rewrites_serve_each_other() -> None:
    contradicted = ("A man in a red coat.", ["A man in a blue coat."])
    checks = loupe.steps.check("person", "no-price")
    assert "«red»" in str(checks.rules["person"](*contradicted))
    assert checks.rules["person"]("A man in a red coat.", []) is None
    assert checks.rules["no-price"]("A mug for $5.", []) == "it states a price"
    pair = RewritePair(source="A blue mug stands on a table.", rewrite="A blue mug costs $5.")
    judged = judge_rewrite(pair, FaithfulnessSettings(), ["no-price"])
    assert isinstance(judged, FaithfulnessReport)
    assert [one.message for one in judged.findings] == ["it states a price"]


@pytest.mark.usefixtures("plugin")
def test_a_page_and_a_model_are_found_by_name() -> None:
    queue = Queue(kind="caption", interface="colour-check", name="x-y", dataset="x")
    page = interface_of(queue).config
    assert "Are the colours right?" in page
    assert 'value="$changed"' in page, "it is like that of a text"
    lacking = "the page 'text' needs a field 'text' of Colour"
    with pytest.raises(UsageError, match=lacking):
        loupe.gate("colours", of=Colour, page="a-page")
    spec = PluginEmbedder(provider="plugin", name="mean-colour")
    assert [one.detail for one in check_specs([spec])] == ["plugin loupe-shop-feed 0.1.0"]
    model = build_embedder(spec)
    (row,) = model.embed_texts(["a red mug"])
    assert row.tolist() == pytest.approx([1, 0, 0], abs=2e-3)
    assert (model.ref, model.dimension) == (spec.ref, 3)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("", "", None),
        ("</Style>", "", "its XML cannot be read: mismatched tag"),
        ("$item_html", "$item_htm", "nothing fills $item_htm; did you mean item_html?"),
        ('toName="item"', 'toName="it"', "TextArea changed has toName='it', but nothing has that"),
        ('alias="reject"', 'alias="no"', "it lacks Choices named verdict, with the aliases"),
        ('name="reason"', 'name="why"', "it lacks Choices named reason or problems"),
        ('name="changed"', 'name="text"', "it lacks a TextArea named changed"),
        ("loupe-answer", "answer", "it lacks a View with the class loupe-answer"),
        (1, "", "page_xml raised TypeError: replace() argument 1 must be str"),
    ],
)
def test_a_page_that_cannot_be_answered_on_is_named_before_a_run(
    old: Any, new: str, problem: str | None
) -> None:
    class Varied(loupe.Page):
        def page_xml(self) -> str:
            return super().page_xml().replace(old, new)

    queue = Queue(kind="caption", interface="varied", name="x-y", dataset="x")
    found = page_problem(Varied(queue))
    if problem is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith(problem)


def test_docs_name_all_that_a_page_shows_and_answers_with() -> None:
    """A page of one's own that keeps to docs/python.md is read as those of Loupe."""
    text = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
    section = text.partition("### A labelling page of your own")[2].partition("\n## ")[0]
    documented = set(re.findall(r"`\$?(\w+)`", section))
    for name in ("own-text", "own-choice", "own-compare", "own-image"):
        queue = Queue(kind="size", interface=name, name="x-y", dataset="x", choices=("a", "b"))
        page = interface_of(queue).page_xml()
        used = set(re.findall(r'(?:value="\$|<(?:Choices|TextArea) name=")(\w+)', page))
        assert used <= documented, used - documented


@pytest.mark.usefixtures("plugin")
def test_the_models_of_a_profile_that_no_package_adds_are_named_at_once() -> None:
    tables = plugin_models.PROFILE.read_text("utf-8").replace('name = "a', 'name = "aa')
    tables += """
        [captioning.model]
        provider = "plugin"
        name = "faultey"
        [contrast.embedder]
        provider = "plugin"
        name = "mean-color"
        [contrast.content_filter]
        provider = "plugin"
        name = "aa-filter"
    """
    profile = Profile.model_validate({"name": "x", **tomllib.loads(tables)})
    lacking = {
        one.subject: one.detail for one in check_models(profile) if one.verdict is Verdict.LACKING
    }
    said = "no installed package adds {!r} to loupe.models; did you mean {}?"
    assert lacking == {
        f"{kind} {name}@1": said.format(name, meant)
        for kind, name, meant in [
            ("model", "faultey", "faulty"),
            ("model", "aa-strategist", "a-strategist"),
            ("model", "aan-editor", "an-editor"),
            ("search", "aa-search", "a-search"),
            ("model", "aa-detector", "a-detector"),
            ("model", "aa-pose-model", "a-pose-model"),
            ("model", "mean-color", "mean-colour"),
            ("model", "aa-filter", "a-filter"),
        ]
    }


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda texts: 1 / 0, r"raised ZeroDivisionError: .*\(test_plugins.py, line \d+\)"),
        (lambda texts: [[1.0, 2.0]], r"a row for each of 2 inputs, of shape \(2, d\); .* \(1, 2\)"),
        (lambda texts: [[1.0], [0.0]], "returned a row that is zero or not finite"),
    ],
)
def test_an_embedder_of_a_plugin_that_fails_is_one_sentence(
    returned: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = PluginEmbedder(provider="plugin", name="mean-colour")
    model = build_embedder(spec)
    foreign = plugins.load_plugin("models", "mean-colour")
    monkeypatch.setattr(foreign, "embed_texts", lambda _, texts: returned(texts))
    with pytest.raises(ModelError, match=f"the embedder mean-colour@1 .*{message}"):
        model.embed_texts(["a mug", "a cup"])


def faulty(spec: Any, value: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the model of the plugin that returns or raises a value, and raises without a pause."""
    monkeypatch.setattr(plugin_models.Faulty, "value", value)
    monkeypatch.setattr(plugin_models.Faulty, "calls", 0)
    monkeypatch.setattr(plugin_models.Faulty, "answered", [])
    monkeypatch.setattr(Foreign, "_pause", lambda *_: None)
    monkeypatch.setattr(ForeignChatModel, "_pause", lambda *_: None)
    return registry._build(spec)


def asked(*prompts: str) -> Iterator[ChatRequest]:
    return (ChatRequest(purpose="x", prompt=one, prompt_digest="0") for one in prompts)


def invalid_answer() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        ChatAnswer(text=None, tokens_in=0, tokens_out=0, seconds=0)
    return caught.value


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("value", "reason", "detail", "calls"),
    [
        (
            invalid_answer(),
            "wrong_return",
            "^answer of the .* made a wrong ChatAnswer: text: must be a text, got None$",
            1,
        ),
        (
            KeyError("colour"),
            "raised",
            r"raised KeyError: 'colour' \(plugin_models.py, line \d+",
            1,
        ),
        ("a text", "wrong_return", r"must yield \(position, ChatAnswer or ChatFailure\)", 1),
        ((0, "a text"), "wrong_return", r"for one request it gave \(0, 'a text'\)", 1),
        (TimeoutError("slow"), "unreachable", "raised TimeoutError: slow .* in each of 3 tries", 4),
    ],
)
def test_a_chat_model_of_a_plugin_fails_for_one_request_alone(
    value: Any, reason: str, detail: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = PluginChat(provider="plugin", name="faulty")
    model = faulty(spec, value, monkeypatch)
    monkeypatch.setattr(model.sender, "may_send", lambda _: True)
    outcomes = dict(model.answer(asked("first", "bad", "third")))
    assert [outcomes[place].text for place in (0, 2)] == ["first", "third"]
    failure = outcomes[1]
    assert (failure.reason, failure.retriable) == (reason, reason == "unreachable")
    assert re.search(detail, failure.detail)
    assert "chat model faulty@1" in failure.detail
    assert not failure.is_paid, "it is asked again after a fix"
    assert plugin_models.Faulty.calls == calls


@pytest.mark.usefixtures("plugin")
def test_a_release_holds_what_a_sometimes_faulty_chat_model_answered_well(tmp_path: Path) -> None:
    things = ["mug", "cup", "raises", "bowl", "prose", "type", "jug", "number", "cut", "pot"]
    (tmp_path / "photos").mkdir()
    for number, name in enumerate(things):
        draw_photograph(tmp_path / "photos" / f"{name}.jpg", number)
    lines = ["sku,title", *(f"{name},A thing called {name}" for name in things)]
    (tmp_path / "shop.csv").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "colour.md").write_text("Which colour has it?\n\n{{ text }}", encoding="utf-8")
    profile = tmp_path / "faulty.toml"
    model = '[captioning.model]\nprovider = "plugin"\nname = "sometimes-faulty"\n'
    profile.write_text(f'description = "A faulty model."\n\n{model}', encoding="utf-8")
    source = loupe.source(
        "csv", "shop.csv", images="photos", identity="sku", captions=["title"], licence="CC0-1.0"
    )
    pipeline = loupe.Pipeline(
        "shop",
        version="0.1.0",
        folder=tmp_path,
        sources=[source],
        steps=[
            loupe.llm_step("colour.md", inputs=loupe.Caption, outputs=Colour),
            loupe.release(),
        ],
    )
    settings = Settings(home=tmp_path / ".loupe")
    plugin_models.SometimesFaulty.asked.clear()
    report = pipeline.run(str(profile), quiet=True, settings=settings)
    report.release.verify()
    named = {row["identity"]: bool(row["colour"]) for row in report.release.rows()}
    assert named == {one: one in ("mug", "cup", "bowl", "jug", "pot") for one in things}
    with closing(Store.open(settings.database_url)) as store:
        refused = {one.context["file"]: one for one in quarantined(store, "shop")}
    assert {name: one.reason for name, one in refused.items()} == {
        "raises.jpg": "raised",
        "prose.jpg": "unparseable_answer",
        "type.jpg": "wrong_type",
        "number.jpg": "wrong_return",
        "cut.jpg": "truncated_answer",
    }
    assert "KeyError: 'no colour' (plugin_models.py, line" in refused["raises.jpg"].detail
    asked = Counter(plugin_models.SometimesFaulty.asked)
    assert set(asked.values()) == {1}, "nothing is asked twice"
    again = pipeline.run(str(profile), quiet=True, settings=settings)
    assert again.release_id == report.release_id
    assert Counter(plugin_models.SometimesFaulty.asked) == asked, "no request is repeated"


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("value", [RuntimeError("no"), "a text", None])
@pytest.mark.parametrize("ahead", [1, 3])
def test_what_a_plugin_answered_is_not_asked_again(
    value: Any, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = faulty(PluginChat(provider="plugin", name="faulty"), value, monkeypatch)
    monkeypatch.setattr(plugin_models.Faulty, "ahead", ahead)
    prompts = [str(number) for number in range(24)]
    prompts[5] = prompts[13] = "bad"
    outcomes = dict(model.answer(asked(*prompts)))
    assert [getattr(outcomes[at], "text", "bad") for at in range(24)] == prompts
    sent = Counter(plugin_models.Faulty.answered)
    bad = sent.pop("bad")
    assert set(sent.values()) == {1}
    assert bad == (2 if ahead == 1 else 3), "asked alone if another had no answer yet either"


@pytest.mark.usefixtures("plugin")
def test_calls_on_which_a_plugin_fails_are_counted_once_each(sqlite_store: Store) -> None:
    model = registry.build_chat_model(PluginChat(provider="plugin", name="forgetful"))
    recorded = RecordedChatModel(model, sqlite_store, "things", None, Budget())
    outcomes = dict(recorded.answer(asked("a", "bad", "b", "nothing", "c")))
    assert [getattr(outcomes[at], "text", "") for at in (0, 2, 4)] == ["Sure!"] * 3
    raised, nothing = outcomes[1], outcomes[3]
    assert isinstance(raised, ChatFailure)
    assert isinstance(nothing, ChatFailure)
    assert (raised.reason, nothing.reason) == ("raised", "wrong_return")
    assert nothing.detail == "text_for of forgetful@1 must return a text; got None"
    (row,) = cost_rows(sqlite_store, "things")
    assert (row.calls, row.failed) == (5, 2)
    assert list(recorded.answer(asked("a", "bad"))), "after a fix it is asked again"
    (row,) = cost_rows(sqlite_store, "things")
    assert (row.calls, row.failed) == (6, 3)
    assert put_back(sqlite_store, "things", "raised") == 0, "no input was rejected yet"


@loupe.step(version="1", max_failed=1)
def colour(caption: loupe.Caption, model: loupe.ChatModel) -> Colour:
    return model.ask(f"Which colour? {caption.text}", answer=Colour)


def run_things(tmp_path: Path, *steps: Any) -> None:
    """Run steps with the forgetful model on three captioned images."""
    lines = ["file_name,text", "a.jpg,A bad red thing.", "b.jpg,A blue thing.", "c.jpg,Two mugs."]
    (tmp_path / "things.csv").write_text("\n".join(lines), encoding="utf-8")
    for number, name in enumerate("abc"):
        draw_photograph(tmp_path / f"{name}.jpg", number)
    (tmp_path / "colour.md").write_text("Which colour?\n{{ text }}", encoding="utf-8")
    model = '[captioning.model]\nprovider = "plugin"\nname = "forgetful"\n'
    (tmp_path / "forgetful.toml").write_text(f'description = "x"\n{model}', encoding="utf-8")
    source = loupe.source("csv", "things.csv", images=".", licence="CC0-1.0")
    pipeline = loupe.Pipeline(
        "things", version="0.1.0", folder=tmp_path, sources=[source], steps=steps
    )
    settings = Settings(home=tmp_path / ".loupe")
    pipeline.run(str(tmp_path / "forgetful.toml"), quiet=True, settings=settings)


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("step", [colour, None])
def test_an_answer_that_cannot_be_used_is_quoted_with_what_was_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Any
) -> None:
    if step is None:
        asking = loupe.llm_step("colour.md", inputs=loupe.Caption, outputs=Colour)
        with pytest.raises(ModelError, match=r"no JSON object. It answered: 'Sure!'; 2."):
            run_things(tmp_path, asking, loupe.release())
    else:
        run_things(tmp_path, step)
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / ".loupe"))
    shown = CliRunner().invoke(app, ["quarantine", "things", "--json"])
    found = {one["context"]["file"]: one for one in json.loads(shown.stdout)["records"]}
    assert {file: one["reason"] for file, one in found.items()} == {
        "a.jpg": "raised",
        "b.jpg": "unparseable_answer",
        "c.jpg": "unparseable_answer",
    }
    assert found["a.jpg"]["context"] == {"file": "a.jpg", "text": "A bad red thing."}
    assert found["b.jpg"]["context"]["answer"] == "Sure!"
    text = CliRunner().invoke(app, ["quarantine", "things"]).output
    assert "raised file a.jpg\n" in text
    assert "  'Two mugs.'\n  the model answered: 'Sure!'\n" in text


def test_additional_fields_of_an_answer_are_ignored() -> None:
    step = loupe.llm_step("colour.md", inputs=loupe.Caption, outputs=Colour)

    def read(text: str) -> Any:
        return step.parsed(ChatAnswer(text=text, tokens_in=0, tokens_out=0, seconds=0))

    assert read('{"name": "red", "mood": "calm"}') == (Colour(name="red"),)
    assert read('{"mood": "calm"}').detail == "name is missing."


@pytest.mark.usefixtures("plugin")
def test_what_ends_the_requests_of_a_plugin_reaches_its_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = faulty(PluginChat(provider="plugin", name="faulty"), None, monkeypatch)

    def interrupted() -> Iterator[ChatRequest]:
        yield from asked("first")
        raise RuntimeError("the caller's own")

    with pytest.raises(RuntimeError, match="the caller's own"):
        list(model.answer(interrupted()))


FRAME = Frame(0, 0.0, np.zeros((4, 4, 3), np.uint8))
PICTURE = ChatImage(media_type="image/png", data=b"")
BOXES = np.zeros((2, 4), np.float32)


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("form", "method", "inputs", "value", "message"),
    [
        (PluginDetector, "detect", (FRAME,), 1 / 3, r"detect of the detector faulty@1 must"),
        (PluginDetector, "detect", (FRAME,), Detections(BOXES, BOXES, None), "shape .n, 4. and"),
        (
            PluginDetector,
            "detect",
            (FRAME,),
            Detections(BOXES, np.full(2, 7.0, np.float32), None),
            "finite boxes and scores from 0 to 1; frame 0 has others",
        ),
        (
            PluginDetector,
            "detect",
            (FRAME,),
            OSError("no"),
            r"the detector faulty@1 raised OSError",
        ),
        (PluginPoseModel, "body", (FRAME.pixels,), None, "body of the pose model .* a Body; got"),
        (PluginContentFilter, "refusal", (PICTURE, ()), True, "must return a text or None; got b"),
        (PluginSearch, "search", ("a mug", 3), [], "must return a SearchAnswer or a SearchFailure"),
        (
            PluginSearch,
            "search",
            ("a mug", 3),
            ValueError("x"),
            "the search faulty@1 raised ValueE",
        ),
    ],
)
def test_a_model_of_a_plugin_that_fails_is_one_sentence(
    form: Any,
    method: str,
    inputs: tuple[Any, ...],
    value: Any,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = faulty(form(provider="plugin", name="faulty"), value, monkeypatch)
    with pytest.raises(ModelError, match=message):
        getattr(model, method)(*inputs)


@pytest.mark.usefixtures("plugin")
def test_searches_and_edits_of_a_plugin_that_fail_are_outcomes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = ConnectionResetError("gone")
    search = faulty(PluginSearch(provider="plugin", name="faulty"), lost, monkeypatch)
    found = search.search("a mug", 3)
    assert (found.reason, found.retriable) == ("unreachable", True)
    assert plugin_models.Faulty.calls == 3
    request = EditRequest(image=PICTURE, instruction="Make it red.", seed=0)
    for value, reason in (
        (None, "wrong_return"),
        (ValueError("x"), "raised"),
        ([], "wrong_return"),
    ):
        editor = faulty(PluginEditor(provider="plugin", name="faulty"), value, monkeypatch)
        outcomes = list(editor.edit([request, request]))
        assert [(place, one.reason) for place, one in outcomes] == [(0, reason), (1, reason)]


@pytest.mark.usefixtures("plugin")
def test_a_broken_plugin_is_named_and_left_out() -> None:
    broken = [one for one in plugins.survey_plugins() if one.fault]
    assert [one.plugin.name for one in broken] == ["broken"]
    assert "loupe-shop-feed 0.1.0 cannot be loaded" in broken[0].fault
    with pytest.raises(UsageError, match="did you mean not_bare"):
        step_called("not_bar")


class Lines(loupe.Format):
    """Reads lines such as `A a.jpg A wooden thing.`"""

    def rows(
        self, path: Path, options: ReadOptions = DEFAULT_OPTIONS
    ) -> Iterator[SourceRow | BadRow]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            identity, photo, text = line.split(" ", 2)
            yield SourceRow(
                index=number,
                identity=identity,
                split=options.split,
                file_path=photo,
                captions=(text,),
            )


class Faulty(loupe.Format):
    """Yields what the name of its file says."""

    def rows(self, path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Any:
        known = {"index": 0, "identity": "a", "file_path": "a.jpg", "captions": ("A thing.",)}
        match path.stem:
            case "nothing":
                return None
            case "dict":
                return [known]
            case "no_split":
                return [SourceRow(**known)]
            case "zero":
                return [1 / 0]
            case _:
                return [SourceRow(**known, split="test", positions=(0, 1))]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "after 0 rows it raised TypeError: 'NoneType' object is not iterable"),
        ("dict", r"row 1 must be a loupe.SourceRow or a loupe.BadRow; got {'index': 0"),
        ("no_split", r"ValidationError: SourceRow: split is missing \(test_plugins.py, line \d+\)"),
        ("positions", "row 1 has 1 captions and 2 positions"),
        ("zero", r"raised ZeroDivisionError: division by zero \(test_plugins.py, line \d+\)"),
    ],
)
def test_a_format_that_fails_is_one_sentence(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / f"{name}.txt").write_text("a", encoding="utf-8")
    source = loupe.source(Faulty, f"{name}.txt", licence="CC0-1.0")
    pipeline = loupe.Pipeline(
        "own", version="0.1.0", folder=tmp_path, sources=[source], steps=[loupe.release()]
    )
    with pytest.raises(UsageError, match=f"'faulty' cannot read {name}.txt: .*{message}"):
        pipeline.run(quiet=True, settings=Settings(home=tmp_path / ".loupe"))


def test_a_class_of_the_script_is_a_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_photograph(tmp_path / "a.jpg", 1)
    (tmp_path / "finds.txt").write_text("A a.jpg A wooden thing.\n", encoding="utf-8")

    def released(version: str) -> tuple[list[str], str]:
        source = loupe.source(Lines, "finds.txt", licence="CC0-1.0")
        pipeline = loupe.Pipeline(
            "own", version=version, folder=tmp_path, sources=[source], steps=[loupe.release()]
        )
        release = pipeline.run(quiet=True, settings=Settings(home=tmp_path / ".loupe")).release
        (row,) = release.rows()
        return row["captions"], str(release.lineage(row, caption=0))

    captions, lineage = released("0.1.0")
    assert captions == ["A wooden thing."]
    assert "format lines," in lineage
    earlier = Lines.rows

    def louder(self: Lines, path: Path, options: ReadOptions) -> Iterator[SourceRow | BadRow]:
        for row in earlier(self, path, options):
            assert isinstance(row, SourceRow)
            yield row.model_copy(update={"captions": ("A LOUD thing.",)})

    monkeypatch.setattr(Lines, "rows", louder)
    assert released("0.2.0")[0] == ["A wooden thing."], "the code changed and the version did not"
    monkeypatch.setattr(Lines, "version", "2")
    captions, lineage = released("0.3.0")
    assert captions == ["A LOUD thing."]
    assert "format lines@2," in lineage
    with pytest.raises(
        UsageError, match=r"int is not a format; expected a subclass of loupe.Format"
    ):
        loupe.source(int, "finds.txt")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="another format is called 'csv'; rename the class Csv"):
        loupe.source(type("Csv", (Lines,), {}), "finds.txt")
    with pytest.raises(UsageError, match="the format Empty needs a method rows"):
        loupe.source(type("Empty", (loupe.Format,), {}), "finds.txt")
