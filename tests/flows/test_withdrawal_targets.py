"""Targets named as in a release: a row by its file, a person by number."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from loupe.db.entities import find
from loupe.db.releases import find_release
from loupe.db.withdrawal_graph import WithdrawalTarget
from loupe.flows.withdrawal.releases import (
    Person,
    image_in_release,
    person_in_release,
    refuse_two_meanings,
    rows_of,
)
from loupe.schemas.errors import UsageError
from loupe.schemas.records import Image
from tests.flows.withdrawals import Home, home_of
from tests.release import ccd_world
from tests.release.ccd_world import CCD
from tests.release.worlds import DATASET, SOURCES, Composer, small_world

FINE = SOURCES[1]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = home_of(tmp_path / "home")
    yield home
    home.store.close()


def people(home: Home) -> dict[str, Person]:
    """Return the person in every row, by file."""
    stored = find_release(home.store, DATASET)
    return {row.file_path: row.person for row in rows_of(home.store, stored) or ()}


def image_of(home: Home, target: WithdrawalTarget) -> Image:
    found = {one.id: one.record(Image) for one in find(home.store, DATASET, "image")}
    return found[target.name]


def test_a_row_is_found_by_its_file_or_number(home: Home) -> None:
    person = people(home)["images/5.jpg"]
    for name in ("images/5.jpg", "5.jpg", "5"):
        for release in (DATASET, f"{DATASET}@1.0.0", str(home.release("1.0.0"))):
            image = image_of(home, image_in_release(home.store, release, name))
            assert (image.source, image.identity) == (person.source, person.name), (name, release)


def test_a_row_is_found_after_its_release_was_erased_or_deleted(home: Home) -> None:
    wanted = image_in_release(home.store, DATASET, "5")
    home.withdraw("entity", wanted.name)
    assert image_in_release(home.store, f"{DATASET}@1.0.0", "5") == wanted
    shutil.rmtree(home.release("1.0.0"))
    assert image_in_release(home.store, f"{DATASET}@1.0.0", "5") == wanted


def test_a_copy_of_the_release_folder_can_be_named(home: Home, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(home.release("1.0.0"), copy)
    wanted = image_in_release(home.store, DATASET, "5")
    assert image_in_release(home.store, str(copy), "5") == wanted


def test_a_person_is_found_by_the_published_number(home: Home) -> None:
    for person in set(people(home).values()):
        found = person_in_release(home.store, DATASET, str(person.id))
        assert (found.sort, found.name, found.dataset) == ("identity", person.name, DATASET)
        assert found.source == person.source


def test_unknown_rows_people_and_releases_are_usage_errors(home: Home, tmp_path: Path) -> None:
    for name in ("nix", "99", "images/99.jpg", "images/5.png", "0"):
        with pytest.raises(UsageError, match="a number from 1 to 12"):
            image_in_release(home.store, DATASET, name)
    with pytest.raises(UsageError, match="no person with the id '99'"):
        person_in_release(home.store, DATASET, "99")
    with pytest.raises(UsageError, match="there is no release in"):
        image_in_release(home.store, str(tmp_path), "1")
    other = home_of(tmp_path / "other", small_world(2))
    with pytest.raises(UsageError, match="was not built here"):
        image_in_release(home.store, str(other.release("1.0.0")), "1")
    other.store.close()


def test_a_release_whose_ids_number_images_names_no_person(tmp_path: Path) -> None:
    home = home_of(tmp_path / "home", ccd_world.benchmark().world)
    with pytest.raises(UsageError, match="numbers images, not people"):
        person_in_release(home.store, CCD, "1")
    refuse_two_meanings(home.store, CCD, "1")
    home.store.close()


def test_a_name_that_equals_the_number_of_another_person_is_refused(tmp_path: Path) -> None:
    """Source names 2 and 3 are published as 1 and 2."""
    world = Composer()
    for number, name in enumerate(("2", "3")):
        image = world.image(FINE, name, f"dir/{number}.jpg")
        world.caption(image, FINE, f"A person {number} in a blue coat.")
    home = home_of(tmp_path / "home", world)
    assert {(one.id, one.name) for one in people(home).values()} == {(1, "2"), (2, "3")}
    with pytest.raises(UsageError, match=r"two people.*called '3' by .*--source.*--release"):
        refuse_two_meanings(home.store, DATASET, "2")
    refuse_two_meanings(home.store, DATASET, "3")
    home.store.close()
