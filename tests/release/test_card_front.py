"""The front matter: what the hub's own library and `datasets` make of it."""

from collections.abc import Iterator

import pytest
from huggingface_hub import DatasetCard

from release.card import CARD, render_card
from tests.release.kinds import ABOUT, KINDS, Built, built


@pytest.fixture(scope="module", params=KINDS)
def release(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Built]:
    with built(request.param, tmp_path_factory.mktemp(request.param)) as made:
        yield made


def test_the_hubs_library_reads_it(release: Built) -> None:
    card = DatasetCard.load(release.folder / CARD, ignore_metadata_errors=False)
    told = card.data.to_dict()
    assert told["pretty_name"] == ABOUT.title
    assert told["size_categories"] == ["n<1K"]
    assert told["task_categories"] == ["image-to-text"]
    assert told["language"] == (["en", "zh"] if release.manifest.dataset == "coco-ccd" else ["en"])
    assert card.text.lstrip().startswith(f"# {release.manifest.dataset}")


def test_its_features_are_those_of_the_rows(release: Built) -> None:
    import datasets

    card = DatasetCard.load(release.folder / CARD)
    info = card.data.to_dict()["dataset_info"]
    stated = datasets.Features._from_yaml_list(info["features"])
    shards = sorted(map(str, (release.folder / "data").glob("*.parquet")))
    loaded = datasets.Dataset.from_parquet(shards, cache_dir=str(release.folder.parent / "cache"))
    assert loaded.features == stated


def test_the_hubs_library_warns_of_nothing_in_it(
    release: Built, caplog: pytest.LogCaptureFixture
) -> None:
    import datasets

    cache = str(release.folder.parent / "warnings")
    datasets.utils.logging.enable_propagation()
    try:
        datasets.load_dataset(str(release.folder), cache_dir=cache, streaming=True)
    finally:
        datasets.utils.logging.disable_propagation()
    assert [one.getMessage() for one in caplog.records if "dataset_info" in one.getMessage()] == []


def test_licences_are_told_in_the_hubs_words(release: Built) -> None:
    told = DatasetCard.load(release.folder / CARD).data.to_dict()["license"]
    by_dataset = {  # the stated licence of the texts is among them
        "recos": ["cc-by-nc-sa-4.0", "cc0-1.0"],
        "coco-ccd": ["cc-by-4.0", "cc-by-nc-sa-4.0", "cc-by-sa-4.0"],
    }
    assert told == by_dataset.get(release.manifest.dataset, "cc-by-nc-sa-4.0")


def test_the_card_tells_what_is_known_of_people_and_whom_to_write_to(release: Built) -> None:
    card = render_card(release.manifest)
    assert "| ufine3c-rewrites | verdict | 40 | 3 | 0.850 | 0.610 (0.500 to 0.700) |" in card
    assert (
        "**Language variety.** English \\(en" in card or "**Language variety.** English (en" in card
    )
    assert f"Write to <{ABOUT.contact}>" in card
    texts = "The texts that were made here are given under CC-BY-NC-SA-4.0, which asks for "
    assert f"{texts}attribution, share alike and non-commercial use." in card
    assert "\n\n\n\n" not in card
