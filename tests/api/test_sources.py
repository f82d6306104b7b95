"""Whole runs over sources in the formats of other libraries, and at addresses."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

import loupe
from loupe.db.quarantine import dropped_counts, quarantined
from loupe.db.store import Store
from loupe.flows.cli.main import app
from loupe.models.profiles.settings import Settings
from loupe.schemas.base import sha256_of
from loupe.schemas.errors import UsageError
from loupe.sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, SourceRow
from tests.servers.counting_server import CountingServer, counting_server
from tests.sources.formats.writing import huggingface, jpeg, parquet, pictures, table, webdataset
from tests.sources.test_remote import served

VISION = """
description = "A chat server on loopback that sees."

[rewrite]
[[rewrite.models]]
provider = "builtin"

[contrast.strategist]
provider = "openai"
base_url = "{url}"
name = "counting"
revision = "1"

[contrast.refiner]
provider = "openai"
base_url = "{url}"
name = "counting"
revision = "1"
"""


def built(folder: Path, home: Path, name: str, annotations: str | Path, **options: Any) -> Any:
    """Build a release of a source, and return it."""
    pipeline = loupe.Pipeline(
        "people",
        version="0.1.0",
        sources=[
            loupe.source(
                name, annotations, identity="person", licence="CC0-1.0", name="shown", **options
            )
        ],
        steps=[loupe.release()],
        folder=folder,
    )
    return pipeline.run(settings=Settings(home=home), quiet=True).release


def rows_of(release: Any) -> set[tuple[str, tuple[str, ...]]]:
    return {(row["identity"], tuple(row["captions"])) for row in release.rows()}


@pytest.mark.parametrize(
    ("name", "write"), [("parquet", parquet), ("hf", huggingface), ("webdataset", webdataset)]
)
def test_a_release_is_built_of_what_others_wrote(
    tmp_path: Path, name: str, write: Callable[..., Path]
) -> None:
    path = write(tmp_path, pictures())
    release = built(tmp_path, tmp_path / "home", name, path)
    release.verify()
    assert rows_of(release) == {(one.person, one.captions) for one in pictures()}


def test_a_release_holds_what_its_source_states_now_whatever_the_home_read_before(
    tmp_path: Path,
) -> None:
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(60 * number))
    rows = [f"{one}.jpg,Title {one},Alt {one},Painter {one},CC0-1.0,val" for one in range(3)]
    table = "\n".join(["file,title,alt,painter,rights,part", *rows])
    (tmp_path / "art.csv").write_text(table, encoding="utf-8")

    def released(home: str, version: str, **options: Any) -> Any:
        source = loupe.source("csv", "art.csv", name="art", image="file", **options)
        steps = [loupe.release()]
        made = loupe.Pipeline(
            "shown", version=version, sources=[source], steps=steps, folder=tmp_path
        )
        release = made.run(settings=Settings(home=tmp_path / home), quiet=True).release
        release.verify()
        return release

    in_words = {"licence": "Ask the museum", "permitted_by": "The museum agreed."}
    stated: list[dict[str, Any]] = [
        {"captions": ["title"], "licence": "CC-BY-4.0"},
        {"captions": ["alt"], "licence": "CC-BY-4.0"},
        {"captions": ["alt"], "split": "train", "attribution": "painter", **in_words},
        {"captions": ["title"], "licence_column": "rights", "split_column": "part"},
    ]
    for number, options in enumerate(stated):
        version = f"0.{number}.0"
        used = released("used", version, **options)
        assert used.manifest.id == released(f"fresh-{number}", version, **options).manifest.id
        if "attribution" in options:
            shown = {(row["creator"], row["licence"], *row["captions"]) for row in used.rows()}
            assert shown == {(f"Painter {one}", "Ask the museum", f"Alt {one}") for one in range(3)}
            assert "Painter 1" in (used.folder / "ATTRIBUTION.md").read_text(encoding="utf-8")


def test_a_release_names_the_table_that_it_was_made_from(tmp_path: Path) -> None:
    (tmp_path / "0.jpg").write_bytes(jpeg(60))
    (tmp_path / "1.jpg").write_bytes(jpeg(120))
    table, settings = tmp_path / "art.csv", Settings(home=tmp_path / "home")

    def released(version: str, title: str) -> Any:
        table.write_text(f"file,title\n0.jpg,{title}\n1.jpg,A lake\n", encoding="utf-8")
        source = loupe.source("csv", "art.csv", image="file", captions=["title"], licence="CC0-1.0")
        steps = [loupe.release()]
        made = loupe.Pipeline(
            "shown", version=version, sources=[source], steps=steps, folder=tmp_path
        )
        release = made.run(settings=settings, quiet=True).release
        release.verify()
        (named,) = release.manifest.sources
        assert named.annotation_sha256 == sha256_of(table.read_bytes())
        return rows_of(release)

    lake = ("1.jpg", ("A lake",))
    assert released("0.1.0", "A tower") == {("0.jpg", ("A tower",)), lake}
    assert released("0.2.0", "A castle") == {("0.jpg", ("A castle",)), lake}


def test_captions_that_are_gone_from_the_table_count_no_more(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(60 * number))
    settings = Settings(home=tmp_path / "home")

    def released(version: str, *titles: str) -> Any:
        lines = ["file,title", *(f"{number}.jpg,{title}" for number, title in enumerate(titles))]
        (tmp_path / "art.csv").write_text("\n".join(lines), encoding="utf-8")
        source = loupe.source("csv", "art.csv", image="file", captions=["title"], licence="CC0-1.0")
        gate = loupe.gate("titles", of=loupe.Caption, policy="auto")
        made = loupe.Pipeline(
            "shown",
            version=version,
            sources=[source],
            steps=[loupe.check("form", "person"), gate, loupe.release()],
            folder=tmp_path,
        )
        release = made.run(settings=settings, quiet=True).release
        with closing(Store.open(settings.database_url)) as store:
            dropped = sum(one.inputs for one in dropped_counts(store, "shown"))
        (at_gate,) = release.manifest.statistics.gates
        assert sum(count for _, count in at_gate.rejected) == dropped
        return dropped, {text for row in release.rows() for text in row["captions"]}

    good = [f"A red car in a street with number {one}" for one in "123"]
    assert released("0.1.0", "img_1.jpg", "img_2.jpg", good[2]) == (2, {good[2]})
    assert released("0.2.0", *good) == (0, set(good))
    assert released("0.3.0", "img_1.jpg", *good[1:]) == (1, set(good[1:]))


def test_an_image_whose_licence_permits_no_release_is_quarantined_on_import(
    tmp_path: Path,
) -> None:
    rights = ["CC-BY-4.0", "my own", "CC-BY-ND-4.0", "CC0-1.0"]
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(60 * number))
    lines = [f"{number}.jpg,Title {number},{one}" for number, one in enumerate(rights)]
    table = "\n".join(["file,title,rights", *lines])
    (tmp_path / "art.csv").write_text(table, encoding="utf-8")
    source = loupe.source("csv", "art.csv", captions=["title"], licence_column="rights", name="art")
    settings, steps = Settings(home=tmp_path / "home"), [loupe.release()]
    made = loupe.Pipeline("shown", version="0.1.0", sources=[source], steps=steps, folder=tmp_path)
    (checked,) = [one.detail for one in made.check() if one.subject == "source art"]
    assert "2 images left out, whose licence permits no release: 'my own', 'CC-BY-ND" in checked
    release = made.run(settings=settings, quiet=True).release
    assert {row["licence"] for row in release.rows()} == {"CC-BY-4.0", "CC0-1.0"}
    with closing(Store.open(settings.database_url)) as store:
        refused = {one.reason: one.detail for one in quarantined(store, "art")}
    assert "'1.jpg', 'my own', is not a known licence" in refused["unknown_licence"]
    assert "'2.jpg', 'CC-BY-ND-4.0', forbids a release" in refused["licence_forbids_release"]


def test_a_run_that_loses_most_of_a_source_says_so_at_its_end(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(60 * number))
    lines = [f"bird {max(2, one)},Title,{one}.jpg,{'val' if one else 'train'}" for one in range(4)]
    table = "\n".join(["species,title,photo,subset", *lines, "bird 9,Title,gone.jpg,val"])
    (tmp_path / "birds.csv").write_text(table, encoding="utf-8")
    columns: dict[str, Any] = {"identity": "species", "captions": ["title"], "image": "photo"}
    source = loupe.source(
        "csv", "birds.csv", licence="CC0-1.0", name="birds", split_column="subset", **columns
    )
    made = loupe.Pipeline(
        "shown", version="0.1.0", sources=[source], steps=[loupe.release()], folder=tmp_path
    )
    settings = Settings(home=tmp_path / "home")
    report = made.run(settings=settings, quiet=True).report
    assert report.warnings[-1] == (
        "4 of the 5 records of source birds were not imported (3 identity_in_two_splits, "
        "1 missing_image): loupe quarantine birds"
    )
    with closing(Store.open(settings.database_url)) as store:
        named = {(one.reason, one.context["field"]) for one in quarantined(store, "birds")}
    assert named == {("identity_in_two_splits", "subset"), ("missing_image", "photo")}


class Listed(loupe.Format):
    """Reads lines such as `0.jpg A title`, and counts how often it does."""

    passes: ClassVar[int] = 0

    def rows(
        self, path: Path, options: ReadOptions = DEFAULT_OPTIONS
    ) -> Iterator[SourceRow | BadRow]:
        type(self).passes += 1
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            name, title = line.split(" ", 1)
            yield SourceRow(
                index=number,
                identity=name,
                split="train",
                file_path=name,
                captions=(title,),
                positions=(0,),
            )


def test_images_that_changed_are_read_again_and_replace_the_earlier_ones(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("0.jpg First\n1.jpg Second\n2.jpg Third", encoding="utf-8")
    for folder, drawn in {"one": (0, 60, 120), "two": (0, 200)}.items():
        (tmp_path / folder).mkdir()
        for number, colour in enumerate(drawn):
            (tmp_path / folder / f"{number}.jpg").write_bytes(jpeg(colour))

    def released(home: str, version: str, images: str) -> Any:
        source = loupe.source(Listed, "list.txt", images=images, licence="CC0-1.0")
        steps = [loupe.release()]
        made = loupe.Pipeline(
            "shown", version=version, sources=[source], steps=steps, folder=tmp_path
        )
        return made.run(settings=Settings(home=tmp_path / home), quiet=True).release

    for number, images in enumerate(("one", "two", "one", "two")):
        if number == 3:  # the same folder, with other bytes
            (tmp_path / "two" / "0.jpg").write_bytes(jpeg(90))
        used = released("used", f"0.{number}.0", images)
        Listed.passes = 0
        fresh = released(f"fresh-{number}", f"0.{number}.0", images)
        assert used.manifest.id == fresh.manifest.id
        assert len(used) == len(list((tmp_path / images).iterdir()))
        assert Listed.passes == 2, "once to see whether it fits together, once to import it"
    Listed.passes = 0
    assert released("used", "0.3.0", "two").manifest.id == used.manifest.id
    assert Listed.passes == 1, "the images are looked for, and nothing is imported"


def test_an_address_gives_the_release_of_the_path(tmp_path: Path) -> None:
    path = table(tmp_path, pictures())
    here = built(tmp_path, tmp_path / "home", "csv", path)
    with served(tmp_path) as server:
        there = built(tmp_path, tmp_path / "other", "csv", f"{server}/{path.name}")
    assert rows_of(here) == {(one.person, one.captions) for one in pictures()}
    assert here.manifest.id == there.manifest.id


@pytest.fixture
def chat() -> Iterator[CountingServer]:
    with counting_server() as server:
        yield server


def test_init_writes_a_build_file_that_passes_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chat: CountingServer
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "home"))
    (tmp_path / "people").mkdir()
    parquet(tmp_path / "people", pictures())
    (tmp_path / "server.toml").write_text(VISION.format(url=chat.base_url), encoding="utf-8")
    builds = ("pipeline", "build-ufine3c", "build-ccd")
    for build, review in product(builds, ("auto", "sample:0.1", "required")):
        name = f"{build}-{review[:4]}"
        stated = ["--build", build, "--name", name, "--licence", "CC0-1.0", "--review", review]
        made = CliRunner().invoke(app, ["init", "people", *stated])
        assert made.exit_code == 0, made.output
        content = (tmp_path / f"{name}.toml").read_text(encoding="utf-8")
        assert 'annotations = "people"' in content
        assert 'identity = "person"' in content
        flow = [f"{name}.toml"] if build == "pipeline" else [build, "--config", f"{name}.toml"]
        profile = ["--profile", "server.toml"] if build == "build-ccd" else []
        assert ("--profile hosted" in made.output) is bool(profile), "it names the models it needs"
        checked = CliRunner().invoke(app, ["run", *flow, "--check", "--json", *profile])
        assert checked.stdout, repr(checked.exception)
        found = json.loads(checked.stdout)
        lacking = {one["subject"] for one in found if one["verdict"] == "lacking"}
        asks_nobody = review == "auto" or build == "pipeline"
        assert lacking == (set() if asks_nobody else {"people"}), checked.output
        again = CliRunner().invoke(app, ["init", "people", *stated])
        assert isinstance(again.exception, UsageError)
        assert str(again.exception) == f"{name}.toml exists; state another file with --out"
    missing = CliRunner().invoke(app, ["init", "people"])
    assert str(missing.exception).startswith("--build is missing; state it, or answer")


def test_init_takes_the_encoding_and_proposes_what_images_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "home"))
    rows = [("file", "text", "species", "bed")]
    for number in range(6):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(number))
        rows.append((f"{number}.jpg", f"ein grünes Blatt {number}", f"P{number // 2}", "b"))
    lines = "\n".join(";".join(row) for row in rows)
    (tmp_path / "odd.csv").write_text(lines, encoding="cp1252")
    asked = ("--encoding", "cp1252", "--delimiter", ";")
    stated = ("--build", "pipeline", "--name", "odd", "--licence", "CC0-1.0", "--review", "auto")
    made = CliRunner().invoke(app, ["init", "odd.csv", *asked, *stated])
    assert made.exit_code == 0, made.output
    content = (tmp_path / "odd.toml").read_text(encoding="utf-8")
    for line in (
        'encoding = "cp1252"',
        'delimiter = ";"',
        '# identity = "species"',
        "# test_share",
    ):
        assert f"\n{line}" in content
    unknown = CliRunner().invoke(app, ["init", "odd.csv", "--encoding", "cp12520", *stated])
    assert "cp12520" in str(unknown.exception)


def test_init_asks_for_what_is_not_stated(tmp_path: Path) -> None:
    (tmp_path / "people").mkdir()
    parquet(tmp_path / "people", pictures())
    typed = ("people", "no such build", "", "asked", "CC0-1.0", "")  # Enter takes the proposal
    screen, keyboard = pty.openpty()
    os.write(screen, "".join(f"{answer}\n" for answer in typed).encode())
    program = [sys.executable, "-m", "loupe.flows.cli.main", "init"]
    own = {**os.environ, "LOUPE_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        program, stdin=keyboard, cwd=tmp_path, env=own, capture_output=True, check=False
    )
    os.close(keyboard)
    os.close(screen)
    assert done.returncode == 0, done.stderr.decode()
    assert b"'no such build' is none of pipeline, build-ufine3c, build-ccd" in done.stderr
    content = (tmp_path / "asked.toml").read_text(encoding="utf-8")
    assert 'licence = "CC0-1.0"' in content
    assert 'policy = "auto"' in content


def test_quarantine_leaves_out_another_format_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jpg").write_bytes(jpeg(1))
    (tmp_path / "b.jpg").write_bytes(jpeg(2))
    lines = [{"file_name": "a.jpg", "text": "a red mug"}, {"file_name": "b.jpg"}]
    (tmp_path / "shop.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    (tmp_path / "shop.csv").write_text("file,title\na.jpg,a red mug\nb.jpg,\n", encoding="utf-8")
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "home"))

    def reasons_of(dataset: str, name: str, file: str, **options: Any) -> list[tuple[str, str]]:
        terms: dict[str, Any] = {"name": "shown", "licence": "CC0-1.0", "split": "train"}
        source = loupe.source(name, file, **terms, **options)
        pipeline = loupe.Pipeline(
            dataset, version="0.1.0", sources=[source], steps=[loupe.release()], folder=tmp_path
        )
        pipeline.run(quiet=True)
        shown = CliRunner().invoke(app, ["quarantine", dataset, "--json"])
        return [(one["dataset"], one["reason"]) for one in json.loads(shown.stdout)["counts"]]

    assert reasons_of("older", "json-lines", "shop.jsonl") == [("shown", "missing_field")]
    newer = reasons_of("newer", "csv", "shop.csv", image="file", captions=["title"])
    assert newer == []
