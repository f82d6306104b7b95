"""Commands of `loupe queue` on the error of the labels: which items are wrong, and audits."""

from typing import TYPE_CHECKING, Annotated

import typer

from loupe.flows.cli.options import QueueArgument, opened_queue
from loupe.flows.cli.output import Answer, Line, Table
from loupe.schemas.errors import UsageError

if TYPE_CHECKING:
    from loupe.annotate.queues import Queue
    from loupe.annotate.statistics.label_errors import LabelErrors
    from loupe.db.store import Store
    from loupe.schemas.quality import KindErrors


def errors(queue: QueueArgument, *, show: Annotated[int, typer.Option(min=0)] = 20) -> Answer:
    """Estimate how many accepted items are wrong.

    Also lists the most doubtful items. Uses all answers: those of several people to one item, of
    adjudicators and audits, and to gold items. With --json, every accepted item has the probability
    that it is wrong.

    Args:
        show: Number of doubtful items to list.
    """
    from loupe.annotate.statistics.label_errors import most_doubtful

    store, chosen = opened_queue(queue)
    found = _errors(store, chosen)
    if found is None:
        raise UsageError(
            f"nobody has answered an item of {chosen.name!r} yet; send items with: "
            f"loupe queue push {chosen.name}"
        )
    statistics = found.statistics
    header = ("kind", "accepted", "seen by people", "audited", "wrong", "95 % interval")
    parts = statistics.kinds if len(statistics.kinds) == 1 else (statistics, *statistics.kinds)
    rows = [_row(one) for one in parts]
    lines: list[Line] = [Table(f"{chosen.name}:", header, rows)]
    if statistics.unmeasured:
        edits = statistics.unmeasured_edits or 0
        among = f" ({edits:,} are edits by people, which nobody else judged)" if edits else ""
        lines.append(
            f"  {statistics.unmeasured:,} more are of kinds that nobody answered about{among}: how "
            f"many are wrong is not known; ask with: loupe queue audit {chosen.name} --size 100"
        )
    doubtful = list(most_doubtful(found))
    listed = [(f"{100 * chance:.1f} %", found.kinds[id_], id_) for id_, chance in doubtful[:show]]
    if listed:
        lines.append(Table("the most doubtful:", ("wrong at", "kind", "item"), listed))
        lines.append(f"  to ask about them again: loupe queue reopen {chosen.name} ID …")
    document = {
        **statistics.model_dump(mode="json"),
        "probability_wrong": {id_: round(chance, 4) for id_, chance in doubtful},
    }
    return Answer(document, lines)


def audit(queue: QueueArgument, *, size: Annotated[int, typer.Option(min=1)]) -> Answer:
    """Draw accepted items for an audit of how many are wrong.

    Draws the items whose audit says most about the share of wrong ones. More are drawn where items
    vary more by the answers so far, such as items that one person doubted or that nobody saw. The
    next push sends them to people who had no part in accepting them. While drawn items wait for an
    audit, no more are drawn.

    Args:
        size: Number of items to draw.
    """
    from loupe.annotate.audits import DOUBT, draw_audit_sample, wanted
    from loupe.annotate.statistics.label_errors import doubts_of
    from loupe.db.review_audits import count_draws

    store, chosen = opened_queue(queue)
    push = f"loupe queue push {chosen.name}"
    if waiting := wanted(store, chosen):
        sentence = f"{chosen.name}: {len(waiting):,} drawn items wait for an audit ({push})"
        return Answer({"queue": chosen.name, "drawn": 0, "waiting": len(waiting)}, [sentence])
    before = _errors(store, chosen)
    seed = count_draws(store, chosen.name)
    drawn = draw_audit_sample(store, chosen, size, seed, (DOUBT,), doubts=doubts_of(store, chosen))
    waiting = wanted(store, chosen)
    now = "is not known" if before is None else _words(before.statistics)
    sentence = (
        f"{chosen.name}: {drawn.drawn:,} of {sum(drawn.strata.values()):,} accepted items drawn; "
        f"{len(waiting):,} wait for an audit ({push}); the share of wrong ones {now}"
    )
    return Answer({"queue": chosen.name, **drawn._asdict(), "waiting": len(waiting)}, [sentence])


def _errors(store: "Store", queue: "Queue") -> "LabelErrors | None":
    from loupe.annotate.statistics.label_errors import label_errors

    return label_errors(store, queue)


def _row(one: "KindErrors") -> tuple[str, str, str, str, str, str]:
    counts = f"{one.items:,}", f"{one.answered:,}", f"{one.audited:,}"
    return (one.kind, *counts, f"{100 * one.error_rate:.1f} %", _interval(one))


def _interval(one: "KindErrors") -> str:
    return f"{100 * one.lower:.1f}–{100 * one.upper:.1f} %"


def _words(one: "KindErrors") -> str:
    return f"is {100 * one.error_rate:.1f} % ({_interval(one)}) by the answers so far"
