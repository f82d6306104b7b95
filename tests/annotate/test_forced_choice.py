"""The forced-choice test (6-AFC): its questions and its results."""

import numpy as np
import pytest

from loupe.annotate.audits import (
    PUBLISHED,
    Caption,
    Sample,
    Similarities,
    choice_results,
    draw_choices,
)
from loupe.annotate.queues import shipped
from loupe.db.entities import NewEntity
from loupe.db.store import Store
from loupe.retrieval.similarity.ranked import Similarity, word_similarity
from loupe.schemas.errors import UsageError
from loupe.schemas.proposals import ChoiceTest
from loupe.schemas.provenance import Role
from loupe.schemas.records import Picture
from tests.db.review_samples import Desk
from tests.db.samples import store_entities

QUEUE = shipped().queue("people", "choices")
COLOURS = ["red", "orange", "yellow", "green", "blue", "violet", "black", "white"]


def sample(row: int, text: str, identity: int | None = None) -> Sample:
    picture = Picture(
        sha256=f"{row:064x}",
        media_type="image/png",
        width_px=1,
        height_px=1,
        image_id=f"{row:032x}",
    )
    captions = tuple(
        Caption(f"{row:016x}{number:016x}", caption, 2 * row + number)
        for number, caption in enumerate((text, f"seen is {text}"))
    )
    return Sample(
        row,
        row if identity is None else identity,
        "street",
        "test",
        picture,
        f"{row:032x}",
        captions,
    )


def samples(count: int = 8) -> list[Sample]:
    return [sample(row, f"a {COLOURS[row % 8]} coat {row}") for row in range(count)]


def words(all_samples: list[Sample]) -> Similarities:
    captions = word_similarity([c.text for one in all_samples for c in one.captions])
    return Similarities(word_similarity([one.captions[0].text for one in all_samples]), captions)


def records(tests: tuple[NewEntity, ...]) -> list[ChoiceTest]:
    return [ChoiceTest.model_validate_json(test.payload) for test in tests]


def test_each_sample_has_a_test_in_both_directions() -> None:
    drawn = draw_choices("people", samples(), 5, 1, words(samples()))
    assert drawn.lonely == ()
    directions = [record.direction for record in records(drawn.tests)]
    assert sorted(directions) == sorted(list(PUBLISHED) * 5)
    assert len({test.group for test in drawn.tests}) == 5
    for test in drawn.tests:
        roles = [role for role, _ in test.parents]
        assert (roles.count(Role.ASKS_ABOUT), roles.count(Role.DISTRACTOR)) == (2, 5)
        assert test.split == "test"


def test_the_draw_depends_on_the_seed() -> None:
    first, again, other = (
        draw_choices("people", samples(), 3, s, words(samples())) for s in (1, 1, 2)
    )
    assert first == again
    assert {test.group for test in first.tests} != {test.group for test in other.tests}


def test_distractors_are_the_most_similar_samples() -> None:
    """With embeddings on a line, the nearest samples of number 10 are its neighbours."""
    line = [sample(row, f"number {row}") for row in range(21)]
    angles = np.linspace(0, 1, 21)
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    twice = np.repeat(directions, 2, axis=0)
    found_by = Similarities(
        Similarity("line", lambda row: directions @ directions[row]),
        Similarity("line", lambda row: twice @ twice[row]),
    )
    drawn = draw_choices("people", line, 21, 1, found_by)
    middle = [
        record
        for test, record in zip(drawn.tests, records(drawn.tests), strict=True)
        if test.group == line[10].image_id
    ]
    images, captions = sorted(middle, key=lambda record: record.direction)
    numbers = {int(picture.sha256, 16) for picture in images.images}
    assert numbers in ({8, 9, 10, 11, 12, 7}, {8, 9, 10, 11, 12, 13})
    assert {text.split()[-1] for text in captions.captions} <= set(map(str, range(7, 14)))
    assert captions.captions[captions.answer].split()[-1] == "10"
    assert images.images[images.answer].sha256 == line[10].picture.sha256


def test_options_contain_no_second_match_and_no_caption_twice() -> None:
    same_person = [sample(row, f"a red coat {row}", identity=0) for row in range(3)]
    same_words = [sample(row, "a red coat", identity=row) for row in range(3, 9)]
    others = [sample(row, f"a {COLOURS[row % 8]} hat {row}") for row in range(9, 20)]
    all_samples = [*same_person, *same_words, *others]
    identity_of = {one.picture.sha256: one.identity for one in all_samples}
    drawn = draw_choices("people", all_samples, 20, 1, words(all_samples))
    for record in records(drawn.tests):
        identities = [identity_of[picture.sha256] for picture in record.images]
        assert identities.count(identities[record.answer if len(identities) > 1 else 0]) == 1
        assert len(set(record.captions)) == len(record.captions)


def test_samples_without_five_distractors_are_reported() -> None:
    twins = [sample(row, f"a coat {row}", identity=row // 7) for row in range(8)]
    drawn = draw_choices("people", twins, 8, 1, words(twins))
    assert len(drawn.lonely) == 7
    assert len(drawn.tests) == 2
    with pytest.raises(UsageError, match="needs 6 samples of more than one identity"):
        draw_choices("people", samples(5), 8, 1, words(samples(5)))
    alone = [sample(row, f"a coat {row}", identity=1) for row in range(8)]
    with pytest.raises(UsageError, match="more than one identity"):
        draw_choices("people", alone, 8, 1, words(alone))


def test_results_are_grouped_by_direction_and_annotator(sqlite_store: Store) -> None:
    drawn = draw_choices("people", samples(), 4, 1, words(samples()))
    tests = [test._replace(parents=()) for test in drawn.tests]
    store_entities(sqlite_store, tests)
    desk = Desk(sqlite_store, QUEUE.name)
    by_direction: dict[str, list[str]] = {direction: [] for direction in PUBLISHED}
    for test, record in zip(tests, records(drawn.tests), strict=True):
        by_direction[record.direction].append(test.id)
    for test_id in by_direction["caption-to-image"]:
        desk.answer(test_id, "a")
    first, *others = by_direction["image-to-caption"]
    desk.answer(first, "a", "reject")
    for test_id in others:
        desk.answer(test_id, "a")
    desk.answer(first, "b", choices={"pick": ["1"], "also": ["4"]})
    found = choice_results(sqlite_store, QUEUE)
    assert found == [
        ("caption-to-image", "a", 4, 4, 0),
        ("image-to-caption", "a", 3, 4, 1),
        ("image-to-caption", "b", 1, 1, 1),
    ]
    assert [one.share for one in found] == [1.0, 0.75, 1.0]
    assert found[1].interval.lower < 0.75 < found[1].interval.upper
