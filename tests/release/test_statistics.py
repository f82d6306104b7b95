import statistics
from collections import Counter
from contextlib import closing

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loupe.release.card.statistics import distribution, words_of
from loupe.release.format.rows import natural_key
from loupe.release.format.scratch import SHOWN, Scratch
from loupe.schemas.release import RepeatStatistics

BUSY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_texts_are_split_into_words() -> None:
    cases: list[tuple[str, list[str]]] = [
        ("", []),
        ("A T-shirt, a woman's bag.", ["a", "t-shirt", "a", "woman's", "bag"]),
        ("She’s in BLUE — jeans", ["she’s", "in", "blue", "jeans"]),
        ("25 years, snake_case", ["25", "years", "snake", "case"]),
    ]
    for text, words in cases:
        assert words_of(text) == words, (text, words)


@BUSY_MACHINE
@given(st.lists(st.integers(0, 300), min_size=1, max_size=200))
def test_a_distribution_equals_statistics_of_sorted_numbers(numbers: list[int]) -> None:
    found = distribution(Counter(numbers))
    ordered = sorted(numbers)
    assert found.mean == round(statistics.fmean(numbers), 2)
    assert (found.count, found.minimum, found.maximum) == (len(numbers), ordered[0], ordered[-1])
    for value, quarters in (
        (found.lower_quartile, 1),
        (found.median, 2),
        (found.upper_quartile, 3),
    ):
        assert value == ordered[max(0, -(-len(ordered) * quarters // 4) - 1)]


def test_natural_order_ignores_leading_zeros() -> None:
    texts = ["a10", "a9", "a", "a09", "b1", "a9b", "a-1"]
    assert sorted(texts, key=natural_key) == ["a", "a09", "a9", "a9b", "a10", "a-1", "b1"]


WORDS = st.sampled_from(["a cat", "A  cat", "a dog\n", "a bus", "a tree"])
IMAGES = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.lists(WORDS, min_size=0, max_size=3)), max_size=25
)


def count_repeats(images: list[tuple[str, list[str]]]) -> RepeatStatistics:
    """The repeats of images that are an identity each."""
    with closing(Scratch()) as scratch:
        for number, (sha256, captions) in enumerate(images):
            scratch.add_repeatable(number, f"images/{number}.jpg", sha256, captions)
        return scratch.repeats()


def test_what_one_identity_repeats_is_no_tie() -> None:
    with closing(Scratch()) as scratch:
        for number, identity in enumerate((7, 7, 8)):
            scratch.add_repeatable(
                identity, f"{number}.jpg", "a", ["A cat."] if identity == 7 else []
            )
        repeats = scratch.repeats()
    assert (repeats.images, repeats.captions) == (3, 0)


@given(IMAGES)
def test_repeats_equal_a_count_of_all_pairs(images: list[tuple[str, list[str]]]) -> None:
    digests = [sha256 for sha256, _ in images]
    normalised = [
        {" ".join(text.casefold().split()) for text in captions} for _, captions in images
    ]
    found = count_repeats(images)
    assert found.images == sum(digests.count(one) > 1 for one in digests)
    assert found.captions == sum(
        any(text in other for at, other in enumerate(normalised) if at != place)
        for place, texts in enumerate(normalised)
        for text in texts
    )
    repeated = [one for one in dict.fromkeys(digests) if digests.count(one) > 1]
    firsts = [digests.index(one) for one in repeated]
    seconds = [digests.index(one, first + 1) for one, first in zip(repeated, firsts, strict=True)]
    pairs = [
        (f"images/{first}.jpg", f"images/{second}.jpg")
        for first, second in zip(firsts, seconds, strict=True)
    ]
    assert list(found.image_pairs) == pairs[:SHOWN]
    assert len(set(found.caption_pairs)) == len(found.caption_pairs)


def test_a_repeated_caption_of_one_image_is_no_repeat() -> None:
    assert count_repeats([("a", ["a cat", "A cat"])]) == RepeatStatistics(images=0, captions=0)
