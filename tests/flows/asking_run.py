"""Run a stage, as a separate process, that asks a counting server about every caption of a store.

python -m tests.flows.asking_run DATABASE-URL FOLDER SERVER-URL PLAN [MAX-COST]
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from select import select

from loupe.db.entities import StoredEntity, WorkResult
from loupe.db.store import Store
from loupe.db.work import Pending
from loupe.flows.engine.ledger import RecordedChatModel
from loupe.flows.engine.model_step import Unparsable, ask, result_without_value
from loupe.flows.engine.report import StageResult
from loupe.flows.engine.runner import Stage, run_stage
from loupe.flows.engine.stopping import Budget
from loupe.models.openai_chat import OpenAIChatModel
from loupe.schemas.chat import ChatAnswer, ChatRequest
from loupe.schemas.errors import BudgetReachedError
from loupe.schemas.profile import OpenAIChat, Prices
from loupe.schemas.records import Caption
from tests.db.samples import DATASET
from tests.flows.runs import context_of

PRICES = Prices(input_per_million=1_000_000, output_per_million=1_000_000)
CHUNK = 10


def main() -> None:
    """Ask about every caption once the file `begin` exists.

    Prints the number of calls, their cost, and the number of deferred captions of this run.
    """
    database_url, folder, server_url, plan, *rest = sys.argv[1:]
    budget = Budget(max_cost=float(rest[0]) if rest else None)
    context = context_of(Store.open(database_url), Path(folder), budget)
    spec = OpenAIChat(
        provider="openai", name="counting", revision="1", base_url=server_url, max_in_flight=4
    )

    def work(captions: Sequence[StoredEntity]) -> list[StageResult]:
        model = RecordedChatModel(
            OpenAIChatModel(spec), context.store, DATASET, PRICES, context.budget
        )
        outcomes = ask(model, (_question(caption.record(Caption).text) for caption in captions))
        return [
            WorkResult(caption.seq)
            if isinstance(outcome := outcomes.get(number), ChatAnswer)
            else result_without_value(caption.seq, "ask", Unparsable(outcome))
            for number, caption in enumerate(captions)
        ]

    print("ready", flush=True)  # noqa: T201
    while not (Path(folder) / "begin").exists():
        select([], [], [], 0.01)  # `sleep` fails where `faketime` steps the clock
    stage = Stage("ask", "1", DATASET, {"plan": plan}, chunk_size=CHUNK)
    deferred = 0
    with suppress(BudgetReachedError):
        report = run_stage(context, stage, Pending(DATASET, "caption", ("proposed",)), work)
        deferred = sum(report.deferred.values())
    print(budget.calls, budget.cost, deferred)  # noqa: T201
    context.store.close()


def _question(text: str) -> ChatRequest:
    return ChatRequest(purpose="ask", prompt=f"Is this clear? {text}", prompt_digest="d")


if __name__ == "__main__":
    main()
