"""How withdrawals look on a terminal that were confirmed: what was done, and what became of it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from db.withdrawals import DoneStep, StoredWithdrawal
    from flows.withdrawal.plan import Unreached
    from schemas.withdrawal import WithdrawalCount, WithdrawalNotice


_SHOWN = 8
UNFINISHED = "not finished: loupe withdraw --resume"


def state_of(withdrawal: "StoredWithdrawal") -> str:
    """How far a withdrawal is, in words."""
    if withdrawal.finished_at is None:
        return UNFINISHED
    return f"finished {withdrawal.finished_at:%Y-%m-%d %H:%M} UTC"


def files_of(withdrawal: "StoredWithdrawal") -> str:
    """What becomes of the files of a withdrawal, in words."""
    if not withdrawal.request.erases:
        return "kept"
    return "erased" if withdrawal.is_finished else "to be erased"


def counts_table(counts: Iterable["WithdrawalCount"]) -> Table:
    """A row a dataset, a column a kind: the kinds that people know first."""
    by_dataset: dict[str, Counter[str]] = defaultdict(Counter)
    for one in counts:
        by_dataset[one.dataset][one.kind] += one.entities
    first = ("source", "video", "image", "caption", "rewrite")
    kinds = {kind for own in by_dataset.values() for kind in own}
    shown = [kind for kind in first if kind in kinds]
    others = sorted(kinds - set(first))
    table = titled_table("What goes")
    table.add_column("dataset")
    for kind in shown:
        table.add_column(f"{kind}s", justify="right")
    if others:
        table.add_column("beside these")
    for dataset, own in sorted(by_dataset.items()):
        rest = ", ".join(f"{kind.replace('_', ' ')} {own[kind]:,}" for kind in others if own[kind])
        numbers = [f"{own[kind]:,}" if own[kind] else "–" for kind in shown]
        table.add_row(escape(dataset), *numbers, *([rest or "–"] if others else []))
    return table


def withdrawal_display(
    withdrawal: "StoredWithdrawal",
    counts: Sequence["WithdrawalCount"],
    notices: Sequence["WithdrawalNotice"],
    steps: Sequence["DoneStep"],
) -> Group:
    """All that is kept of a withdrawal."""
    facts = Table.grid(padding=(0, 2))
    for name, value in (
        ("withdrawal", f"{withdrawal.id}, {withdrawal.key}"),
        ("of", str(withdrawal.request.target)),
        ("ground", withdrawal.request.ground),
        ("reason", withdrawal.reason),
        ("files", files_of(withdrawal)),
        ("confirmed", f"{withdrawal.confirmed_at:%Y-%m-%d %H:%M} UTC by {withdrawal.agent.name}"),
        ("state", state_of(withdrawal)),
    ):
        facts.add_row(Text(name, "bold"), Text(value))
    parts: list[RenderableType] = [facts, Text(), counts_table(counts)]
    if notices:
        table = titled_table("What holders of releases are told")
        for name in ("release", "rows gone", "lose texts", "use instead"):
            table.add_column(name)
        for one in notices:
            whole = sum(row.is_whole for row in one.rows)
            instead = one.superseded_by or "–"
            table.add_row(
                f"{escape(one.dataset)} {one.version}",
                f"{whole:,}",
                f"{len(one.rows) - whole:,}",
                instead,
            )
        parts += [Text(), table]
    done = Table.grid(padding=(0, 2))
    for step in steps:
        done.add_row(f"{step.done_at:%Y-%m-%d %H:%M:%S}", Text(told_step(step.step, step.told)))
    return Group(*parts, Text(), Text("Steps done", "bold"), indented(done))


def told_step(name: str, told: Mapping[str, Any]) -> str:
    """A step in a sentence: its name, and what it came to."""
    if name == "confirmed":
        return f"confirmed: {many(told['entities'], 'thing')} withdrawn"
    if reason := told.get("skipped"):
        return f"{name}: left out, {reason}"
    parts = [
        f"{key.replace('_', ' ')} {_value(value)}"
        for key, value in told.items()
        if value not in (None, 0, [], False)
    ]
    return f"{name}: {', '.join(parts)}" if parts else name


def _value(value: Any) -> str:
    match value:
        case bool():
            return "yes"
        case int():
            return f"{value:,}"
        case list():
            return ", ".join(map(str, value))
        case _:
            text = str(value)
            return text[:12] if len(text) == 64 else text


def unreached_display(left: "Unreached") -> Text:
    """What people must see to themselves once a withdrawal is carried out."""
    lines = (f"\n  {line}" for line in _unreached(left))
    return Text.assemble(("Not reached from here", "bold"), *lines)


def _unreached(left: "Unreached") -> Iterator[str]:
    for server, tasks in left.on_desks.items():
        yield (
            f"{many(tasks, 'task')} of the review server {server}, with texts and answers: "
            "deleted by loupe withdraw --resume, once it answers"
        )
    if left.notices:
        if left.made:
            yield f"made before, and still holding it: {_some(left.made)}"
        yield "exports, reports and copies of these releases elsewhere: delete and make them anew"
        yield f"those who have the releases: publish {_some(left.notices)}"
    for source, files in left.originals.items():
        yield f"the files that {source} was imported from: {_some(files)}"
    if left.drawn:
        yield f"of these, drawn here and imported: {_some(left.drawn)}"
    yield "texts about it, models' answers and file names, in the database itself and its logs"
    yield "backups and disk snapshots, and models that were trained on it"


def _some(names: Sequence[object]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - _SHOWN:,} more (--json lists all)" if len(names) > _SHOWN else ""
    return ", ".join(map(str, names[:_SHOWN])) + more


def titled_table(title: str) -> Table:
    """A table with its title at the left."""
    return Table(title=title, title_justify="left", title_style="bold", header_style="bold")


def indented(shown: RenderableType) -> Padding:
    """Two places further to the right."""
    return Padding(shown, (0, 0, 0, 2))


def many(count: int, noun: str) -> str:
    """A number of things, in words."""
    plural = noun if count == 1 or noun.endswith("these") else f"{noun}s"
    return f"{count:,} {plural}"
