"""Work that cannot be shared: of two runs side by side one does it, the other waits for its end.

Chunks of work are claimed by `flows.runner`, calls by the ledgers. What is one computation from
beginning to end is claimed as a whole.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from db.claims import pauses
from db.work import claim_whole, drop_claims, register_plan
from flows.context import RunContext


@contextmanager
def sole_run(context: RunContext, dataset: str, work: str, version: str) -> Iterator[None]:
    """Waits until no other run does `work` on the dataset, and keeps others out until it is done.

    The claim of a run that was killed, or that does not renew it, is taken over.
    """
    configuration: dict[str, Any] = {"whole": work}
    plan_id = register_plan(context.store, work, version, configuration)
    claim_id = claim_whole(context.store, plan_id, dataset)
    if claim_id is None:
        context.progress.say(f"another run is busy with {work} of {dataset}; waiting for it")
    waiting = pauses()
    while claim_id is None:
        time.sleep(next(waiting))
        claim_id = claim_whole(context.store, plan_id, dataset)
    try:
        with context.store.claims.renewed():
            yield
    finally:
        drop_claims(context.store, claim_id)
