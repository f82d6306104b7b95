import pytest

from loupe.db.reviews import (
    StoredAnnotator,
    active_annotators,
    add_annotator,
    annotator_named,
    annotators,
    names_of_annotators,
    pseudonyms,
    set_annotator_state,
)
from loupe.db.store import Store
from loupe.schemas.errors import UsageError

SERVER = "http://desk"


@pytest.mark.usefixtures("database_url")
def test_annotators_are_listed_by_name(store: Store) -> None:
    zoe = add_annotator(store, "Zoë", SERVER, 8, ["annotator"])
    anna = add_annotator(store, "Anna", SERVER, 7, ["annotator", "adjudicator"])
    assert annotators(store) == [anna, zoe]
    assert names_of_annotators(store)[zoe.pseudonym] == "Zoë"
    assert anna == StoredAnnotator(
        anna.pseudonym, "Anna", SERVER, 7, ("adjudicator", "annotator"), "active"
    )


def test_an_annotator_keeps_the_pseudonym_of_the_account(store: Store) -> None:
    before = pseudonyms(store, SERVER, [7])[7]
    anna = add_annotator(store, "Anna", SERVER, 7, ["annotator"])
    ben = add_annotator(store, "Ben", SERVER, 8, ["annotator"])
    assert anna.pseudonym == before
    assert pseudonyms(store, SERVER, [7, 8]) == {7: before, 8: ben.pseudonym}
    assert "anna" not in anna.pseudonym.lower()


def test_adding_an_annotator_again_keeps_the_pseudonym_and_adds_roles(store: Store) -> None:
    first = add_annotator(store, "Anna", SERVER, 7, ["annotator"])
    set_annotator_state(store, "Anna", "left")
    again = add_annotator(store, "Anna", SERVER, 7, ["adjudicator"])
    assert again == first._replace(roles=("adjudicator", "annotator"))
    assert annotators(store) == [again]


def test_a_name_or_account_in_use_cannot_be_added_for_another_annotator(store: Store) -> None:
    anna = add_annotator(store, "Anna", SERVER, 7, ["annotator"])
    for name, user_id in (("Anna", 8), ("Ben", 7)):
        with pytest.raises(UsageError, match="there is already an annotator 'Anna' with account 7"):
            add_annotator(store, name, SERVER, user_id, ["annotator"])
    assert annotators(store) == [anna]


def test_active_annotators_have_the_role_and_have_not_left(store: Store) -> None:
    anna = add_annotator(store, "Anna", SERVER, 1, ["annotator"])
    judge = add_annotator(store, "Judge", SERVER, 2, ["adjudicator"])
    both = add_annotator(store, "Both", SERVER, 3, ["annotator", "adjudicator"])
    add_annotator(store, "Gone", SERVER, 4, ["annotator"])
    former = set_annotator_state(store, "Gone", "left")
    assert former.state == "left"
    assert active_annotators(store, "annotator") == [anna, both]
    assert active_annotators(store, "adjudicator") == [both, judge]
    for state in ("active", "paused"):
        changed = set_annotator_state(store, "Gone", state)
        assert changed in active_annotators(store, "annotator")


def test_an_unknown_annotator_is_an_error_that_lists_the_annotators(store: Store) -> None:
    with pytest.raises(UsageError, match="no annotator 'Ana'; there are: none yet"):
        annotator_named(store, "Ana")
    add_annotator(store, "Anna", SERVER, 1, ["annotator"])
    with pytest.raises(UsageError, match="no annotator 'Ana'; there are: Anna"):
        set_annotator_state(store, "Ana", "left")
