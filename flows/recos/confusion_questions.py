"""Ask people about confusing captions, and apply their answers.

There are two questions about each pair of captions: whether the new caption does not fit the image
of v0, and whether the caption of v0 does not fit the new image. Pairs on which the embedder is sure
are accepted. People see the others, with both images side by side, according to the policy of the
queue.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from db.decisions import decide, last_agents
from db.entities import (
    LIVE,
    AgentRef,
    NewDecision,
    StoredEntity,
    Verdict,
    WorkResult,
    fetch_children,
    fetch_parents,
    find,
    new_entity,
)
from db.store import Store
from flows.engine.report import StageReport
from flows.engine.runner import Stage, run_each
from flows.grammar import check_grammar, words_of
from flows.recos.captioning import facts_of, truths_of
from flows.recos.confusion_checks import (
    STAGE,
    VERSION,
    ConfusedPair,
    PairVectors,
    check_confusions,
    question,
    truth_differs,
)
from flows.recos.run import RecosRun, load_pairs, load_written, question_filter
from flows.recos.task_images import embed_stored, images_of_tier, originals_of
from schemas.proposals import Confusion
from schemas.provenance import Role
from schemas.records import Caption
from schemas.recos import ConfusionCheck, ConfusionFinding

_VERDICTS: dict[str, Verdict] = {"accepted": "accept", "rejected": "reject"}
_FITS_BOTH = "a caption of the image that it should be confused with fits it, too"
_NO_CAPTION = "no caption of it was accepted"
_SENTENCES = {
    ConfusionFinding.CAPTION_FITS_SIMILAR: "It may fit the similar image as well.",
    ConfusionFinding.CONFUSING_FITS_IMAGE: "It may fit the other image as well.",
    ConfusionFinding.MANY_WORDS_CHANGED: "Many of its words differ from those of the caption that "
    "it should be confused with.",
    ConfusionFinding.SAME_WORDS: "Its words are those of the caption that it should be confused "
    "with.",
}


def check_pairs(run: RecosRun) -> StageReport:
    """Measure every pair of captions whose new caption is undecided, and propose questions."""
    pairs = list(_pairs(run))
    checks = _measured(run, pairs) if pairs else []
    facts = facts_of(run.store, [pair.similar.id for pair in pairs])
    known = _known_apart(run.store, pairs)
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=run.dataset,
        configuration={
            "calibration": run.judge.calibration.model_dump(mode="json"),
            "settings": run.settings.confusion.model_dump(mode="json"),
        },
        label="check confusing captions",
    )
    items = [(pair.confusing.seq, (pair, check)) for pair, check in zip(pairs, checks, strict=True)]

    def result(number: int, measured: tuple[_Pair, ConfusionCheck]) -> WorkResult:
        pair, check = measured
        return _questions(number, pair, check, facts.get(pair.similar.id, ()), known[pair])

    return run_each(run.context, stage, sorted(items, key=lambda one: one[0]), result)


def follow_answers(run: RecosRun) -> int:
    """Apply the answers to the questions; return how many images of v1 were rejected.

    A new caption is accepted or rejected as it was judged, by the same judge. An image of v1 is
    rejected if a caption of v0 fits it, or if it has no caption left. Answers about inactive
    captions are not applied.
    """
    store, queue = run.store, run.queues["confusions"]
    is_open = question_filter(run)
    asked = list(find(store, run.dataset, Confusion.kind))
    ids = [one.id for one in asked]
    captions = fetch_parents(store, ids, Role.ASKS_ABOUT)
    images = fetch_parents(store, ids, Role.ASKS_WITH)
    agents = last_agents(store, ids)
    about = [_Question(one, captions[one.id][0], images[one.id][0]) for one in asked]
    questions = [one for one in about if is_open(one.caption.id, one.image.id)]
    fallen = {one.image.id for one in questions if one.rules_out}
    decisions = [
        NewDecision(image_id, "reject", queue.agent, _FITS_BOTH) for image_id in sorted(fallen)
    ]
    for one in questions:
        if one.image.id not in fallen:
            decisions += one.followed(agents.get(one.entity.id, queue.agent))
    decide(store, decisions)
    return len(fallen) + _reject_bare(run)


def _reject_bare(run: RecosRun) -> int:
    """Reject the images of v1 without an accepted or open caption; return their number."""
    images = images_of_tier(run.store, run.dataset, "v1")
    live = [image.id for image in images if image.state in LIVE]
    below = fetch_children(run.store, live, Role.DESCRIBES)
    bare = [image for image in live if not any(one.state in LIVE for one in below[image])]
    agent = run.queues["confusions"].agent
    decide(run.store, [NewDecision(one, "reject", agent, _NO_CAPTION) for one in bare])
    return len(bare)


class _Question(NamedTuple):
    """A question, its caption, and the image of v1 that it concerns."""

    entity: StoredEntity
    caption: StoredEntity
    image: StoredEntity

    @property
    def is_of_new(self) -> bool:
        """Whether it is about a caption that was written for the image of v1."""
        return self.entity.record(Confusion).own.image_id == self.image.id

    @property
    def rules_out(self) -> bool:
        """Whether the answer is that a caption of v0 fits the image of v1."""
        return self.entity.state == "rejected" and not self.is_of_new

    def followed(self, agent: AgentRef) -> list[NewDecision]:
        """Return the decision on the caption that follows from the answer of `agent`."""
        if not self.is_of_new or self.entity.state not in _VERDICTS:
            return []
        if self.caption.state not in ("proposed", *_VERDICTS):
            return []
        reason = f"as the question {self.entity.id[:12]} was answered"
        return [NewDecision(self.caption.id, _VERDICTS[self.entity.state], agent, reason)]


class _Pair(NamedTuple):
    """A caption t of an image x, and the confusing caption t′ of the similar image x′."""

    image: StoredEntity
    caption: StoredEntity
    similar: StoredEntity
    confusing: StoredEntity


def _pairs(run: RecosRun) -> Iterator[_Pair]:
    """Return all pairs whose confusing caption is undecided."""
    pairs = load_pairs(run)
    for one in load_written(run):
        if one.entity.state == "proposed" and one.pair in pairs:
            pair = pairs[one.pair]
            yield _Pair(pair.image, pair.caption, pair.similar, one.entity)


def _measured(run: RecosRun, pairs: Sequence[_Pair]) -> list[ConfusionCheck]:
    judge, embedder = run.judge, run.embedder
    numbers = {image.id: number for number, image in enumerate(run.base.images)}
    rows = np.array([numbers[pair.image.id] for pair in pairs], np.int64)
    texts = [pair.caption.record(Caption).text for pair in pairs]
    confusing = [pair.confusing.record(Caption).text for pair in pairs]
    vectors = PairVectors(
        judge.rows[rows],
        embedder.embed_texts(texts),
        embed_stored(run.context, embedder, [pair.similar for pair in pairs]),
        embedder.embed_texts(confusing),
    )
    asked = [
        ConfusedPair(caption, other, int(row))
        for caption, other, row in zip(texts, confusing, rows, strict=True)
    ]
    settings = run.settings.confusion
    return check_confusions(asked, vectors, judge.background, judge.calibration, settings)


def _known_apart(store: Store, pairs: Sequence[_Pair]) -> dict[_Pair, frozenset[ConfusionFinding]]:
    """Return findings of an embedder that are refuted by what was drawn into both images."""
    originals = originals_of(store, [one for pair in pairs for one in (pair.image, pair.similar)])
    truths = truths_of(store, sorted(set(originals.values())))

    def findings(pair: _Pair) -> Iterator[ConfusionFinding]:
        own, other = (truths.get(originals[one.id]) for one in (pair.image, pair.similar))
        if truth_differs(pair.caption.record(Caption).text, own, other):
            yield ConfusionFinding.CAPTION_FITS_SIMILAR
        if truth_differs(pair.confusing.record(Caption).text, other, own):
            yield ConfusionFinding.CONFUSING_FITS_IMAGE

    return {pair: frozenset(findings(pair)) for pair in pairs}


def _questions(
    number: int,
    pair: _Pair,
    check: ConfusionCheck,
    facts: Sequence[str],
    known_apart: frozenset[ConfusionFinding],
) -> WorkResult:
    """Return the measurement, and the two questions with the warnings about each.

    Args:
        number: number of the work item.
        pair: the captions and their images.
        check: the measurement.
        facts: known facts of the similar image, whose words are correct.
        known_apart: findings that are refuted.
    """
    dataset = pair.confusing.dataset
    measured = new_entity(check, dataset, parents=[(Role.MEASURED, pair.confusing.id)])
    of_old = {ConfusionFinding.CAPTION_FITS_SIMILAR}
    found = [one for one in check.findings if one not in known_apart]
    warnings_old = [_SENTENCES[one] for one in found if one in of_old]
    warnings_new = [_SENTENCES[one] for one in found if one not in of_old]
    faults = check_grammar(pair.confusing.record(Caption).text, known_words=words_of(facts))
    warnings_new += [one.message for one in faults]
    entities = [measured]
    similar = pair.similar
    entities += question(pair.confusing, similar, pair.image, similar, warnings_new)
    entities += question(pair.caption, pair.image, similar, similar, warnings_old)
    return WorkResult(number, entities=tuple(entities))
