"""Arguments and options that several commands share."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from annotate.queues import Queue
    from db.store import Store


QueueArgument = Annotated[str, typer.Argument(help="The queue, e.g. ufine3c-rewrites.")]
QueuesArgument = Annotated[
    str | None,
    typer.Argument(help="The queue, e.g. ufine3c-rewrites (default: all queues in use)."),
]


def opened_queue(name: str) -> "tuple[Store, Queue]":
    """The store of this installation and the declared queue.

    Raises:
        UsageError: there is no such queue.
    """
    from db.store import Store
    from flows.engine.gates import chosen_queues, declared_queues
    from profiles.settings import load_settings

    settings = load_settings()
    store = Store.open(settings.database_url)
    (queue,) = chosen_queues(store, declared_queues(settings), name)
    return store, queue


ReleaseArgument = Annotated[
    str,
    typer.Argument(help="Release folder, DATASET (newest version), DATASET@VERSION or release id."),
]
SplitOption = Annotated[
    str | None, typer.Option(help="The split (default: test, or the only split).")
]
