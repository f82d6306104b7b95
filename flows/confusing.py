"""Writes the captions of v1: in the words of captions of v0, and true of their own images only."""

from collections import defaultdict
from collections.abc import Sequence

from annotate.drafts import PROMPTED_BY
from db.work import WorkResult
from flows.asking import ask, require_answers, without_answer
from flows.captioning import WRITTEN_WITH, Captioner, caption_entity, facts_of, task_of
from flows.confused_pairs import CONFUSES, Pair, load_pairs, load_written
from flows.confusion_questions import question
from flows.report import StageReport, StageResult
from flows.rewriting import store_prompt
from flows.runner import Stage, run_stream
from flows.similar_images import Begun
from prompts.loader import Prompt, load_prompt
from schemas.chat import ChatAnswer, ChatOutcome, ChatRequest
from schemas.confusion_request import ConfusionBrief
from schemas.records import Caption, Rejection
from stages.caption_images.request import MAX_CHARACTERS
from stages.caption_words import Words, words_of
from stages.confusing_captions.request import STAGE, VERSION, read_confusion, request_confusion

_SAME_WORDS = "The model described the similar image in the same words."


def write_confusing_captions(captioner: Captioner, begun: Begun) -> StageReport:
    """Has for every image of v1 a caption written to each caption of its image of v0.

    Work hangs on both: a caption of v0 that people changed later has one written to it, and nothing
    is asked again of the others.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is gone; what came back before is stored.
    """
    context, dataset = captioner.context, captioner.dataset
    prompt = load_prompt(captioner.settings.confusion_prompt)
    prompt_entity = store_prompt(context, dataset, prompt)
    settings = captioner.settings_of(STAGE, VERSION, prompt)
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={"settings": settings.id, "input": "pair"},
        agents=(captioner.agent,),
        chunk_size=250,  # of pairs: some fifty pictures, which are held
        workers=1,
        label="write confusing captions",
    )
    parents = [(PROMPTED_BY, prompt_entity.id), (WRITTEN_WITH, settings.id)]
    pairs = load_pairs(context.store, dataset, begun)
    written = {one.pair for one in load_written(context.store, dataset)}
    items = [(pair.number, pair) for pair in pairs if pair.key not in written]

    def work(items: Sequence[tuple[int, Pair]]) -> list[StageResult]:
        chunk = [pair for _, pair in items]
        requests = _requests(captioner, chunk, prompt)
        outcomes = ask(captioner.model, requests)
        said = _said(captioner, pairs)
        return [
            _written(captioner, pair, request, outcomes.get(place), said[pair.similar.id], parents)
            for place, (pair, request) in enumerate(zip(chunk, requests, strict=True))
        ]

    report = run_stream(context, stage, items, work, total=len(items))
    report.already_done += len(pairs) - len(items)
    require_answers(captioner.settings.model.ref, report)
    return report


def _requests(captioner: Captioner, pairs: Sequence[Pair], prompt: Prompt) -> list[ChatRequest]:
    """What the model is asked for each pair; an image is read once."""
    similar = {pair.similar.id: pair.similar for pair in pairs}
    facts = facts_of(captioner.context.store, list(similar))
    pictures = {image.id: captioner.picture(image) for image in similar.values()}
    return [
        request_confusion(
            pictures[pair.similar.id],
            ConfusionBrief(
                task=task_of(pair.similar),
                caption=pair.caption.record(Caption).text,
                facts=facts.get(pair.similar.id, ()),
            ),
            prompt,
            MAX_CHARACTERS,
        )
        for pair in pairs
    ]


def _said(captioner: Captioner, pairs: Sequence[Pair]) -> dict[str, set[Words]]:
    """The words of the captions of each image of v1 by now, whatever was decided on them."""
    standing = {pair.key for pair in pairs}
    said: dict[str, set[Words]] = defaultdict(set)
    for one in load_written(captioner.context.store, captioner.dataset):
        if one.pair in standing:
            said[one.pair[0]].add(words_of(one.entity.record(Caption).text))
    return said


def _written(
    captioner: Captioner,
    pair: Pair,
    request: ChatRequest,
    outcome: ChatOutcome | None,
    said: set[Words],
    parents: Sequence[tuple[str, str]],
) -> StageResult:
    """What was written for a pair, which joins `said`.

    Of an answer that is no use, people are asked of the caption of v0 all the same: where the model
    gave back its words, it may well fit both.
    """
    if not isinstance(outcome, ChatAnswer):
        failed = without_answer(pair.similar, STAGE, outcome)
        return failed._replace(input=pair.number)
    caption = pair.caption.record(Caption)
    text = _different(read_confusion(outcome, caption.text, MAX_CHARACTERS), said)
    if isinstance(text, Rejection):
        doubts = (_SAME_WORDS,) if text.reason == "same_words" else ()
        asked = question(pair.caption, pair.image, pair.similar, pair.similar, doubts)
        return WorkResult(pair.number, entities=asked, rejection=text)
    said.add(words_of(text))
    call = captioner.model.key(request)
    roles = [*parents, (CONFUSES, pair.caption.id)]
    new = caption_entity(captioner, pair.similar, text, caption.position, roles, call)
    return WorkResult(pair.number, entities=(new,))


def _different(text: str | Rejection, said: set[Words]) -> str | Rejection:
    """A caption, or why it is no use where others of its image say it already."""
    if isinstance(text, Rejection) or words_of(text) not in said:
        return text
    detail = f"Another caption of the image says the same: {text!r}."
    return Rejection(stage=STAGE, reason="same_captions", detail=detail, context={"text": text})
