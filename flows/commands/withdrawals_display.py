"""How withdrawals look on a terminal: what would go, what was done, and what became of it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from db.derivation_roles import COPY, ROLES
from db.withdrawal_closure import EMPTY, SAME, TARGET

if TYPE_CHECKING:
    from db.withdrawal_steps import DoneStep
    from db.withdrawals import StoredWithdrawal
    from flows.withdrawal_plan import WithdrawalPlan
    from flows.withdrawal_releases import AffectedRelease
    from schemas.withdrawal import WithdrawalCount, WithdrawalNotice

_SHOWN = 8
_WAYS = {
    TARGET: "was asked for",
    SAME: "has the bytes of what goes",
    EMPTY: "holds nothing but what goes",
    COPY: "is the same thing in another dataset",
}


def plan_display(plan: "WithdrawalPlan", alike: Sequence[Mapping[str, Any]] = ()) -> Group:
    """All of a plan: what goes, what stays, which releases it reaches, what comes instead."""
    request = plan.request
    bytes_go = "and its files are erased" if request.erases else "its files are kept"
    title = Text.assemble(
        ("To withdraw: ", "bold"), str(request.target), f"  ({request.ground}; {bytes_go})"
    )
    parts: list[RenderableType] = [title]
    if plan.is_done:
        last = plan.earlier[-1]
        told = (
            f"withdrawn on {last.confirmed_at:%Y-%m-%d} as {last.key[:12]}; nothing is left to do"
        )
        return Group(title, _indented(Text(told, "green")))
    told = f"{_many(len(plan.reached), 'thing')}, each because it …"
    parts += [Text(), _counts(plan.counts()), Text(), Text(told, "bold")]
    parts.append(_indented(_reached(plan)))
    if already := len(plan.reached) - len(plan.new):
        parts.append(_indented(Text(f"{_many(already, 'of these')} withdrawn before", "dim")))
    if plan.reopened:
        judged = f"{_many(len(plan.reopened), 'judgement')} taken back: others are asked anew"
        parts.append(_indented(Text(judged)))
    if plan.affected.releases:
        parts += [Text(), _releases(plan.affected.releases)]
        parts += [_indented(Text(one)) for one in _patches(plan)]
    else:
        parts += [Text(), _indented(Text("No release holds any of it."))]
    if files := _files(plan):
        parts += [Text(), Text("Files", "bold"), *(_indented(Text(one)) for one in files)]
    if alike:
        parts += [Text(), alike_display(alike)]
    return Group(*parts)


def _counts(counts: Iterable["WithdrawalCount"]) -> Table:
    """A row a dataset, a column a kind: the kinds that people know first."""
    by_dataset: dict[str, Counter[str]] = defaultdict(Counter)
    for one in counts:
        by_dataset[one.dataset][one.kind] += one.entities
    first = ("source", "video", "image", "caption", "rewrite")
    kinds = {kind for many in by_dataset.values() for kind in many}
    shown = [kind for kind in first if kind in kinds]
    others = sorted(kinds - set(first))
    table = _table("What goes")
    table.add_column("dataset")
    for kind in shown:
        table.add_column(f"{kind}s", justify="right")
    if others:
        table.add_column("beside these")
    for dataset, many in sorted(by_dataset.items()):
        rest = ", ".join(
            f"{kind.replace('_', ' ')} {many[kind]:,}" for kind in others if many[kind]
        )
        numbers = [f"{many[kind]:,}" if many[kind] else "–" for kind in shown]
        table.add_row(escape(dataset), *numbers, *([rest or "–"] if others else []))
    return table


def _reached(plan: "WithdrawalPlan") -> Table:
    """How all this was found, in the words of the graph's roles."""
    table = Table.grid(padding=(0, 2))
    ways = list(plan.reasons().items())
    for way, count in ways[:_SHOWN]:
        why = _WAYS.get(way) or f"{ROLES[way].why} [dim]({way.replace('_', ' ')})[/dim]"
        table.add_row(Text(f"{count:,}", justify="right"), why)
    if (more := sum(count for _, count in ways[_SHOWN:])) > 0:
        table.add_row(Text(f"{more:,}", justify="right"), "reached in other ways; --json tells all")
    return table


