"""Rows of a release by what captions state of the people in them."""

from collections import Counter
from types import SimpleNamespace
from typing import cast

from loupe.release.card.strata import (
    FEWEST_PEOPLE,
    count_strata,
    strata_hint,
    strata_of_rows,
)
from loupe.release.format.row_files import ReadRelease


def read(texts: list[str], *, of_persons: bool | None) -> ReadRelease:
    rows = [
        SimpleNamespace(id=number, captions=[SimpleNamespace(text=text)])
        for number, text in enumerate(texts, 1)
    ]
    manifest = SimpleNamespace(form=object(), of_persons=of_persons)
    return cast("ReadRelease", SimpleNamespace(rows=rows, manifest=manifest))


def test_strata_of_few_people_are_marked() -> None:
    texts = ["A woman in a dress."] * FEWEST_PEOPLE + ["An elderly man in jeans."]
    strata = strata_of_rows(read(texts, of_persons=True))
    assert strata["sex"] == ["female"] * FEWEST_PEOPLE + ["male (few)"]
    assert strata["age"] == ["not stated"] * FEWEST_PEOPLE + ["elderly (few)"]
    assert strata["clothing"][-1] == "trousers (few)"


def test_images_and_identities_of_each_stratum_are_counted() -> None:
    """Rows 1 and 2 are of one identity, and their captions state different ages."""
    texts = ["An elderly man.", "A young man.", "A young man.", "A woman.", "A child."]
    found = read(texts, of_persons=True)
    found.rows[1].id = 1  # type: ignore[misc]
    counted = count_strata(found.manifest, found.rows)
    of_age = [
        (one.stratum, one.identities, one.images) for one in counted if one.dimension == "age"
    ]
    assert of_age == [("young", 2, 2), ("child", 1, 1), ("elderly", 1, 1), ("not stated", 1, 1)]
    by_dimension: Counter[str] = Counter()
    for one in counted:
        by_dimension[one.dimension] += one.images
    assert by_dimension == {"sex": len(texts), "age": len(texts)}
    nothing = read(["A person."], of_persons=True)
    assert count_strata(nothing.manifest, nothing.rows) == ()
    assert Counter(strata_of_rows(found)["age"]) == {f"{one} (few)": n for one, _, n in of_age}


def test_a_release_of_things_has_no_strata() -> None:
    things = read(["A woman in a dress."], of_persons=False)
    assert strata_of_rows(things) == {}
    assert count_strata(things.manifest, things.rows) == ()


def test_a_pipeline_that_says_nothing_is_about_people_if_most_of_its_captions_are() -> None:
    person = "A young man, with fair skin, wears a grey sweater and yellow long jeans."
    mostly = read([person, person, "A bus."], of_persons=None)
    assert strata_of_rows(mostly)["sex"] == ["male (few)", "male (few)", "not stated (few)"]
    assert strata_hint(mostly) is None
    things = read([person, "A bus.", "A red lamp."], of_persons=None)
    assert (strata_of_rows(things), strata_hint(things)) == ({}, None)
    assert count_strata(mostly.manifest, mostly.rows)
    assert count_strata(things.manifest, things.rows) == ()


def test_strata_that_are_off_are_named_where_captions_are_about_people() -> None:
    hint = strata_hint(read(["A woman in a dress."], of_persons=False))
    assert hint is not None
    assert "'person'" in hint
