import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from loupe.db.entities import AgentRef, NewDecision
from loupe.db.releases import list_releases, store_release
from loupe.db.work import register_plan
from loupe.release import build as build_module
from loupe.release.build import build_release
from loupe.release.format.manifest import read_manifest
from loupe.release.lineage import TABLES
from loupe.release.rebuild import rebuild_release
from loupe.release.verify import verify_release
from loupe.schemas.base import Split
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.records import Granularity
from tests.release.worlds import (
    DATASET,
    LLAMA,
    PERSON,
    SOURCES,
    Composer,
    World,
    decide,
    picture,
    released_entities,
    source,
    store_world,
)


def content_of(folder: Path) -> dict[str, bytes]:
    """Contents of all files below a folder, by relative path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def rows_of(folder: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads((folder / f"{DATASET}.json").read_text("utf-8"))
    return rows


def build(world: World, out: Path, version: str = "1.0.0") -> Path:
    return build_release(world.store, world.blobs, DATASET, version, out).folder


def test_a_release_contains_exactly_the_expected_files(sound: Path) -> None:
    assert sorted(content_of(sound)) == sorted(
        [
            "CITATION.cff",
            "README.md",
            "croissant.json",
            "data/test-00000-of-00001.parquet",
            *(f"images/{number}.jpg" for number in range(1, 13)),
            *(f"lineage/{table.name}.parquet" for table in TABLES),
            "manifest.json",
            "ufine3c.json",
            "words.svg",
        ]
    )
    assert sorted(path.name for path in sound.parent.iterdir()) == ["out", "world"]


def test_rows_are_ordered_and_numbered_by_content(sound: Path) -> None:
    rows = rows_of(sound)
    assert [row["id"] for row in rows] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    assert [row["file_path"] for row in rows] == [f"images/{n}.jpg" for n in range(1, 13)]
    assert list(rows[0]) == ["id", "source", "split", "file_path", "captions"]
    assert {row["split"] for row in rows} == {"test"}
    assert [row["source"] for row in rows[::4]] == ["CUHK-PEDES", "ICFG-PEDES", "UFine6926"]
    table = pq.read_table(sound / "data/test-00000-of-00001.parquet")
    assert table["identity"].to_pylist()[:4] == ["9", "9", "10", "10"]


def test_captions_reflect_every_kind_of_decision(sound: Path) -> None:
    rows = rows_of(sound)
    tall = "A tall person {} in a blue coat. "
    short = "A short person {} in a blue coat. "

    def captions(number: int, *endings: str) -> list[str]:
        originals = [tall.format(number), short.format(number)]
        return originals + [ending.format(text) for text in originals for ending in endings]

    again, seen = "{} Said again.", "Seen is: {}"
    assert rows[0]["captions"] == captions(0, again, seen)  # accepted by a person
    assert rows[1]["captions"] == captions(1, again, "{} Put right.")  # edited by a person
    assert rows[2]["captions"] == captions(2, again)  # rejected
    assert rows[3]["captions"] == captions(3, again)  # undecided


def test_parquet_rows_contain_authors_entities_and_reviews(sound: Path) -> None:
    second = pq.read_table(sound / "data/test-00000-of-00001.parquet").to_pylist()[1]
    assert second["caption_authors"] == [
        "CUHK-PEDES",
        "CUHK-PEDES",
        "Qwen/Qwen-14B-Chat@abc",
        "annotator-7",
        "Qwen/Qwen-14B-Chat@abc",
        "annotator-7",
    ]
    assert second["caption_reviewed"] == [False, False, False, True, False, True]
    assert len(set(second["caption_entity_ids"])) == 6
    assert second["image"]["path"] == "images/2.jpg"
    assert second["image"]["bytes"] == (sound / "images/2.jpg").read_bytes()


def test_statistics_match_the_contents(sound: Path) -> None:
    manifest = read_manifest(sound)
    statistics = manifest.statistics
    assert (statistics.images, statistics.captions, statistics.identities) == (12, 60, 6)
    assert statistics.styles_per_image == ((2, 6), (3, 6))
    assert dict(statistics.authors)["annotator-7"] == 6
    rewrites = statistics.rewrites
    assert (rewrites.released, rewrites.reviewed, rewrites.edited) == (36, 12, 6)
    assert (rewrites.rejected, rewrites.pending) == (6, 6)
    qwen, llama = manifest.models
    assert (qwen.calls, qwen.tokens_in, qwen.tokens_out, qwen.cost) == (24, 2400, 960, "2.4")
    assert (llama.calls, llama.cost) == (0, None)
    assert [prompt.prompt_id for prompt in manifest.prompts] == ["rewrite_description"]
    assert not manifest.demonstration
    assert not manifest.unreviewed


def test_a_release_is_recorded_and_building_again_changes_nothing(
    world: World, tmp_path: Path
) -> None:
    built = build_release(world.store, world.blobs, DATASET, "1.0.0", tmp_path / "out")
    (stored,) = list_releases(world.store)
    assert (stored.manifest, stored.folder) == (built.manifest, tmp_path / "out")
    entities = released_entities(world.store, built.manifest.id)
    assert len(entities) == 12 + 60 + 3 + 1  # images, captions, sources, the prompt
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    again = build_release(world.store, world.blobs, DATASET, "1.0.0", tmp_path / "out")
    assert not again.is_new
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == before
    assert len(list_releases(world.store)) == 1


def test_one_of_two_concurrent_builds_publishes_and_both_succeed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another build publishes the same release just before this one."""
    out = tmp_path / "out"
    others: list[Any] = []

    def build_before(*arguments: Any) -> bool:
        monkeypatch.undo()
        others.append(build_release(world.store, world.blobs, DATASET, "1.0.0", out))
        others.append(content_of(out))
        return store_release(*arguments)

    monkeypatch.setattr(build_module, "store_release", build_before)
    built = build_release(world.store, world.blobs, DATASET, "1.0.0", out)
    other, content = others
    assert (other.is_new, built.is_new) == (True, False)
    assert built.manifest == other.manifest
    assert content_of(out) == content
    assert [path.name for path in tmp_path.iterdir() if "building" in path.name] == []


