"""Write confusing captions, ask people about them, and apply their answers (ReCoS, section 3.3)."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from loupe.checks.grammar import check_grammar, words_in
from loupe.checks.text import SIGNS
from loupe.db.decisions import decide, last_agents
from loupe.db.entities import (
    LIVE,
    AgentRef,
    NewDecision,
    NewEntity,
    StoredEntity,
    Verdict,
    WorkResult,
    fetch_children,
    fetch_parents,
    parents_of,
)
from loupe.flows.answers import (
    UnusableAnswerError,
    Words,
    check_own_words,
    object_schema,
    only_field,
    read_answer,
    read_text,
    text_schema,
    words_of,
)
from loupe.flows.engine.context import PipelineRun
from loupe.flows.engine.model_step import Ask, DatasetModel, LLMStep, Parsed, run_llm_step
from loupe.flows.engine.runner import Stage, run_each, worked_items
from loupe.flows.image_facts import facts_of
from loupe.flows.recos.captioning import MAX_CHARACTERS, Captioning, task_of
from loupe.flows.recos.confusion_checks import (
    ConfusedPair,
    PairVectors,
    check_confusions,
    question,
    truth_differs,
)
from loupe.flows.recos.run import (
    Judge,
    Pair,
    PairKey,
    RecosRun,
    load_pairs,
    load_written,
    originals_of,
    question_filter,
    truths_of,
)
from loupe.prompts.loader import Prompt, load_prompt
from loupe.schemas.chat import ChatAnswer, ChatImage, ChatRequest
from loupe.schemas.proposals import Confusion
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Rejection
from loupe.schemas.recos import ConfusionCheck, ConfusionFinding
from loupe.schemas.requests import CONFUSION_FIELD, CONFUSION_PURPOSE, ConfusionBrief
from loupe.schemas.taxonomy import RetrievalTask

STAGE = CONFUSION_PURPOSE
VERSION = "3"


def request_confusion(image: ChatImage, brief: ConfusionBrief, prompt: Prompt) -> ChatRequest:
    """Return the request for t′, the caption of `image` (x′) in the words of `brief.caption` (t).

    The model is not shown x. The brief may contain anything, including instructions to the model,
    so the prompt marks it as data.
    """
    text, schema = brief.text(), object_schema({CONFUSION_FIELD: text_schema()})
    values = {"brief": text}
    return prompt.request(STAGE, values, subject=text, images=[image], answer_schema=schema)


def read_confusion(answer: ChatAnswer, caption: str, prompt: str) -> str | Rejection:
    """Return the confusing caption in `answer` to `prompt` unchanged, or why it cannot be used.

    Reasons are those of `read_answer`, `only_field`, `read_text` and `check_own_words`
    (`loupe.flows.answers`), and `same_words`: the answer says the same as `caption`, so it is
    right for both images or wrong for the one that was shown.
    """

    def read(found: dict[str, Any]) -> str:
        text = read_text(only_field(found, CONFUSION_FIELD), "The caption", MAX_CHARACTERS, SIGNS)
        if words_of(text) == words_of(caption):
            detail = f"The confusing caption has the same words as the caption: {text!r}."
            raise UnusableAnswerError("same_words", detail)
        check_own_words(text, prompt)
        return text

    return read_answer(answer, STAGE, read)


def sync_confusions(run: RecosRun) -> None:
    """Keep captions and open questions active while their pairs exist.

    Answered questions keep their answers.
    """
    pairs = load_pairs(run)
    exists = {one.entity.id: one.pair in pairs for one in load_written(run)}
    run.sync_active(Caption, lambda one: exists.get(one.id), LIVE)
    is_open = question_filter(run)
    asked = [one.id for one in run.find(Confusion)]
    captions = parents_of(run.store, asked, Role.ASKS_ABOUT)
    images = parents_of(run.store, asked, Role.ASKS_WITH)
    run.sync_active(Confusion, lambda one: is_open(captions[one.id][0], images[one.id][0]))


_SAME_WORDS = "The model described the similar image in the same words."


class _Asked(NamedTuple):
    """A pair, and the prompt that was sent about it."""

    pair: Pair
    prompt: str


class _Answer(NamedTuple):
    """A confusing caption, or why it cannot be used; then people are asked about the pair."""

    text: str | Rejection


def write_confusing_captions(run: RecosRun) -> None:
    """Write a caption of every image of v1 for each caption of its image of v0.

    Work depends on both: a caption of v0 that is changed later gets a new one, and requests for the
    others are not repeated. If an answer is unusable, people are asked about the caption of v0 all
    the same: if the model repeated its words, it may well fit both images.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
    """
    pairs = load_pairs(run)
    written = {one.pair for one in load_written(run)}
    left = [pair for key, pair in pairs.items() if key not in written]
    report = run_llm_step(run.captioner, _of_tasks(run).step(left))
    report.already_done += len(pairs) - len(left)
    run.add(report)


def write_further_captions(run: RecosRun) -> bool:
    """Write another caption for each pair whose captions were all rejected.

    Each pair is asked about in at most `further_rounds` rounds. Returns whether any was.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
    """
    states: dict[PairKey, set[str]] = defaultdict(set)
    for one in load_written(run):
        states[one.pair].add(one.entity.state)
    left = [pair for key, pair in load_pairs(run).items() if states[key] <= {"rejected"}]
    is_any = False
    for number in range(1, run.build.further_rounds + 1):
        step = _of_tasks(run).step(left, number)
        stage = Stage(step.name, step.version, run.dataset, step.configuration)
        asked = worked_items(run.context, stage, [pair.number for pair in left])
        now = [pair for pair in left if pair.number not in asked]
        if now:
            is_any = True
            report = run_llm_step(run.captioner, _of_tasks(run).step(now, number))
            report.asked_model = ""  # a model is judged by its first answers, not where they failed
            run.add(report)
        left = [pair for pair in left if pair.number in asked]
    return is_any


def _of_tasks(run: RecosRun) -> "ConfusionWriting":
    """Return how captions of v1 are written; about a pair without one, people are asked."""
    prompt = load_prompt(run.settings.confusion_prompt)
    settings = run.captioner.settings_of(STAGE, VERSION, prompt)
    parents = run.captioner.written_with(prompt, settings)
    return ConfusionWriting(
        run=run,
        model=run.captioner,
        prompt=prompt,
        settings_id=settings.id,
        pairs=load_pairs(run),
        task_of=task_of,
        links_of=lambda _: parents,
        question_about=_question_without_caption,
    )


@dataclass(frozen=True, kw_only=True)
class ConfusionWriting:
    """How captions of similar images are written in a run.

    Attributes:
        settings_id: the settings that determine the captions.
        pairs: all pairs of the run.
        task_of: returns the task of an image.
        links_of: returns the links of the caption of a pair, besides those to its image and to the
            caption that it is confused with.
        question_about: returns what people are asked about a pair whose answer was unusable.
    """

    run: PipelineRun[Any]
    model: DatasetModel
    prompt: Prompt
    settings_id: str
    pairs: Mapping[PairKey, Pair]
    task_of: Callable[[StoredEntity], RetrievalTask]
    links_of: Callable[[Pair], Sequence[tuple[Role, str]]]
    question_about: Callable[[Pair, Rejection], tuple[NewEntity, ...]] = lambda _pair, _why: ()

    def step(self, asked: Sequence[Pair], further: int = 0) -> LLMStep[Pair, _Asked, _Answer]:
        """Return the step that writes a caption for each pair, at first or in a further round."""
        return LLMStep(
            name=STAGE,
            version=VERSION,
            label="write further confusing captions" if further else "write confusing captions",
            configuration={
                "settings": self.settings_id,
                "input": "pair",
                **({"round": further} if further else {}),
            },
            inputs=[(pair.number, pair) for pair in asked],
            request=partial(self._requests, further=further),
            parse=lambda asked, answer: _Answer(
                read_confusion(answer, asked.pair.caption.record(Caption).text, asked.prompt)
            ),
            outputs=partial(self._outputs, further=further),
            chunk_size=250,  # pairs, about fifty images, which are kept in memory
            in_order=True,  # captions of one image must differ
        )

    def _requests(self, chunk: Sequence[Pair], further: int) -> Iterator[list[Ask[_Asked]]]:
        similar = {pair.similar.id: pair.similar for pair in chunk}
        facts = facts_of(self.run.store, list(similar))
        pictures = {image.id: self.model.picture(image) for image in similar.values()}
        others = load_written(self.run) if further else []
        for pair in chunk:
            texts = [one for one in others if one.pair[0] == pair.similar.id]
            brief = ConfusionBrief(
                task=self.task_of(pair.similar),
                caption=pair.caption.record(Caption).text,
                facts=facts.get(pair.similar.id, ()),
                tried=tuple(one.text for one in texts if one.pair == pair.key),
                taken=tuple(
                    one.text for one in texts if one.pair != pair.key and one.entity.state in LIVE
                ),
            )
            request = request_confusion(pictures[pair.similar.id], brief, self.prompt)
            yield [Ask(_Asked(pair, request.prompt), request)]

    def _outputs(
        self, answers: Sequence[Sequence[Parsed[_Asked, _Answer]]], further: int
    ) -> Iterator[WorkResult]:
        said: dict[str, set[Words]] = defaultdict(set)  # by similar image, also what was rejected
        for one in load_written(self.run):
            if one.pair in self.pairs:
                said[one.pair[0]].add(words_of(one.text))
        for (answer,) in answers:
            pair = answer.subject.pair
            text = _different(answer.value.text, said[pair.similar.id])
            if isinstance(text, Rejection):
                entities = () if further else self.question_about(pair, text)
                yield WorkResult(pair.number, entities=entities, rejection=text)
                continue
            said[pair.similar.id].add(words_of(text))
            position = pair.caption.record(Caption).position
            roles = [*self.links_of(pair), (Role.CONFUSES, pair.caption.id)]
            new = self.model.caption(pair.similar, text, position, roles, answer.call)
            yield WorkResult(pair.number, entities=(new,))


def _question_without_caption(pair: Pair, why: Rejection) -> tuple[NewEntity, ...]:
    warnings = (_SAME_WORDS,) if why.reason == "same_words" else ()
    return question(pair.caption, pair.image, pair.similar, pair.similar, warnings)


def _different(text: str | Rejection, said: set[Words]) -> str | Rejection:
    """Return a caption, or a rejection if another caption of its image says the same."""
    if isinstance(text, Rejection) or words_of(text) not in said:
        return text
    detail = f"Another caption of the image says the same: {text!r}."
    return Rejection.of(STAGE, "same_captions", detail, text=text)


# There are two questions about each pair of captions: whether the new caption does not fit the
# image of v0, and whether the caption of v0 does not fit the new image. Pairs on which the embedder
# is sure are accepted. People see the others, with both images side by side, according to the
# policy of the queue.

_CHECK_STAGE = "check_confusions"
_CHECK_VERSION = "1"
_VERDICTS: dict[str, Verdict] = {"accepted": "accept", "rejected": "reject"}
_FITS_BOTH = "a caption of the image that it should be confused with fits it, too"
_NO_CAPTION = "no caption of it was accepted"
_MAY_FIT_ITS_IMAGE = "The caption that it should be confused with may fit its image as well."
_SENTENCES = {
    ConfusionFinding.CAPTION_FITS_SIMILAR: "It may fit the similar image as well.",
    ConfusionFinding.CONFUSING_FITS_IMAGE: "It may fit the other image as well.",
    ConfusionFinding.MANY_WORDS_CHANGED: "Many of its words differ from those of the caption that "
    "it should be confused with.",
    ConfusionFinding.SAME_WORDS: "Its words are those of the caption that it should be confused "
    "with.",
}


def confusion_warnings(caption: StoredEntity, check: ConfusionCheck) -> tuple[str, ...]:
    """Return what speaks against a confusing caption about which no question is asked."""
    of_pair = {ConfusionFinding.CAPTION_FITS_SIMILAR: _MAY_FIT_ITS_IMAGE}
    found = [of_pair.get(one, _SENTENCES[one]) for one in check.findings]
    faults = check_grammar(caption.record(Caption).text)
    return (*found, *(one.message for one in faults))


def check_pairs(run: RecosRun) -> None:
    """Measure every pair of captions whose new caption is undecided, and propose questions."""
    known = load_pairs(run)
    undecided = [one for one in load_written(run) if one.entity.state == "proposed"]
    pairs = [(known[one.pair], one.entity) for one in undecided if one.pair in known]
    checks = measured_pairs(run.captioning, run.judge, pairs)
    facts = facts_of(run.store, [pair.similar.id for pair, _ in pairs])
    images = [pair.image for pair, _ in pairs] + [pair.similar for pair, _ in pairs]
    originals = originals_of(run.store, images)
    truths = truths_of(run.store, sorted(set(originals.values())))
    stage = Stage(
        name=_CHECK_STAGE,
        version=_CHECK_VERSION,
        dataset=run.dataset,
        configuration={
            "calibration": run.judge.calibration.model_dump(mode="json"),
            "settings": run.settings.confusion.model_dump(mode="json"),
        },
        label="check confusing captions",
    )

    def result(number: int, item: tuple[Pair, StoredEntity, ConfusionCheck]) -> WorkResult:
        """Return the measurement, and the two questions with the warnings about each."""
        pair, confusing, check = item
        text = confusing.record(Caption).text
        own, other = (truths.get(originals[one.id]) for one in (pair.image, pair.similar))
        refuted = set()
        if truth_differs(pair.caption.record(Caption).text, own, other):
            refuted.add(ConfusionFinding.CAPTION_FITS_SIMILAR)
        if truth_differs(text, other, own):
            refuted.add(ConfusionFinding.CONFUSING_FITS_IMAGE)
        warnings = {one: _SENTENCES[one] for one in check.findings if one not in refuted}
        of_old = warnings.pop(ConfusionFinding.CAPTION_FITS_SIMILAR, None)
        words = words_in(facts.get(pair.similar.id, ()))
        faults = [one.message for one in check_grammar(text, known_words=words)]
        similar, old_warnings = pair.similar, [of_old] if of_old else []
        new = question(confusing, similar, pair.image, similar, [*warnings.values(), *faults])
        old = question(pair.caption, pair.image, similar, similar, old_warnings)
        measured = run.create(check, [(Role.MEASURED, confusing.id)])
        return WorkResult(number, entities=(measured, *new, *old))

    checked = zip(pairs, checks, strict=True)
    items = [(confusing.seq, (pair, confusing, check)) for (pair, confusing), check in checked]
    run.add(run_each(run.context, stage, sorted(items, key=itemgetter(0)), result))


def measured_pairs(
    models: Captioning, judge: Judge, pairs: Sequence[tuple[Pair, StoredEntity]]
) -> list[ConfusionCheck]:
    """Return the check of each pair and the caption that was written for it, in order."""
    if not pairs:
        return []
    rows = np.array([judge.places[pair.image.id] for pair, _ in pairs], np.int64)
    texts = [pair.caption.record(Caption).text for pair, _ in pairs]
    confusing = [one.record(Caption).text for _, one in pairs]
    vectors = PairVectors(
        judge.rows[rows],
        models.embed_texts(texts),
        models.embed([pair.similar for pair, _ in pairs]),
        models.embed_texts(confusing),
    )
    asked = list(map(ConfusedPair, texts, confusing, rows.tolist()))
    settings = models.settings.confusion
    return check_confusions(asked, vectors, judge.background, judge.calibration, settings)


def follow_answers(run: RecosRun) -> None:
    """Apply the answers to the questions.

    A new caption is accepted or rejected as it was judged, by the same judge. An image of v1 is
    rejected if a caption of v0 fits it, or if it has no caption left. Answers about inactive
    captions are not applied.
    """
    store, queue = run.store, run.queues["confusions"]
    is_open = question_filter(run)
    asked = run.find(Confusion)
    ids = [one.id for one in asked]
    captions = fetch_parents(store, ids, Role.ASKS_ABOUT)
    images = fetch_parents(store, ids, Role.ASKS_WITH)
    agents = last_agents(store, ids)
    about = [_Question(one, captions[one.id][0], images[one.id][0]) for one in asked]
    questions = [one for one in about if is_open(one.caption.id, one.image.id)]
    fallen = {one.image.id for one in questions if one.rules_out}
    decisions = [NewDecision(one, "reject", queue.agent, _FITS_BOTH) for one in sorted(fallen)]
    for one in questions:
        if one.image.id not in fallen:
            decisions += one.followed(agents.get(one.entity.id, queue.agent))
    decide(store, decisions)
    # images without an accepted or open caption
    live = [image.id for image in run.images_of("v1") if image.state in LIVE]
    below = fetch_children(store, live, Role.DESCRIBES)
    bare = [image for image in live if not any(one.state in LIVE for one in below[image])]
    decide(store, [NewDecision(one, "reject", queue.agent, _NO_CAPTION) for one in bare])


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
