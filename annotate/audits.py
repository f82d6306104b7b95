"""Audit samples and forced-choice tests."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from loupe.annotate.assignment import Item, draw
from loupe.annotate.queues import Queue, without_left_out
from loupe.db.annotations import counted_answers
from loupe.db.entities import NewEntity, find, new_entity
from loupe.db.review_audits import (
    StoredDraw,
    accepted_items,
    answered_items,
    items_to_audit,
    store_draw,
)
from loupe.db.store import Store
from loupe.schemas.base import Split, digest_of
from loupe.schemas.errors import UsageError
from loupe.schemas.proposals import OPTIONS, ChoiceTest
from loupe.schemas.provenance import Role
from loupe.schemas.quality import Interval, wilson_interval
from loupe.schemas.records import Picture

if TYPE_CHECKING:
    from loupe.retrieval.similarity.ranked import Similarity

# Audit samples of accepted items.
#
# A sample is drawn in proportion from the strata of the accepted items (`allocate`) and reviewed on
# the same page by people who had no part in accepting it. Their answers do not change the items;
# they estimate the share of accepted items that are wrong (`loupe.schemas.quality`).

STRATA = ("split", "source", "verdict")
"""Properties that a sample is stratified by."""
DOUBT = "doubt"
"""The probability of an item to be wrong, by all answers so far, as a property to stratify by."""


class Doubting(Protocol):
    """How doubtful items are; `loupe.annotate.statistics.label_errors.Doubts`."""

    def strata(self, items: Iterable[str]) -> dict[str, str]:
        """Return the stratum of each item."""

    def spreads(self, strata: Mapping[str, str]) -> dict[str, float]:
        """Return how much the items of each stratum vary."""


def draw_audit_sample(
    store: Store,
    queue: Queue,
    size: int,
    seed: int,
    by: Sequence[str] = STRATA,
    annotator: str = "",
    doubts: "Doubting | None" = None,
) -> StoredDraw:
    """Draw a stratified sample of the accepted items of a queue; the next push sends its tasks.

    With an `annotator` (a pseudonym), only items that this person answered are drawn. A sample by
    `DOUBT`, which needs `doubts`, is not in proportion: it has more of the strata whose items vary
    more.

    Raises:
        UsageError: a property to stratify by is unknown, or nothing is accepted.
    """
    if unknown := [name for name in by if name not in (*STRATA, DOUBT)]:
        raise UsageError(
            f"a sample can be stratified by {', '.join((*STRATA, DOUBT))}; got {', '.join(unknown)}"
        )
    accepted = find(store, queue.dataset, queue.kind, states=("accepted",))
    theirs = answered_items(store, queue.name, annotator) if annotator else None
    items = [
        item
        for item in accepted_items(store, without_left_out(store, queue, accepted))
        if theirs is None or item.entity_id in theirs
    ]
    doubt_of = doubts.strata(item.entity_id for item in items) if doubts else {}
    stratum_of: dict[str, str] = {}
    for item in items:
        values = item._asdict() | {DOUBT: doubt_of.get(item.entity_id)}
        stratum_of[item.entity_id] = " · ".join(str(values[name]) for name in by) or "all"
    if not stratum_of:
        whose = f" that {annotator} answered" if annotator else ""
        raise UsageError(
            f"nothing of queue {queue.name!r}{whose} is accepted yet; there is nothing to draw"
        )
    weights = doubts.spreads(stratum_of) if doubts else None
    drawn = draw(stratum_of, size, f"audit {queue.name} {seed}", weights)
    return store_draw(store, queue.name, seed, size, tuple(by), stratum_of, drawn, annotator)


def wanted(store: Store, queue: Queue) -> list[Item]:
    """Return the drawn items without a reviewer, for `assign` with an overlap of one."""
    return [Item(entity_id, past, 0) for entity_id, past in items_to_audit(store, queue.name)]


# The forced-choice test (6-AFC): can people tell a sample from the five most similar ones?
#
# Each random sample has two tests: which of six images fits a caption, and which of six captions
# fits an image. The five distractors are the most similar ones of other identities (CCD, human
# evaluation of quality). The share of correct choices is compared with the published one.

CHOICES_STAGE = "draw-choices"
"""The stage that draws tests; its configuration says by what their options are similar."""
Direction = Literal["caption-to-image", "image-to-caption"]

PUBLISHED: dict[Direction, tuple[float, float]] = {
    "caption-to-image": (0.965, 0.958),
    "image-to-caption": (0.978, 0.975),
}
"""The shares of correct choices of the two testers of CCD."""

EXPECTED = 0.95
"""The minimum that the authors expect."""


class Caption(NamedTuple):
    """A caption of a sample; `row` is its index among all captions."""

    entity_id: str
    text: str
    row: int


class Sample(NamedTuple):
    """An image with its captions; `row` is its index among all images.

    Samples of one identity show the same person or object, so none is a wrong answer for another.
    """

    row: int
    identity: int
    source: str
    split: Split
    picture: Picture
    image_id: str
    captions: tuple[Caption, ...]


class Similarities(NamedTuple):
    """The similarity of images and of captions; rows as in `Sample` and `Caption`."""

    images: "Similarity"
    captions: "Similarity"


class DrawnChoices(NamedTuple):
    """Tests to store, and the samples with fewer than five distractors."""

    tests: tuple[NewEntity, ...]
    lonely: tuple[str, ...]


class ChoiceResult(NamedTuple):
    """The correct choices of a tester in a direction.

    `several` counts the tests in which another option fits, too: the tester chose or ticked one.
    """

    direction: Direction
    tester: str
    correct: int
    total: int
    several: int

    @property
    def share(self) -> float:
        """The share of correct choices, 0 to 1."""
        return self.correct / self.total

    @property
    def interval(self) -> Interval:
        """The 95 % Wilson interval of the share."""
        return wilson_interval(self.correct, self.total)

    @property
    def several_interval(self) -> Interval:
        """The 95 % Wilson interval of the share of tests in which several options fit."""
        return wilson_interval(self.several, self.total)


def draw_choices(
    dataset: str, samples: Sequence[Sample], size: int, seed: int, similarities: Similarities
) -> DrawnChoices:
    """Draw two tests for each of `size` random samples; `samples` are all of the dataset, in order.

    Raises:
        UsageError: there are too few samples for any test.
    """
    if len({sample.identity for sample in samples}) < 2 or len(samples) < OPTIONS:
        raise UsageError(
            f"a forced-choice test needs {OPTIONS} samples of more than one identity; "
            f"{dataset} has {len(samples)}"
        )
    by_image = {sample.image_id: sample for sample in samples}
    drawn = draw(dict.fromkeys(by_image, "all"), size, f"choices {dataset} {seed}")
    of_caption = [(sample, caption) for sample in samples for caption in sample.captions]
    tests: list[NewEntity] = []
    lonely: list[str] = []
    for image_id in drawn:
        sample = by_image[image_id]
        caption = min(sample.captions, key=lambda one: digest_of(str(seed), one.entity_id))
        ranked = similarities.images.ranked(sample.row)
        images = _image_options(sample, (samples[row] for row in ranked))
        ranked = similarities.captions.ranked(caption.row)
        captions = _caption_options(sample, caption, (of_caption[row] for row in ranked))
        made = []
        if len(images) == OPTIONS:
            made.append(_test(dataset, "caption-to-image", sample, [caption], images))
        if len(captions) == OPTIONS:
            made.append(_test(dataset, "image-to-caption", sample, captions, [sample]))
        tests += made
        lonely += [image_id] if len(made) < len(PUBLISHED) else []
    return DrawnChoices(tuple(tests), tuple(lonely))


def _image_options(sample: Sample, ranked: Iterable[Sample]) -> list[Sample]:
    """Return the sample, and the samples with the images that are most similar to its own."""
    options = {sample.picture.sha256: sample}
    for other in ranked:
        if len(options) == OPTIONS:
            break
        if other.identity != sample.identity:
            options.setdefault(other.picture.sha256, other)
    return list(options.values())


def _caption_options(
    sample: Sample, caption: Caption, ranked: Iterable[tuple[Sample, Caption]]
) -> list[Caption]:
    """Return the caption, and the most similar captions of other samples, one of each."""
    options = [caption]
    seen = {one.text for one in sample.captions}
    taken = {sample.image_id}
    for other, text in ranked:
        if len(options) == OPTIONS:
            break
        is_new = other.image_id not in taken and text.text not in seen
        if other.identity != sample.identity and is_new:
            seen.add(text.text)
            taken.add(other.image_id)
            options.append(text)
    return options


def _test(
    dataset: str,
    direction: Direction,
    sample: Sample,
    captions: Sequence[Caption],
    images: Sequence[Sample],
) -> NewEntity:
    """Return a test; the first option is the right one, as pages show them in their own order."""
    record = ChoiceTest(
        source=sample.source,
        direction=direction,
        captions=tuple(caption.text for caption in captions),
        images=tuple(image.picture for image in images),
        answer=0,
    )
    options, questions = [one.image_id for one in images], [one.entity_id for one in captions]
    if direction == "image-to-caption":
        options, questions = questions, options
    asked, *others = options
    parents = [(Role.ASKS_ABOUT, asked), (Role.ASKS_ABOUT, questions[0])]
    parents += [(Role.DISTRACTOR, other) for other in others]
    return new_entity(record, dataset, parents=parents, split=sample.split, group=sample.image_id)


def choice_results(store: Store, queue: Queue) -> list[ChoiceResult]:
    """Return each tester's score in each direction; testers without answers are left out."""
    directions = {
        entity.id: entity.record(ChoiceTest).direction
        for entity in find(store, queue.dataset, ChoiceTest.kind)
        if entity.state != "withdrawn"
    }
    with store.read() as connection:
        answers = counted_answers(connection, queue.name, directions)
    tests: Counter[tuple[Direction, str]] = Counter()
    right: Counter[tuple[Direction, str]] = Counter()
    ambiguous: Counter[tuple[Direction, str]] = Counter()
    for entity_id, found in answers.items():
        for answer in found:
            if answer.purpose == "review":
                correct = answer.answer["verdict"] == "accept"
                several = not correct or bool(answer.answer.get("choices", {}).get("also"))
                key = directions[entity_id], answer.person
                tests[key] += 1
                right[key] += correct
                ambiguous[key] += several
    return [ChoiceResult(*key, right[key], tests[key], ambiguous[key]) for key in sorted(tests)]
