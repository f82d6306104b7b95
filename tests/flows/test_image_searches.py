"""Searching a folder of drawn stills by text, and refusing unusable hits."""

import json
from pathlib import Path
from typing import Any

import pytest

from loupe.db.tables import Embedding, ModelCall
from loupe.demo.stills.drawing import draw_still
from loupe.demo.worlds.stills import jpeg_of, plan_stills
from loupe.flows.ccd.downloading import FOLDER, refused_hit
from loupe.flows.ccd.searching import RecordedSearch, list_folder, open_recorded_search
from loupe.flows.engine.context import RunContext
from loupe.schemas.errors import ConfigurationError, FormatError
from loupe.schemas.image_search import FolderSearch, GoogleSearch, SearchHit
from loupe.schemas.records import Rejection
from tests.db.samples import row_count

STILLS = 6
SEED = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of stills with some invalid records."""
    folder = tmp_path_factory.mktemp("stills")
    (folder / "stills").mkdir()
    lines = []
    for number, truth in enumerate(plan_stills(SEED, STILLS)):
        path = f"stills/{number} still.jpg"
        (folder / path).write_bytes(jpeg_of(draw_still(truth.scene)))
        lines.append(json.dumps({"file_name": path, "licence": "CC0-1.0", "creator": "A painter"}))
    (folder / "stills" / "broken.jpg").write_bytes(b"\xff\xd8\xff no picture")
    lines += [
        '{"file_name": "stills/broken.jpg", "licence": "CC0"}',
        '{"file_name": "stills/missing.jpg", "licence": "CC0"}',
        '{"file_name": "../outside.jpg", "licence": "CC0"}',
        '{"file_name": "stills/1 still.jpg"}',
        "{ no JSON",
    ]
    (folder / "licences.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


def spec_of(folder: Path) -> FolderSearch:
    return FolderSearch(folder=str(folder))


def opened(run: RunContext, folder: Path) -> RecordedSearch:
    return open_recorded_search(run, spec_of(folder), "cats")


def test_records_that_cannot_be_used_are_reported(folder: Path) -> None:
    listed = list_folder(spec_of(folder))
    rejections = [one for one in listed if isinstance(one, Rejection)]
    assert len(listed) - len(rejections) == STILLS
    assert [one.reason for one in rejections][:2] == ["undecodable_image", "missing_image"]
    assert len(rejections) == 5


def test_images_are_embedded_once_and_queries_stored(run: RunContext, folder: Path) -> None:
    for _ in range(2):
        search = opened(run, folder)
        search.search("a red car", 5)
    assert row_count(run.store, Embedding) == STILLS + 1
    assert row_count(run.store, ModelCall) == 1


def test_a_missing_or_empty_folder_is_refused(run: RunContext, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="must exist"):
        opened(run, tmp_path / "nowhere")
    with pytest.raises(FormatError):
        opened(run, tmp_path)
    (tmp_path / "licences.jsonl").write_text('{"file_name": "a.jpg", "licence": "CC0"}')
    with pytest.raises(ConfigurationError, match=r"1 of 'licences\.jsonl' were rejected"):
        opened(run, tmp_path)


def test_a_missing_key_of_a_search_service_is_named(
    run: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_SEARCH_ENGINE_ID", raising=False)
    with pytest.raises(ConfigurationError, match="GOOGLE_SEARCH_ENGINE_ID"):
        open_recorded_search(run, GoogleSearch(provider="google"), "cats")


def hit(rank: int = 1, **fields: Any) -> SearchHit:
    known = {
        "image_url": "https://example.org/a.jpg",
        "page_url": "https://example.org/a",
        "licence": "CC-BY-2.0",
    }
    return SearchHit(rank=rank, **{**known, **fields})


def test_an_unusable_hit_is_refused_with_a_reason() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"licence": None}, "licence_not_permitted"),
        ({"licence": "CC-BY-ND-4.0"}, "licence_not_permitted"),
        ({"licence": "CC-BY-NC-ND-2.0"}, "licence_not_permitted"),
        ({"licence": "something"}, "licence_not_permitted"),
        ({"page_url": None}, "page_missing"),
        ({"image_url": "x-raw-image:///aa11"}, "not_an_address"),
        ({"image_url": "file:///etc/passwd"}, "not_an_address"),
        ({"image_url": "folder:../../etc/passwd"}, "not_an_address"),
        ({"image_url": "data:image/png;base64,AA"}, "not_an_address"),
    ]
    for fields, reason in cases:
        found = refused_hit("a cat", hit(**fields))
        assert found is not None, fields
        assert (found.stage, found.reason) == ("search", reason), fields
        assert found.context["query"] == "a cat"
        assert found.context["hit"]["rank"] == 1


def test_a_usable_hit_is_not_refused() -> None:
    of_google = GoogleSearch(provider="google").licence
    cases: list[dict[str, Any]] = [
        {},
        {"licence": "CC0-1.0"},
        {"image_url": "HTTP://a.org/b"},
        {"licence": of_google, "licence_basis": "filter"},
    ]
    for fields in cases:
        assert refused_hit("a cat", hit(**fields)) is None, fields


def test_hits_of_a_folder_search_must_be_in_the_folder() -> None:
    assert refused_hit("a cat", hit(image_url="folder:a.jpg"), FOLDER) is None
    elsewhere = refused_hit("a cat", hit(), FOLDER)
    assert elsewhere is not None
    assert elsewhere.reason == "not_an_address"
