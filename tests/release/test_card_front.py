"""The front matter of the card, read with `huggingface_hub` and `datasets`."""

import pytest
from huggingface_hub import DatasetCard

from release.documents import render_card
from release.files import CARD
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


def test_datasets_gives_no_warning_about_the_front_matter(
    every_kind: dict[str, Built], caplog: pytest.LogCaptureFixture
) -> None:
    import datasets

    for release in every_kind.values():
        cache = str(release.folder.parent / "warnings")
        datasets.utils.logging.enable_propagation()
        try:
            datasets.load_dataset(str(release.folder), cache_dir=cache, streaming=True)
        finally:
            datasets.utils.logging.disable_propagation()
        assert [
            one.getMessage() for one in caplog.records if "dataset_info" in one.getMessage()
        ] == []


def test_licences_use_the_identifiers_of_the_hub(every_kind: dict[str, Built]) -> None:
    for release in every_kind.values():
        details = DatasetCard.load(release.folder / CARD).data.to_dict()["license"]
        by_dataset = {  # including the stated licence of the texts
            "recos": ["cc-by-nc-sa-4.0", "cc0-1.0"],
            "coco-ccd": ["cc-by-4.0", "cc-by-nc-sa-4.0", "cc-by-sa-4.0"],
        }
        assert details == by_dataset.get(release.manifest.dataset, "cc-by-nc-sa-4.0")


def test_the_card_states_agreement_language_contact_and_licence(
    every_kind: dict[str, Built],
) -> None:
    for release in every_kind.values():
        card = render_card(release.manifest)
        assert "| ufine3c-rewrites | verdict | 40 | 3 | 0.850 | 0.610 (0.500 to 0.700) |" in card
        assert (
            "**Language variety.** English \\(en" in card
            or "**Language variety.** English (en" in card
        )
        assert f"Write to <{ABOUT.contact}>" in card
        texts = "The texts made for this release are licensed under CC-BY-NC-SA-4.0; conditions: "
        assert f"{texts}attribution, share alike and non-commercial use." in card
        assert "\n\n\n\n" not in card