def reject_something(world: World) -> None:
    rewrite = next(
        id_
        for id_ in released_entities(world.store, list_releases(world.store)[0].manifest.id)
        if _is_accepted_rewrite(world, id_)
    )
    plan = register_plan(world.store, "test", "2", {})
    decide(world.store, plan, [NewDecision(rewrite, "reject", PERSON)])


def _is_accepted_rewrite(world: World, entity_id: str) -> bool:
    from loupe.db.entities import fetch

    entity = fetch(world.store, [entity_id])[entity_id]
    return entity.kind == "rewrite" and entity.state == "accepted"


def test_a_released_version_cannot_be_changed(world: World, tmp_path: Path) -> None:
    build(world, tmp_path / "out")
    before = content_of(tmp_path / "out")
    reject_something(world)
    with pytest.raises(IntegrityError, match="holds another release"):
        build(world, tmp_path / "out")
    with pytest.raises(IntegrityError, match=r"1\.0\.0 was released as .* choose a new version"):
        build(world, tmp_path / "other")
    assert content_of(tmp_path / "out") == before
    assert not (tmp_path / "other").exists()
    build(world, tmp_path / "other", "1.1.0")
    versions = [one.manifest.version for one in list_releases(world.store)]
    assert versions == ["1.0.0", "1.1.0"]


def test_a_folder_with_other_files_is_refused(world: World, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"mine exists and is not a release"):
        build(world, tmp_path / "mine")
    assert content_of(tmp_path / "mine") == {"notes.txt": b"mine"}


