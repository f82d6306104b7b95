"""A plugin in a folder of installed packages: its format, step, check, page and model."""

import json
import shutil
import sqlite3
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import loupe
from loupe.annotate.interfaces.registry import interface_of
from loupe.annotate.queues import Queue
from loupe.api.steps import step_called
from loupe.checks.rewrites import judge_rewrite
from loupe.models.profiles.settings import Settings
from loupe.models.registry import build_embedder
from loupe.release.export import export_release
from loupe.release.export.formats import format_called
from loupe.schemas import plugins
from loupe.schemas.embedding import PluginEmbedder
from loupe.schemas.errors import UsageError
from loupe.schemas.faithfulness import FaithfulnessReport, RewritePair
from loupe.schemas.profile import FaithfulnessSettings
from loupe.sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, SourceRow
from tests.api.shop import EXAMPLES, draw_photograph

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
            loupe.steps.check("no-price"),
            loupe.gate("titles", page="text", policy="auto"),
            loupe.release(),
        ],
    )
    profile = tmp_path / "plugin.toml"
    profile.write_text(PROFILE, encoding="utf-8")
    report = pipeline.run(str(profile), quiet=True, settings=Settings(home=tmp_path / ".loupe"))
    rows = list(report.release.rows())
    assert [row["identity"] for row in rows] == ["A"]  # the title of C states a price
    named = ("import_source", "select", "not_bare", "any_colour", "check")
    assert stages_of("loupe-shop-feed", "0.1.0", tmp_path / ".loupe") == set(named)
    assert "software loupe-shop-feed@0.1.0" in str(report.release.lineage(rows[0]))
    out = tmp_path / "export"
    export_release(report.release.folder, format_called("titles"), out)
    record = json.loads((out / "export.json").read_text("utf-8"))
    assert record["format"] == "titles of loupe-shop-feed 0.1.0"
    assert (out / "titles.tsv").read_text("utf-8") == "A\tA wooden thing with many colours."


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
    assert "Are the colours right?" in interface_of(queue).config
    model = build_embedder(PluginEmbedder(provider="plugin", name="mean-colour"))
    assert model.embed_texts(["a red mug"]).shape == (1, 3)


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
                positions=(0,),
            )


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
    with pytest.raises(UsageError, match=r"int is no format; expected a class of loupe.Format"):
        loupe.source(int, "finds.txt")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="another format is called 'csv'; rename the class Csv"):
        loupe.source(type("Csv", (loupe.Format,), {}), "finds.txt")
