"""A pipeline of one's own from a folder of photographs to a verified release."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from loupe.api.loading import load_pipeline
from loupe.api.reading import open_release, open_store
from loupe.db.blobs import BlobStore
from loupe.db.releases import list_releases
from loupe.db.store import Store
from loupe.flows.evaluation.leaderboard import locate_release
from loupe.release.rebuild import rebuild_release
from loupe.release.verify import verify_release
from loupe.schemas.errors import UsageError
from loupe.schemas.release import ReleasedPart
from tests.api.shop import Shop, shop
from tests.flows.worlds import loupe
from tests.release.forging import reseal


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with shop(tmp_path_factory.mktemp("products")) as one:
        Image.new("RGB", (320, 240)).save(one.folder / "photos" / "CONCEPTUAL_03.jpg")
        yield one


@pytest.fixture(scope="module")
def released(products: Shop) -> Path:
    pipeline = load_pipeline(str(products.folder / "products.py"))
    report = pipeline.run(products.profile, quiet=True, settings=products.settings)
    assert report.waiting == 0
    return report.release.folder


def test_a_release_has_texts_by_the_model_and_records_of_its_own(released: Path) -> None:
    release = open_release(released)
    release.verify()
    row = next(one for one in release.rows() if one["identity"] == "A-1")
    assert len(row["captions"]) == 4  # the title, and three styles
    assert {one["colour"] for one in row["attributes"]} == {"red"}
    about = {row["captions"][one["caption"]] for one in row["attributes"]}
    assert about == set(row["captions"]) - {"Hydrant; red"}
    form = release.manifest.form
    assert form is not None
    assert form.tags == ("products",)
    assert form.columns[0].parts[0] == ReleasedPart(name="colour", type="string")
    card = (released / "README.md").read_text(encoding="utf-8")
    assert "person-retrieval" not in card


def test_a_release_states_the_steps_of_its_pipeline(
    products: Shop, released: Path, tmp_path: Path
) -> None:
    manifest = open_release(released).manifest
    assert manifest.form is not None
    steps = [one.name for one in manifest.form.steps]
    assert steps == ["sharp", "near_duplicates", "describe", "check", "attributes"]
    card = (released / "README.md").read_text(encoding="utf-8")
    assert not any(one in card for one in ("unstated", "granularity", "sex and age", "1.jpg --"))
    assert "| sharp | 1 | Image -\\> bool;" in card
    with closing(Store.open(products.settings.database_url)) as store:
        (stored,) = list_releases(store, "shop")
        blobs = BlobStore(products.settings.blobs_url)
        rebuilt = rebuild_release(store, blobs, stored, tmp_path / "again", adopt=False)
    assert rebuilt.manifest.id == manifest.id


def test_a_second_run_asks_nothing_and_gives_the_same_release(
    products: Shop, released: Path
) -> None:
    asked, before = products.server.ledger.counts.total(), open_release(released).id
    pipeline = load_pipeline(str(products.folder / "products.py"))
    report = pipeline.run(products.profile, quiet=True, settings=products.settings)
    assert report.release_id == before
    assert products.server.ledger.counts.total() == asked


def test_a_folder_called_like_a_release_does_not_hide_it(
    products: Shop, released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path)
    known = open_release(released).id
    assert open_release("shop", products.settings).id == known
    with closing(Store.open(products.settings.database_url)) as store:
        assert locate_release(store, "shop").manifest.id == known
    with pytest.raises(UsageError, match=r"no release in .*shop: it holds no manifest.json"):
        open_release("./shop", products.settings)


def test_a_changed_record_is_found(released: Path, tmp_path: Path) -> None:
    folder = tmp_path / "changed"
    shutil.copytree(released, folder)
    shard = folder / "data" / "train-00000-of-00001.parquet"
    table = pq.read_table(shard)
    rows = table.column("attributes").to_pylist()
    rows[0][0]["colour"] = "green"
    place = table.column_names.index("attributes")
    field = table.schema.field("attributes")
    changed = table.set_column(place, field, pa.array(rows, field.type))
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), shard)
    reseal(folder)
    problems = [one.message for one in verify_release(folder).problems]
    assert any(one.startswith("shop.json: row 1 says attributes") for one in problems), problems


def test_withdrawing_an_image_withdraws_what_was_made_of_it(products: Shop, released: Path) -> None:
    release = open_release(released)
    row = next(one for one in release.rows() if one["identity"] == "A-2")
    arguments = ("withdraw", row["file_path"], "--release", str(released), "--ground", "privacy")
    run = loupe(products.home, *arguments, "--reason", "asked", "--yes")
    assert run.wait() == 0, run.output
    with open_store(products.settings) as store:
        gone = store.items("shop", "attributes", "withdrawn")
    assert sorted(gone.column("id").to_pylist()) == sorted(
        one["entity_id"] for one in row["attributes"]
    )
    patched = open_release(released.with_name("shop-0.1.1"))
    patched.verify()
    assert "A-2" not in [one["identity"] for one in patched.rows()]
