"""A pipeline of one's own from a folder of photographs to a verified release."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from loupe.api.loading import load_pipeline
from loupe.api.reading import open_release
from loupe.schemas.release import ReleasedPart
from tests.api.shop import Shop, shop


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with shop(tmp_path_factory.mktemp("products")) as one:
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


def test_a_second_run_asks_nothing_and_gives_the_same_release(
    products: Shop, released: Path
) -> None:
    asked, before = products.server.ledger.counts.total(), open_release(released).id
    pipeline = load_pipeline(str(products.folder / "products.py"))
    report = pipeline.run(products.profile, quiet=True, settings=products.settings)
    assert report.release_id == before
    assert products.server.ledger.counts.total() == asked
