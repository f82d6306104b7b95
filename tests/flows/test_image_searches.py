"""A folder of drawn stills is found by what is on them, with its terms, embedded once."""

import json
from pathlib import Path

import pytest

from db.store import Store
from db.tables.embeddings import Embedding
from db.tables.work import ModelCall
from flows.ccd.downloading import FOLDER, screen_hits
from flows.ccd.searching import list_folder, open_image_search, open_recorded_search
from models.builtin.stills.drawing import draw_still
from models.search.folder import path_in_folder
from schemas.errors import ConfigurationError, FormatError
from schemas.image_search import FolderSearch, GoogleSearch, SearchAnswer
from schemas.records import Rejection
from sources.demonstration.stills import jpeg_of, plan_stills
from tests.db.samples import row_count

STILLS = 24
SEED = 5


@pytest.fixture(scope="module")
def captions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder of stills, and a caption of each by its path; a few records are bad."""
    folder = tmp_path_factory.mktemp("stills")
    (folder / "stills").mkdir()
    captions, lines = {}, []
    for number, truth in enumerate(plan_stills(SEED, STILLS)):
        path = f"stills/{number} still.jpg"
        (folder / path).write_bytes(jpeg_of(draw_still(truth.scene)))
        captions[path] = truth.captions[0]
        licence = "CC BY-ND 4.0" if number == 0 else "CC0-1.0"
        lines.append(json.dumps({"file_name": path, "licence": licence, "creator": "A painter"}))
    (folder / "stills" / "broken.jpg").write_bytes(b"\xff\xd8\xff no picture")
    lines += [
        '{"file_name": "stills/broken.jpg", "licence": "CC0"}',
        '{"file_name": "stills/missing.jpg", "licence": "CC0"}',
        '{"file_name": "../outside.jpg", "licence": "CC0"}',
        '{"file_name": "stills/1 still.jpg"}',
        "{ no JSON",
    ]
    (folder / "licences.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder, captions


def spec_of(folder: Path) -> FolderSearch:
    return FolderSearch(folder=str(folder))


def test_records_that_cannot_be_used_are_reported(captions: tuple[Path, dict[str, str]]) -> None:
    listing = list_folder(spec_of(captions[0]))
    assert len(listing.images) == STILLS
    assert [rejection.reason for rejection in listing.rejections][:2] == [
        *("undecodable_image", "missing_image")
    ]
    assert len(listing.rejections) == 5


def test_a_caption_finds_its_still(
    sqlite_store: Store, captions: tuple[Path, dict[str, str]]
) -> None:
    folder, by_path = captions
    search = open_image_search(sqlite_store, spec_of(folder))
    found = 0
    for path, caption in by_path.items():
        outcome = search.search(caption, 5)
        assert isinstance(outcome, SearchAnswer)
        found += path in [path_in_folder(hit.image_url) for hit in outcome.hits]
    assert found >= 0.8 * STILLS, "five of 24 by chance would be 5"


def test_images_are_embedded_once_and_queries_stored(
    sqlite_store: Store, captions: tuple[Path, dict[str, str]]
) -> None:
    for _ in range(2):
        search = open_recorded_search(sqlite_store, spec_of(captions[0]), "cats")
        search.search("a red car", 5)
    assert row_count(sqlite_store, Embedding) == STILLS + 1
    assert row_count(sqlite_store, ModelCall) == 1


def test_only_what_may_be_used_is_left(
    sqlite_store: Store, captions: tuple[Path, dict[str, str]]
) -> None:
    outcome = open_image_search(sqlite_store, spec_of(captions[0])).search("a dog", STILLS)
    assert isinstance(outcome, SearchAnswer)
    screened = screen_hits("a dog", outcome.hits, FOLDER)
    [turned_down] = [found for found in screened if isinstance(found, Rejection)]
    assert turned_down.reason == "licence_not_permitted"
    assert turned_down.context["hit"]["title"] == "0 still"


def test_a_folder_that_is_none_or_empty_is_refused(sqlite_store: Store, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="must exist"):
        open_image_search(sqlite_store, spec_of(tmp_path / "nowhere"))
    with pytest.raises(FormatError):
        open_image_search(sqlite_store, spec_of(tmp_path))
    (tmp_path / "licences.jsonl").write_text('{"file_name": "a.jpg", "licence": "CC0"}')
    with pytest.raises(ConfigurationError, match=r"1 of 'licences\.jsonl' were turned down"):
        open_image_search(sqlite_store, spec_of(tmp_path))


def test_a_service_without_its_keys_is_named(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_SEARCH_ENGINE_ID", raising=False)
    with pytest.raises(ConfigurationError, match="GOOGLE_SEARCH_ENGINE_ID"):
        open_recorded_search(sqlite_store, GoogleSearch(provider="google"), "cats")
