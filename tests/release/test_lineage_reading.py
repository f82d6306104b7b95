"""Reading the lineage of a release by id, row and file, and on the command line."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prov.model import ProvDocument
from typer.testing import CliRunner, Result

from loupe.flows.cli.main import app
from loupe.release.format.row_files import read_release
from loupe.release.lineage import AGENTS, ENTITIES
from loupe.release.lineage.reading import open_lineage
from loupe.release.lineage.summaries import summarize
from loupe.schemas.errors import IntegrityError, UsageError
from tests.release.lineage_worlds import KINDS
from tests.release.worlds import store_world


def built(kind: str, home: Path) -> Path:
    world = store_world(home / "world", KINDS[kind].composed().contents())
    folder = KINDS[kind].build(world, home / "out").folder
    world.store.close()
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("plain", tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def contrasts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("contrasts", tmp_path_factory.mktemp("contrasts"))


def loupe(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["lineage", *(str(one) for one in arguments)])


def images_of(folder: Path) -> dict[str, str]:
    """Entity ids of images by file path."""
    found: dict[str, str] = {}
    for shard in sorted((folder / "data").iterdir()):
        table = pq.read_table(shard, columns=["file_path", "image_entity_id"])
        found.update(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return found


def test_images_are_found_by_file_and_number(plain: Path, contrasts: Path) -> None:
    for folder in (plain, contrasts):
        with open_lineage(folder) as lineage:
            for number, (path, entity_id) in enumerate(images_of(folder).items(), 1):
                names = (path, path.removeprefix("images/"), str(number), entity_id, entity_id[:9])
                assert {lineage.find(name) for name in names} == {entity_id}
                assert lineage.find(entity_id.upper()) == entity_id


def test_row_numbers_continue_over_splits_and_row_groups(tmp_path: Path) -> None:
    folder = built("street", tmp_path)
    images = images_of(folder)
    with open_lineage(folder) as lineage:
        by_number = {lineage.find(f"{number}.jpg"): number for number in range(1, len(images) + 1)}
    assert {by_number[id_]: path for path, id_ in images.items()} == {
        number: f"images/{number}.jpg" for number in range(1, len(images) + 1)
    }


def test_unknown_names_are_refused_with_a_message(plain: Path) -> None:
    cases = {
        "images/13.jpg": r"has no images/13\.jpg: it holds 12 rows",
        "1_2.jpg": r"has no image images/1_2\.jpg; that of row 2 is images/2\.jpg",
        "2.png": r"that of row 2 is images/2\.jpg",
        "13": r"'13' is none of the 12 rows of .* and no id \(6 hex digits or more\)",
        "ffffffffff": "no entity in the lineage of .* the store may know more",
        "%%%%%%": "no id",
        "../../x": "no id",
        "": "no id",
    }
    with open_lineage(plain) as lineage:
        for name, match in cases.items():
            with pytest.raises(UsageError, match=match):
                lineage.find(name)


def test_an_unknown_id_is_refused(plain: Path) -> None:
    with open_lineage(plain) as lineage, pytest.raises(UsageError, match="no entity"):
        lineage.trace("f" * 32)


def test_an_ambiguous_prefix_of_an_id_is_refused(plain: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(plain, tmp_path / "copy")
    table = pq.read_table(folder / ENTITIES.path)
    rows = table.to_pylist()
    rows[1]["id"] = rows[0]["id"][:-1] + "f"
    (folder / ENTITIES.path).unlink()
    from loupe.release.lineage import write_table

    write_table(folder, ENTITIES, [tuple(row.values()) for row in rows])
    with open_lineage(folder) as lineage, pytest.raises(UsageError, match="give more of it"):
        lineage.find(rows[0]["id"][:12])


def test_a_folder_without_a_release_or_lineage_is_refused(plain: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no release in"), open_lineage(tmp_path):
        pass
    folder = shutil.copytree(plain, tmp_path / "copy")
    (folder / AGENTS.path).unlink()
    with (
        pytest.raises(IntegrityError, match=r"lineage/agents.parquet is missing; .* verify"),
        open_lineage(folder),
    ):
        pass


def test_missing_row_files_differ_from_rows_beyond_the_end(plain: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(plain, tmp_path / "copy")
    shutil.rmtree(folder / "data")
    with open_lineage(folder) as lineage:
        with pytest.raises(IntegrityError, match="files with rows are missing, row 5 among them"):
            lineage.find("5")
        with pytest.raises(UsageError, match=r"has no images/13\.jpg: it holds 12 rows"):
            lineage.find("13.jpg")


def test_damaged_and_incomplete_tables_are_named(plain: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(plain, tmp_path / "copy")
    empty = pq.read_table(folder / AGENTS.path).slice(0, 0)
    pq.write_table(empty, folder / AGENTS.path)
    with open_lineage(folder) as lineage, pytest.raises(IntegrityError, match=r"lineage/agents"):
        lineage.trace(lineage.find(pq.read_table(folder / ENTITIES.path)["id"][0].as_py()))
    path = folder / ENTITIES.path
    path.write_bytes(path.read_bytes()[:-20])
    for spool in (None, tmp_path):
        with (
            pytest.raises(IntegrityError, match=r"entities\.parquet cannot be read"),
            open_lineage(folder, spool=spool) as lineage,
        ):
            lineage.trace("f" * 32)


def test_the_command_needs_no_database(
    contrasts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("LOUPE_DATABASE_URL", "postgresql://nobody@127.0.0.1:9/none")
    rows = read_release(contrasts).rows
    contrastive = next(row for row in rows if row.contrast is not None)
    path, entity_id = contrastive.file_path, contrastive.image_entity_id
    drawn = loupe(path, "--release", contrasts)
    assert drawn.exit_code == 0
    assert f"encoded from image {entity_id[:12]} in coco-ccd" in drawn.stdout
    assert "made by encode_image v1, software loupe-images@1" in drawn.stdout
    assert "contrast of image" in drawn.stdout
    assert "imported from source" in drawn.stdout
    shown = drawn.stdout.partition("captions of this image")[2].splitlines()[1:]
    for caption in shown:
        assert loupe(caption.split()[0], "--release", contrasts).exit_code == 0
    assert shown
    details = loupe(path, "--release", contrasts, "--json")
    document = ProvDocument.deserialize(content=details.stdout, format="json")
    assert f"loupe:{entity_id}" in json.loads(details.stdout)["entity"]
    assert list(document.get_records())
    assert not (tmp_path / "nowhere").exists()


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_long_values_are_shortened_and_unprintable_characters_replaced() -> None:
    assert (
        summarize("caption", json.dumps({"text": "a\u202eb  c\nd efg"}), 8)
        == "a\N{REPLACEMENT CHARACTER}b c d"
    )


def test_settings_are_shown_with_their_small_values() -> None:
    values = {"parameters": {"least": 5}, "by": "identity", "code": "ab", "schema": "x" * 99}
    settings = {"stage": "long", "version": "1", "values": values}
    assert summarize("settings", json.dumps(settings)) == "of long, version 1, by identity, least 5"


@given(kind=st.sampled_from(["image", "sample", "settings", "unheard_of"]), payload=_VALUES)
def test_any_payload_is_summarised_in_one_printable_line(kind: str, payload: object) -> None:
    assert summarize(kind, json.dumps(payload)).isprintable()


def test_a_payload_that_is_no_json_is_refused() -> None:
    for payload in ("not json", "", "[" * 100_000):
        with pytest.raises(IntegrityError, match="kind 'image' is not JSON"):
            summarize("image", payload)
