"""The check by choices of six: can people tell a sample from the five that are most like it?

For each of some random samples two tests are made: which of six images a caption belongs to, and
which of six captions an image has. The five others are the most similar ones of other identities
(CCD, human evaluation of quality). Testers pick; the share of right picks is compared with the
published one.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from annotate.queues import Queue
from annotate.similarity import Similarity
from annotate.stratified import draw
from db.annotations import counted_answers
from db.entities import NewEntity, find, new_entity
from db.store import Store
from schemas.base import digest_of
from schemas.errors import UsageError
from schemas.proportion import Interval, wilson_interval
from schemas.proposals import Picture
from schemas.quality import OPTIONS, ChoiceTest
from schemas.records import Split

Direction = Literal["caption-to-image", "image-to-caption"]

ASKS_ABOUT = "asks_about"
DISTRACTOR = "distractor"
"""The roles in which a test is derived from the sample that it asks about, and from the others."""

PUBLISHED: dict[Direction, tuple[float, float]] = {
    "caption-to-image": (0.965, 0.958),
    "image-to-caption": (0.978, 0.975),
}
"""What the two testers of CCD had right."""

EXPECTED = 0.95
"""What the authors expect at least."""


class Caption(NamedTuple):
    """A caption of a sample; `row` is its number among all captions."""

    entity_id: str
    text: str
    row: int


class Sample(NamedTuple):
    """An image with its captions; `row` is its number among all images.

    Samples of one identity show the same person or thing: none is a wrong answer for the other.
    """

    row: int
    identity: int
    source: str
    split: Split
    picture: Picture
    image_id: str
    captions: tuple[Caption, ...]


class Similarities(NamedTuple):
    """What makes images similar, and what captions; rows as in `Sample` and `Caption`."""

    images: Similarity
    captions: Similarity


class DrawnChoices(NamedTuple):
    """Tests about to be stored, and the samples that there were not five others for."""

    tests: tuple[NewEntity, ...]
    lonely: tuple[str, ...]


class ChoiceResult(NamedTuple):
    """How often a tester picked the right one of six in a direction."""

    direction: Direction
    tester: str
    correct: int
    total: int

    @property
    def share(self) -> float:
        """The share of right picks, 0 to 1."""
        return self.correct / self.total

    @property
    def interval(self) -> Interval:
        """The 95 % Wilson interval of the share."""
        return wilson_interval(self.correct, self.total)


def draw_choices(
    dataset: str, samples: Sequence[Sample], size: int, seed: int, similarities: Similarities
) -> DrawnChoices:
    """Two tests for each of `size` random samples; `samples` are all of the dataset, in order.

    Raises:
        UsageError: there are too few samples for any test.
    """
    if len({sample.identity for sample in samples}) < 2 or len(samples) < OPTIONS:
        raise UsageError(
            f"a choice test needs {OPTIONS} samples of more than one identity; {dataset} has "
            f"{len(samples)}"
        )
    by_image = {sample.image_id: sample for sample in samples}
    drawn = draw(dict.fromkeys(by_image, "all"), size, f"choices {dataset} {seed}")
    maker = _TestMaker(dataset, samples, seed, similarities)
    tests: list[NewEntity] = []
    lonely: list[str] = []
    for image_id in drawn:
        made = maker.tests(by_image[image_id])
        tests += made
        lonely += [image_id] if len(made) < len(PUBLISHED) else []
    return DrawnChoices(tuple(tests), tuple(lonely))


class _TestMaker:
    """Makes the tests of one draw."""

    def __init__(
        self, dataset: str, samples: Sequence[Sample], seed: int, similarities: Similarities
    ) -> None:
        self._dataset = dataset
        self._samples = samples
        self._seed = seed
        self._similarities = similarities
        self._of_caption = [(sample, caption) for sample in samples for caption in sample.captions]

    def tests(self, sample: Sample) -> list[NewEntity]:
        """The tests of a sample, in both directions where there are five others for each."""
        caption = min(sample.captions, key=lambda one: digest_of(str(self._seed), one.entity_id))
        images = self._other_images(sample)
        captions = self._other_captions(sample, caption)
        made = []
        if len(images) == OPTIONS:
            made.append(self._test("caption-to-image", sample, [caption], images))
        if len(captions) == OPTIONS:
            made.append(self._test("image-to-caption", sample, captions, [sample]))
        return made

    def _other_images(self, sample: Sample) -> list[Sample]:
        """The sample, and the samples with the images that are most like its own."""
        options = [sample]
        seen = {sample.picture.sha256}
        for row in self._similarities.images.ranked(sample.row):
            other = self._samples[row]
            if other.identity != sample.identity and other.picture.sha256 not in seen:
                seen.add(other.picture.sha256)
                options.append(other)
            if len(options) == OPTIONS:
                break
        return options

    def _other_captions(self, sample: Sample, caption: Caption) -> list[Caption]:
        """The caption, and the captions of other samples that are most like it, one of each."""
        options = [caption]
        seen = {one.text for one in sample.captions}
        taken = {sample.image_id}
        for row in self._similarities.captions.ranked(caption.row):
            other, text = self._of_caption[row]
            is_new = other.image_id not in taken and text.text not in seen
            if other.identity != sample.identity and is_new:
                seen.add(text.text)
                taken.add(other.image_id)
                options.append(text)
            if len(options) == OPTIONS:
                break
        return options

    def _test(
        self,
        direction: Direction,
        sample: Sample,
        captions: Sequence[Caption],
        images: Sequence[Sample],
    ) -> NewEntity:
        """A test; the right option is the first, as pages show them in an order of their own."""
        record = ChoiceTest(
            source=sample.source,
            direction=direction,
            captions=tuple(caption.text for caption in captions),
            images=tuple(image.picture for image in images),
            answer=0,
        )
        asked, *others = (
            [image.image_id for image in images]
            if direction == "caption-to-image"
            else [caption.entity_id for caption in captions]
        )
        question = captions[0].entity_id if direction == "caption-to-image" else images[0].image_id
        parents = [(ASKS_ABOUT, asked), (ASKS_ABOUT, question)]
        parents += [(DISTRACTOR, other) for other in others]
        return new_entity(
            record, self._dataset, parents=parents, split=sample.split, group=sample.image_id
        )


def choice_results(store: Store, queue: Queue) -> list[ChoiceResult]:
    """What each tester had right in each direction, in order; who answered nothing is left out."""
    directions = {
        entity.id: entity.record(ChoiceTest).direction
        for entity in find(store, queue.dataset, ChoiceTest.kind)
        if entity.state != "withdrawn"
    }
    counts: dict[tuple[Direction, str], list[bool]] = defaultdict(list)
    for entity_id, tester, correct in _picks(store, queue, list(directions)):
        counts[directions[entity_id], tester].append(correct)
    return [
        ChoiceResult(direction, tester, sum(correct), len(correct))
        for (direction, tester), correct in sorted(counts.items())
    ]


def _picks(
    store: Store, queue: Queue, entity_ids: Sequence[str]
) -> Iterator[tuple[str, str, bool]]:
    with store.read() as connection:
        answers = counted_answers(connection, queue.name, entity_ids)
    for found in answers.values():
        for answer in found:
            if answer.purpose == "review":
                yield answer.entity_id, answer.person, answer.answer["verdict"] == "accept"
