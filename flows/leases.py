"""Leases of this process: renewed while it works, and held on work that cannot be shared.

Chunks of work are leased by `flows.runner`. What is one computation from beginning to end is leased
as a whole: of two runs side by side one does it, and the other waits, and finds it done.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from db.store import Store
from db.work import LEASE_SECONDS, claim_whole, drop_claim, register_plan, renew_claims
from flows.context import RunContext
from schemas.errors import ServiceError

_log = logging.getLogger(__name__)
_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 1.0


@contextmanager
def renewed_leases(store: Store) -> Iterator[None]:
    """Renews this process's leases from a thread for as long as the block runs."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(LEASE_SECONDS / 3):
            try:
                renew_claims(store)
            except ServiceError as error:
                _log.warning("leases are not renewed: %s", error)  # the next time they may be

    thread = threading.Thread(target=renew, name="lease-renewal", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def sole_run(context: RunContext, dataset: str, work: str, version: str) -> Iterator[None]:
    """Waits until no other run does `work` on the dataset, and keeps others out until it is done.

    The lease of a run that was killed, or that does not renew it, is taken over.
    """
    configuration: dict[str, Any] = {"whole": work}
    plan_id = register_plan(context.store, work, version, configuration)
    claim_id = claim_whole(context.store, plan_id, dataset)
    if claim_id is None:
        context.progress.say(f"another run is busy with {work} of {dataset}; waiting for it")
    pause = _FIRST_PAUSE_SECONDS
    while claim_id is None:
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        claim_id = claim_whole(context.store, plan_id, dataset)
    try:
        with renewed_leases(context.store):
            yield
    finally:
        drop_claim(context.store, claim_id)
