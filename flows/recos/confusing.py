"""Request, parse and store confusing captions (ReCoS, section 3.3)."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from db.entities import LIVE, WorkResult, find, parents_of
from flows.answers import (
    UnusableAnswerError,
    Words,
    object_schema,
    only_field,
    read_answer,
    read_line,
    text_schema,
    words_of,
)
from flows.engine.context import sync_active
from flows.engine.model_step import Ask, LLMStep, Parsed, run_llm_step
from flows.recos.captioning import MAX_CHARACTERS, Captioner, caption_entity, facts_of, task_of
from flows.recos.confusion_checks import question
from flows.recos.run import Pair, PairKey, RecosRun, load_pairs, load_written, question_filter
from prompts.loader import Prompt, load_prompt
from schemas.chat import ChatAnswer, ChatImage, ChatRequest
from schemas.proposals import Confusion
from schemas.provenance import Role
from schemas.records import Caption, Rejection
from schemas.requests import CONFUSION_FIELD, CONFUSION_PURPOSE, ConfusionBrief

STAGE = CONFUSION_PURPOSE
VERSION = "2"


def request_confusion(image: ChatImage, brief: ConfusionBrief, prompt: Prompt) -> ChatRequest:
    """Return the request for t′, the caption of `image` (x′) in the words of `brief.caption` (t).

    The model is not shown x. The brief may contain anything, including instructions to the model,
    so the prompt marks it as data.
    """
    text = brief.text()
    return ChatRequest(
        purpose=STAGE,
        prompt=prompt.render(brief=text),
        prompt_digest=prompt.digest,
        subject=text,
        images=(image,),
        answer_schema=object_schema({CONFUSION_FIELD: text_schema(MAX_CHARACTERS)}),
    )


def read_confusion(answer: ChatAnswer, caption: str) -> str | Rejection:
    """Return the confusing caption in `answer` unchanged, or why it cannot be used.

    Reasons are those of `read_answer`, `only_field` and `read_line` (`flows.answers`), and
    `same_words`: the answer says the same as `caption`, so it is right for both images or wrong for
    the one that was shown.
    """

    def read(found: dict[str, Any]) -> str:
        text = read_line(only_field(found, CONFUSION_FIELD), "The caption", MAX_CHARACTERS)
        if words_of(text) == words_of(caption):
            detail = f"The confusing caption has the same words as the caption: {text!r}."
            raise UnusableAnswerError("same_words", detail)
        return text

    return read_answer(answer, STAGE, read)


def sync_confusions(run: RecosRun) -> None:
    """Keep captions and open questions active while their pairs exist.

    Answered questions keep their answers.
    """
    context, store, dataset = run.context, run.store, run.dataset
    pairs = load_pairs(run)
    exists = {one.entity.id: one.pair in pairs for one in load_written(run)}
    sync_active(context, dataset, Caption.kind, lambda one: exists.get(one.id), states=LIVE)
    is_open = question_filter(run)
    asked = [one.id for one in find(store, dataset, Confusion.kind)]
    captions = parents_of(store, asked, Role.ASKS_ABOUT)
    images = parents_of(store, asked, Role.ASKS_WITH)
    sync_active(
        context,
        dataset,
        Confusion.kind,
        lambda one: is_open(captions[one.id][0], images[one.id][0]),
    )


_SAME_WORDS = "The model described the similar image in the same words."


def write_confusing_captions(run: RecosRun) -> None:
    """Write a caption of every image of v1 for each caption of its image of v0.

    Work depends on both: a caption of v0 that is changed later gets a new one, and requests for the
    others are not repeated.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is unavailable; earlier answers are stored.
    """
    captioner = run.captioner
    prompt = load_prompt(captioner.settings.confusion_prompt)
    settings = captioner.settings_of(STAGE, VERSION, prompt)
    parents = [
        (Role.PROMPTED_BY, captioner.store_prompt(prompt).id),
        (Role.WRITTEN_WITH, settings.id),
    ]
    pairs = load_pairs(run)
    written = {one.pair for one in load_written(run)}
    items = [(pair.number, pair) for key, pair in pairs.items() if key not in written]

    def outputs(answers: Sequence[Sequence[Parsed[Pair, _Answer]]]) -> list[WorkResult]:
        said = _said(run, pairs)
        return [
            _written(captioner, answer, said[answer.subject.similar.id], parents)
            for (answer,) in answers
        ]

    step = LLMStep(
        name=STAGE,
        version=VERSION,
        label="write confusing captions",
        configuration={"settings": settings.id, "input": "pair"},
        inputs=items,
        request=lambda chunk: _requests(captioner, chunk, prompt),
        parse=_parse,
        outputs=outputs,
        chunk_size=250,  # pairs, about fifty images, which are kept in memory
        in_order=True,  # captions of one image must differ
    )
    report = run_llm_step(captioner, step)
    report.already_done += len(pairs) - len(items)
    run.add(report)


class _Answer(NamedTuple):
    """A confusing caption, or why it cannot be used; then people are asked about the pair."""

    text: str | Rejection


def _parse(pair: Pair, answer: ChatAnswer) -> _Answer:
    return _Answer(read_confusion(answer, pair.caption.record(Caption).text))


def _requests(captioner: Captioner, pairs: Sequence[Pair], prompt: Prompt) -> list[list[Ask[Pair]]]:
    """Return the request for each pair; an image is read once."""
    similar = {pair.similar.id: pair.similar for pair in pairs}
    facts = facts_of(captioner.context.store, list(similar))
    pictures = {image.id: captioner.picture(image) for image in similar.values()}
    return [
        [
            Ask(
                pair,
                request_confusion(
                    pictures[pair.similar.id],
                    ConfusionBrief(
                        task=task_of(pair.similar),
                        caption=pair.caption.record(Caption).text,
                        facts=facts.get(pair.similar.id, ()),
                    ),
                    prompt,
                ),
            )
        ]
        for pair in pairs
    ]


def _said(run: RecosRun, pairs: Collection[PairKey]) -> dict[str, set[Words]]:
    """Return the words of the current captions of each image of v1, including rejected ones."""
    said: dict[str, set[Words]] = defaultdict(set)
    for one in load_written(run):
        if one.pair in pairs:
            said[one.pair[0]].add(words_of(one.entity.record(Caption).text))
    return said


def _written(
    captioner: Captioner,
    answer: Parsed[Pair, _Answer],
    said: set[Words],
    parents: Sequence[tuple[Role, str]],
) -> WorkResult:
    """Return the caption written for a pair, and add its words to `said`.

    If the answer is unusable, people are asked about the caption of v0 all the same: if the model
    repeated its words, it may well fit both images.
    """
    pair = answer.subject
    text = _different(answer.value.text, said)
    if isinstance(text, Rejection):
        warnings = (_SAME_WORDS,) if text.reason == "same_words" else ()
        asked = question(pair.caption, pair.image, pair.similar, pair.similar, warnings)
        return WorkResult(pair.number, entities=asked, rejection=text)
    said.add(words_of(text))
    position = pair.caption.record(Caption).position
    roles = [*parents, (Role.CONFUSES, pair.caption.id)]
    new = caption_entity(captioner, pair.similar, text, position, roles, answer.call)
    return WorkResult(pair.number, entities=(new,))


def _different(text: str | Rejection, said: set[Words]) -> str | Rejection:
    """Return a caption, or a rejection if another caption of its image says the same."""
    if isinstance(text, Rejection) or words_of(text) not in said:
        return text
    detail = f"Another caption of the image says the same: {text!r}."
    return Rejection(stage=STAGE, reason="same_captions", detail=detail, context={"text": text})
