"""The front matter of the card, read with `huggingface_hub` and `datasets`."""

from huggingface_hub import DatasetCard

from loupe.release.format.files import CARD
from tests.release.kinds import ABOUT, Built


def test_huggingface_hub_reads_the_front_matter(every_kind: dict[str, Built]) -> None:
    for release in every_kind.values():
        card = DatasetCard.load(release.folder / CARD, ignore_metadata_errors=False)
        details = card.data.to_dict()
        assert details["pretty_name"] == ABOUT.title
        assert details["size_categories"] == ["n<1K"]
        assert details["task_categories"] == ["image-to-text"]
        assert details["language"] == (
            ["en", "zh"] if release.manifest.dataset == "coco-ccd" else ["en"]
        )
        assert card.text.lstrip().startswith(f"# {release.manifest.dataset}")


def test_stated_features_match_the_rows(every_kind: dict[str, Built]) -> None:
    import datasets

    for release in every_kind.values():
        card = DatasetCard.load(release.folder / CARD)
        info = card.data.to_dict()["dataset_info"]
        stated = datasets.Features._from_yaml_list(info["features"])
        shards = sorted(map(str, (release.folder / "data").glob("*.parquet")))
        loaded = datasets.Dataset.from_parquet(
            shards, cache_dir=str(release.folder.parent / "cache")
        )
        assert loaded.features == stated


def test_licences_use_the_identifiers_of_the_hub(every_kind: dict[str, Built]) -> None:
    for release in every_kind.values():
        details = DatasetCard.load(release.folder / CARD).data.to_dict()["license"]
        by_dataset = {  # including the stated licence of the texts
            "recos": ["cc-by-nc-sa-4.0", "cc0-1.0"],
            "coco-ccd": ["cc-by-4.0", "cc-by-nc-sa-4.0", "cc-by-sa-4.0"],
        }
        assert details == by_dataset.get(release.manifest.dataset, "cc-by-nc-sa-4.0")
