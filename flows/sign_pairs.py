"""Has the model that writes captions write further pairs of texts for signs to translate.

Every answer is stored as it comes, so that a run again asks nothing twice and draws from the same
pairs. What is drawn from them is derived from them, and they name their call: their translations
are a model's word.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from annotate.drafts import PROMPTED_BY
from db.entities import NewEntity, new_entity
from db.work import WorkResult
from flows.asked_model import AskedModel
from flows.asking import ask, require_answers
from flows.captioning import WRITTEN_WITH
from flows.report import Deferred, StageReport, StageResult
from flows.rewriting import store_prompt
from flows.runner import Stage, run_stream
from prompts.loader import Prompt, load_prompt
from schemas.base import digest_of
from schemas.build import TaskSpec
from schemas.chat import ChatAnswer
from schemas.errors import ConfigurationError
from schemas.profile import CaptioningSettings
from schemas.records import Rejection
from schemas.sign_pairs import MOST_PAIRS, SIGN_PAIRS_PURPOSE, SignPair, WrittenSignPair
from sources.rendered import FontShelf, RenderOptions
from stages.write_sign_pairs import STAGE, VERSION, read_sign_pairs, request_sign_pairs

_ROUND = 1000  # items of a round are numbered from here
_Item = SignPair | Rejection | Deferred


@dataclass
class FurtherPairs:
    """Pairs that a model wrote, in the order of its answers, and their entities by Chinese text."""

    pairs: tuple[SignPair, ...] = ()
    entities: dict[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Tells these pairs from others, as 8 hex digits."""
        texts = (f"{one.category}\t{one.chinese}\t{one.english}" for one in self.pairs)
        return digest_of(*texts, *(one.model_call or "" for one in self.pairs))[:8]


def sign_prompt() -> Prompt:
    """The prompt that further pairs are asked for with."""
    return load_prompt(SIGN_PAIRS_PURPOSE)


def require_writer(tasks: Sequence[TaskSpec], settings: CaptioningSettings) -> None:
    """Refuses further pairs where no model can write them.

    Raises:
        ConfigurationError: a task wants some, and the profile's captioner is a built-in one.
    """
    for task in tasks:
        if task.further_pairs and settings.model.provider.startswith("builtin"):
            raise ConfigurationError(
                f"task {task.task}: further_pairs = {task.further_pairs} needs a model that writes "
                f"texts, and {settings.model.name} is built in and cannot; name another as "
                f"[captioning.model] of the profile, or leave further_pairs out"
            )


def write_sign_pairs(
    writer: AskedModel, task: TaskSpec, options: RenderOptions
) -> tuple[FurtherPairs, list[StageReport]]:
    """Has further pairs written, `MOST_PAIRS` at most at once, until there are enough of use.

    What is no use goes to quarantine; the model is asked for as many anew, until an answer brings
    nothing new. Where pairs are missing then, the run says so and goes on.

    Raises:
        BudgetReachedError: a limit of the run's budget was reached.
        ModelError: the model's server is gone; what came back before is stored.
        ConfigurationError: a font is missing.
    """
    writing = _Writing(writer, task.further_pairs, options)
    missing = task.further_pairs
    while missing:
        writing.ask_for(min(missing, MOST_PAIRS))
        left = task.further_pairs - len(writing.written.pairs)
        if left == missing:
            break
        missing = left
    found = task.further_pairs - missing
    writer.context.progress.say(
        f"{task.task}: {found} of {task.further_pairs} further pairs of texts were written by "
        f"{writer.author}; their translations are its word, which people see at selection_gate"
    )
    return writing.written, writing.reports


class _Writing:
    """The pairs of one run: what is asked, and what becomes of the answers."""

    def __init__(self, writer: AskedModel, wanted: int, options: RenderOptions) -> None:
        self.written = FurtherPairs()
        self.reports: list[StageReport] = []
        self._writer = writer
        self._options = options
        self._prompt = sign_prompt()
        prompt = store_prompt(writer.context, writer.dataset, self._prompt)
        self._settings = writer.settings_of(STAGE, VERSION, self._prompt, further_pairs=wanted)
        self._parents = [(PROMPTED_BY, prompt.id), (WRITTEN_WITH, self._settings.id)]

    def ask_for(self, count: int) -> None:
        """Asks once for `count` pairs, or takes the answer of before; stores what is of use."""
        items = self._items(count)
        numbered = list(enumerate(items, start=_ROUND * len(self.reports)))
        stage = Stage(
            name=STAGE,
            version=VERSION,
            dataset=self._writer.dataset,
            configuration={"settings": self._settings.id},
            agents=(self._writer.agent,),
            label="write texts of signs",
        )

        def work(chunk: Sequence[tuple[int, _Item]]) -> list[StageResult]:
            return [self._result(number, item) for number, item in chunk]

        report = run_stream(self._writer.context, stage, numbered, work, total=len(items))
        self.reports.append(report)
        require_answers(self._writer.spec.ref, report)
        pairs = [item for item in items if isinstance(item, SignPair)]
        self.written.pairs += tuple(pairs)
        self.written.entities |= {one.chinese: self._entity(one).id for one in pairs}

    def _items(self, count: int) -> Sequence[_Item]:
        taken = (*self._options.pairs, *self.written.pairs)
        request = request_sign_pairs(count, taken, self._prompt)
        outcome = ask(self._writer.model, [request]).get(0)
        if isinstance(outcome, ChatAnswer):
            call = self._writer.model.key(request)
            return read_sign_pairs(outcome, count, taken, call, self._undrawable)
        if outcome is None or outcome.retriable:
            reason = "not_asked" if outcome is None else outcome.reason
            return [Deferred(0, reason, "" if outcome is None else outcome.detail)]
        context = {"raw": outcome.raw}
        return [
            Rejection(stage=STAGE, reason=outcome.reason, detail=outcome.detail, context=context)
        ]

    def _undrawable(self, pair: SignPair) -> str | None:
        shelf: FontShelf = self._options.shelf
        latin = shelf.undrawable(pair.english, "serif", "sans-serif")
        return shelf.undrawable(pair.chinese, "chinese") or latin

    def _result(self, number: int, item: _Item) -> StageResult:
        if isinstance(item, Deferred):
            return item._replace(input=number)
        if isinstance(item, Rejection):
            return WorkResult(number, rejection=item)
        return WorkResult(number, entities=(self._entity(item),))

    def _entity(self, pair: SignPair) -> NewEntity:
        record = WrittenSignPair(pair=pair, author=self._writer.author)
        return new_entity(
            record, self._writer.dataset, parents=self._parents, model_call=pair.model_call
        )