def test_a_link_to_an_empty_folder_is_refused_at_once(world: World, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    with pytest.raises(UsageError, match=r"link exists and is not a release"):
        build(world, tmp_path / "link")


def test_a_malformed_version_is_refused(world: World, tmp_path: Path) -> None:
    for version in ("", "1", "v1.0.0", "1.0.0-rc1", "1.0.0\n", "../1.0.0"):
        with pytest.raises(UsageError, match=r"a version must be three numbers"):
            build(world, tmp_path / "out", version)


def test_an_unknown_dataset_is_refused(world: World, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no dataset .ufine4d.; there are: "):
        build_release(world.store, world.blobs, "ufine4d", "1.0.0", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["world"]


def test_a_damaged_blob_stops_the_build(world: World, tmp_path: Path) -> None:
    blob = next((tmp_path / "world/blobs").rglob("*.jpg"))
    blob.write_bytes(blob.read_bytes()[::-1])
    with pytest.raises(IntegrityError, match="damaged"):
        build(world, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def built_from(composer: Composer, tmp_path: Path) -> Path:
    world = store_world(tmp_path / "world", composer.contents())
    try:
        return build(world, tmp_path / "out")
    finally:
        world.store.close()


def test_an_identity_in_two_splits_is_refused(tmp_path: Path) -> None:
    composer = Composer()
    splits: tuple[Split, ...] = ("train", "test")
    for split in splits:
        image = composer.image(SOURCES[0], "1", f"{split}.jpg", split=split)
        composer.caption(image, SOURCES[0], "A person.")
    with pytest.raises(IntegrityError, match=r"one identity in several splits \(2\): train: CUHK"):
        built_from(composer, tmp_path)


def test_a_repeated_image_of_a_source_is_refused(tmp_path: Path) -> None:
    composer = Composer()
    for number in range(2):
        image = composer.image(SOURCES[0], "1", "a.jpg", data=picture(number))
        composer.caption(image, SOURCES[0], "A person.")
    with pytest.raises(IntegrityError, match="holds one image of a source more than once"):
        built_from(composer, tmp_path)


def test_a_source_without_a_licence_is_refused(tmp_path: Path) -> None:
    composer = Composer()
    unlicensed = source("Found on the web", None, licence=" ")
    image = composer.image(unlicensed, "1", "a.jpg")
    composer.caption(image, unlicensed, "A person.")
    with pytest.raises(IntegrityError, match=r"'Found on the web' .* states no licence"):
        built_from(composer, tmp_path)


def test_rejected_texts_exclude_the_texts_derived_from_them(tmp_path: Path) -> None:
    composer = Composer()
    image = composer.image(SOURCES[0], "1", "a.jpg")
    kept = composer.caption(image, SOURCES[0], "Kept.")
    wrong = composer.caption(image, SOURCES[0], "Wrong.", 1)
    composer.rewrite(kept, "Kept, again.")
    composer.rewrite(wrong, "Wrong, again.")
    withdrawn = composer.rewrite(kept, "Withdrawn.", LLAMA)
    composer.edit(withdrawn, "Withdrawn, edited.")
    composer.decisions += [
        NewDecision(wrong, "reject", PERSON),
        NewDecision(withdrawn, "withdraw", PERSON),
    ]
    empty = composer.image(SOURCES[0], "2", "b.jpg")
    composer.decisions.append(
        NewDecision(composer.caption(empty, SOURCES[0], "No."), "reject", PERSON)
    )
    (row,) = rows_of(built_from(composer, tmp_path))
    assert row["captions"] == ["Kept.", "Kept, again."]


def test_edits_replace_the_texts_they_are_based_on(tmp_path: Path) -> None:
    composer = Composer()
    image = composer.image(SOURCES[0], "1", "a.jpg")
    caption = composer.caption(image, SOURCES[0], "A man.")
    shown = composer.rewrite(caption, "Shown.", verdict=None)
    first = composer.edit(shown, "First edit.")
    composer.edit(first, "Second edit.", AgentRef("person", "annotator-8"))
    (row,) = rows_of(built_from(composer, tmp_path))
    assert row["captions"] == ["A man.", "Second edit."]


def test_a_demonstration_is_marked_as_such(tmp_path: Path) -> None:
    from loupe.demo.worlds.writing import CITATION
    from loupe.schemas.profile import BuiltinRewriter

    drawn = source("drawn", Granularity.FINE, citation=CITATION)
    for name, of, model in (
        ("sources", drawn, LLAMA),
        ("models", SOURCES[0], BuiltinRewriter().ref),
    ):
        composer = Composer()
        caption = composer.caption(composer.image(of, "1", "a.jpg"), of, "A man.")
        composer.rewrite(caption, "Said again.", model)
        folder = built_from(composer, tmp_path / name)
        card = (folder / "README.md").read_text("utf-8")
        assert "> **Demonstration.**" in card
        assert "> **Unreviewed.**" in card
        assert json.loads((folder / "manifest.json").read_text("utf-8"))["demonstration"] is True


def test_every_builtin_profile_model_counts_as_demonstration() -> None:
    from loupe.models.profiles.loader import load_profile
    from loupe.release.card.model_use import BUILTIN_PREFIX

    models = load_profile("builtin").rewrite.models
    assert all(model.name.startswith(BUILTIN_PREFIX) for model in models)


BUILDS_TO_KILL = """
import os, sys, time
from pathlib import Path
from loupe.db.blobs import BlobStore
from loupe.db.store import Store
from loupe.release.build import build_release

home, out = Path(sys.argv[1]), Path(sys.argv[2])
for _ in sys.stdin:  # one build per line, each in a forked process that starts immediately
    if (child := os.fork()) == 0:
        store = Store.open(f"sqlite:///{home / 'loupe.db'}")
        blobs = BlobStore(str(home / "blobs"))
        build_release(
            store, blobs, "ufine3c", "1.0.0", out, on_progress=lambda *_: time.sleep(0.01)
        )
        os._exit(0)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


@pytest.mark.slow
def test_a_killed_build_leaves_nothing_behind(world: World, tmp_path: Path) -> None:
    out = tmp_path / "out"
    builds = subprocess.Popen(
        [sys.executable, "-c", BUILDS_TO_KILL, str(tmp_path / "world"), str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert builds.stdin is not None
    assert builds.stdout is not None
    chance = random.Random(0)
    leftovers = 0
    for _ in range(3):
        builds.stdin.write("build\n")
        builds.stdin.flush()
        child = int(builds.stdout.readline())
        time.sleep(chance.uniform(0, 0.5))
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        assert builds.stdout.readline() == "ended\n"
        assert not out.exists() or verify_release(out).problems == []
        leftovers += any(tmp_path.glob(".out.building-*"))
    builds.communicate()
    assert leftovers, "no build was killed while it ran"
    build(world, out)
    assert verify_release(out).problems == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "world"]
    uninterrupted = build(world, tmp_path / "uninterrupted")
    assert content_of(out) == content_of(uninterrupted)


def test_a_damaged_release_is_refused_by_build_and_rebuild(world: World, tmp_path: Path) -> None:
    """Neither build nor rebuild accepts a damaged folder, and both leave it unchanged."""
    sound, out = build(world, tmp_path / "sound"), tmp_path / "out"
    cases: list[tuple[Callable[[Path], object], str]] = [
        (lambda out: flip(out / "README.md"), "README.md is damaged or was changed"),
        (lambda out: (out / "more.txt").write_text("x"), "more.txt is not a listed file"),
    ]
    for harm, details in cases:
        shutil.copytree(sound, out)
        harm(out)
        before = content_of(out)
        with pytest.raises(IntegrityError) as built:
            build(world, out)
        with pytest.raises(IntegrityError) as rebuilt:
            rebuild_release(world.store, world.blobs, list_releases(world.store)[0], out)
        assert str(built.value) == str(rebuilt.value)
        assert str(built.value).startswith(f"{out} is ufine3c 1.0.0, but {details}")
        assert "move that folder away and build again" in str(built.value)
        assert content_of(out) == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "sound", "world"]
        shutil.rmtree(out)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
