"""A program that searches until the day's budget is used up, for tests that kill it.

Prints each query that was answered. Arguments: DATABASE BASE_URL DAILY_BUDGET QUERY…
"""

import sys
from datetime import UTC, datetime

from loupe.db.store import Store
from loupe.flows.ccd.searching import RecordedSearch
from loupe.models.search.openverse import OpenverseImageSearch
from loupe.schemas.errors import BudgetReachedError
from loupe.schemas.image_search import OpenverseSearch

TODAY = datetime(2026, 11, 20, 12, tzinfo=UTC)
SPENT = 3
"""Exit status when the budget is used up."""


def main() -> int:
    database, base_url, budget, *queries = sys.argv[1:]
    store = Store.open(database)
    search = OpenverseImageSearch(OpenverseSearch(provider="openverse", base_url=base_url))
    recorded = RecordedSearch(search, store, "cats", int(budget), clock=lambda: TODAY)
    try:
        for query in queries:
            recorded.search(query, 5)
            print(query, flush=True)  # noqa: T201 - the test that kills it reads this
    except BudgetReachedError:
        return SPENT
    finally:
        store.close()
    return 0