def _releases(releases: Iterable["AffectedRelease"]) -> Table:
    table = _table("Releases that hold some of it")
    for name, side in (
        ("release", "left"),
        ("rows gone", "right"),
        ("lose texts", "right"),
        ("use instead", "left"),
        ("its folder", "left"),
    ):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for one in releases:
        manifest = one.release.manifest
        whole = sum(row.is_whole for row in one.rows)
        in_part = len(one.rows) - whole
        of = f" of {manifest.statistics.images:,}"
        told = (
            [f"{whole:,}{of}", f"{in_part:,}" if in_part else "–"] if one.is_known else ["?", "?"]
        )
        is_there = (one.release.folder / "manifest.json").is_file()
        table.add_row(
            f"{escape(manifest.dataset)} {manifest.version}",
            *told,
            one.superseded_by or "[yellow]nothing is left[/yellow]",
            "marked" if is_there else "[yellow]not there[/yellow]",
        )
    return table


def _patches(plan: "WithdrawalPlan") -> list[str]:
    return [
        f"→ {one.base.manifest.dataset} {one.version} is built from the state of "
        f"{one.base.manifest.version}: {_many(one.rows, 'row')}"
        for one in plan.affected.patches
    ]


def _files(plan: "WithdrawalPlan") -> list[str]:
    told = []
    if plan.erased:
        with_vectors = "with what was computed of them"
        told.append(f"{_many(len(plan.erased), 'file')} of the blob store, erased {with_vectors}")
    shown = list(plan.kept.items())[:_SHOWN]
    told += [f"{digest[:12]} stays: {holder[:12]} needs it" for digest, holder in shown]
    if (more := len(plan.kept) - len(shown)) > 0:
        told.append(f"… and {more:,} more stay")
    return told


def alike_display(alike: Sequence[Mapping[str, Any]]) -> Table:
    """Pictures that may show the same as a file that was sent."""
    table = _table("In doubt: these look like it, and stay unless you add them with --also")
    for name in ("image", "dataset", "file"):
        table.add_column(name)
    table.add_column("bits of 64 that differ", justify="right")
    for one in alike[:_SHOWN]:
        table.add_row(
            one["entity_id"][:12],
            escape(one["dataset"]),
            escape(one["file_path"]),
            str(one["distance"]),
        )
    if (more := len(alike) - _SHOWN) > 0:
        table.caption = f"… and {more:,} more; --json lists them"
    return table


def withdrawal_display(
    withdrawal: "StoredWithdrawal",
    counts: Sequence["WithdrawalCount"],
    notices: Sequence["WithdrawalNotice"],
    steps: Sequence["DoneStep"],
) -> Group:
    """All that is kept of a withdrawal."""
    state = (
        f"finished {withdrawal.finished_at:%Y-%m-%d %H:%M} UTC"
        if withdrawal.finished_at
        else "not finished: loupe withdraw --resume"
    )
    facts = Table.grid(padding=(0, 2))
    for name, value in (
        ("withdrawal", f"{withdrawal.id}, {withdrawal.key}"),
        ("of", str(withdrawal.request.target)),
        ("ground", withdrawal.request.ground),
        ("reason", withdrawal.reason),
        ("files", "erased" if withdrawal.request.erases else "kept"),
        ("confirmed", f"{withdrawal.confirmed_at:%Y-%m-%d %H:%M} UTC by {withdrawal.agent.name}"),
        ("state", state),
    ):
        facts.add_row(Text(name, "bold"), Text(value))
    parts: list[RenderableType] = [facts, Text(), _counts(counts)]
    if notices:
        table = _table("What holders of releases are told")
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
    return Group(*parts, Text(), Text("Steps done", "bold"), _indented(done))


def told_step(name: str, told: Mapping[str, Any]) -> str:
    """A step in a sentence: its name, and what it came to."""
    if name == "confirmed":
        return f"confirmed: {_many(told['entities'], 'thing')} withdrawn"
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


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", header_style="bold")


def _indented(shown: RenderableType) -> Padding:
    return Padding(shown, (0, 0, 0, 2))


def _many(count: int, noun: str) -> str:
    plural = noun if count == 1 or noun.endswith("these") else f"{noun}s"
    return f"{count:,} {plural}"
