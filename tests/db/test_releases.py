"""Releases in the store, and the query for their rows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from loupe.db.release_rows import described_images, live_images, model_calls, snapshot
from loupe.db.releases import StateMark, find_release, list_releases, store_release
from loupe.db.store import Store
from loupe.release.card.statistics import StatisticsCounter
from loupe.release.card.terms import LicensedItem, terms_of
from loupe.release.format.manifest import unnamed
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.release import LineageStatistics, Manifest
from tests.release.worlds import (
    DATASET,
    World,
    released_entities,
    small_world,
    store_world,
)


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    names = request.fixturenames
    url = request.getfixturevalue("database_url") if "database_url" in names else None
    world = store_world(tmp_path, small_world(2).contents(), url=url)
    yield world
    world.store.close()


def manifest(version: str = "1.0.0", digit: str = "a", dataset: str = DATASET) -> Manifest:
    draft = unnamed(
        dataset=dataset,
        version=version,
        demonstration=False,
        unreviewed=True,
        entities_sha256="0" * 64,
        sources=(),
        prompts=(),
        models=(),
        statistics=StatisticsCounter().result({}),
        lineage=LineageStatistics(
            entities=0, derivations=0, decisions=0, calls=0, activities=0, agents=0
        ),
        terms=terms_of([LicensedItem("CC0-1.0", "source", own=False, images=2)], {}),
    )
    return draft.model_copy(update={"id": digit * 64})


MARK = StateMark(0, 0, 0, 0, 0)


def test_a_release_is_stored_once(world: World, tmp_path: Path) -> None:
    with snapshot(world.store) as connection:
        ids = [image.id for image in live_images(connection, DATASET)]
    assert store_release(world.store, manifest(), tmp_path, ids, MARK)
    assert not store_release(world.store, manifest(), tmp_path / "copy", ids, MARK)
    (stored,) = list_releases(world.store, DATASET)
    assert (stored.manifest, stored.folder) == (manifest(), tmp_path)
    assert released_entities(world.store, stored.manifest.id) == sorted(ids)


@pytest.mark.usefixtures("database_url")
def test_a_release_with_other_content_or_a_failed_publication_is_not_stored(
    store: Store, tmp_path: Path
) -> None:
    def fail() -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        store_release(store, manifest(), tmp_path, [], MARK, fail)
    assert list_releases(store) == []
    published: list[str] = []
    store_release(store, manifest(), tmp_path, [], MARK, lambda: published.append("first"))
    with pytest.raises(IntegrityError, match="choose a new version"):
        store_release(
            store, manifest(digit="b"), tmp_path, [], MARK, lambda: published.append("other")
        )
    assert published == ["first"]


def test_releases_are_listed_by_version_and_found_by_name(store: Store, tmp_path: Path) -> None:
    for digit, version in (("a", "1.10.0"), ("b", "1.9.0"), ("c", "0.1.0")):
        store_release(store, manifest(version, digit), tmp_path, [], MARK)
    store_release(store, manifest("1.0.0", "d", "another"), tmp_path, [], MARK)
    assert [one.manifest.version for one in list_releases(store, DATASET)] == [
        "0.1.0",
        "1.9.0",
        "1.10.0",
    ]
    assert find_release(store, DATASET).manifest.version == "1.10.0"
    assert find_release(store, f"{DATASET}@1.9.0").manifest.id == "b" * 64
    assert find_release(store, "dddddd").manifest.dataset == "another"
    with pytest.raises(UsageError, match=r"no release named 'x'; there are: another@1"):
        find_release(store, "x")


def test_an_incomplete_name_finds_no_release_and_a_dataset_name_precedes_an_id(
    store: Store, tmp_path: Path
) -> None:
    """An unset variable, for example, must not select the only release."""
    store_release(store, manifest("1.0.0", "c"), tmp_path, [], MARK)
    for name in ("", "@", "@1.0.0", f"{DATASET}@", f"{DATASET}@1.0", " "):
        with pytest.raises(UsageError, match=f"no release named '{name}'; there are: "):
            find_release(store, name)
    with pytest.raises(
        UsageError, match=r"named 'ccc' \(an id needs at least 6 digits\); there are:"
    ):
        find_release(store, "ccc")
    store_release(store, manifest("1.0.0", "d", "cccccc"), tmp_path, [], MARK)
    assert find_release(store, "cccccc").manifest.id == "d" * 64
    assert find_release(store, "ccccccc").manifest.id == "c" * 64


@pytest.mark.usefixtures("database_url")
def test_rows_contain_all_texts_with_their_authors_and_reviews(world: World) -> None:
    with snapshot(world.store) as connection:
        ids = sorted(image.id for image in live_images(connection, DATASET))
        described = described_images(connection, ids)
        calls = [text.model_call for one in described for text in one.texts if text.model_call]
        tokens = sum(call.tokens_in or 0 for call in model_calls(connection, sorted(set(calls))))
    assert [one.image.id for one in described] == ids
    assert {len(one.texts) for one in described} == {6, 8}
    assert len({one.source_id for one in described}) == 3
    texts = [text for one in described for text in one.texts]
    assert sum(text.by_person for text in texts) == 6
    assert sum(text.reviewed for text in texts) == 6 + 6 + 6  # edits, edited texts, accepted texts
    assert all(text.prompts for text in texts if text.model_call)
    assert tokens == 100 * len(calls)
