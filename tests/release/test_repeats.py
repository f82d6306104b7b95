"""Statistics of repeated images and captions equal a count of all pairs."""

from hypothesis import given
from hypothesis import strategies as st

from release.scratch import Scratch
from release.statistics import SHOWN, Repeats
from schemas.release import RepeatStatistics

WORDS = st.sampled_from(["a cat", "A  cat", "a dog\n", "a bus", "a tree"])
IMAGES = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.lists(WORDS, min_size=0, max_size=3)), max_size=25
)


def count_repeats(images: list[tuple[str, list[str]]]) -> RepeatStatistics:
    scratch = Scratch()
    repeats = Repeats(scratch)
    for number, (sha256, captions) in enumerate(images):
        repeats.add(f"images/{number}.jpg", sha256, captions)
    found = repeats.result()
    scratch.close()
    return found


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


def test_a_repeated_caption_of_one_image_is_no_repeat() -> None:
    assert count_repeats([("a", ["a cat", "A cat"])]) == RepeatStatistics(images=0, captions=0)
