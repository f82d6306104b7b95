"""How a planned withdrawal looks on a terminal: what would go, named, and what would stay."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from db.withdrawal_graph import COPY, EMPTY, ROLES, SAME, TARGET
from flows.cli.withdrawals_display import counts_table, indented, many, titled_table

if TYPE_CHECKING:
    from flows.withdrawal.plan import AffectedRelease, WithdrawalPlan


_SHOWN = 8
_TEXT_CHARACTERS = 100
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
    if plan.is_done:
        last = plan.earlier[-1]
        told = (
            f"withdrawn on {last.confirmed_at:%Y-%m-%d} as {last.key[:12]}; nothing is left to do"
        )
        return Group(title, indented(Text(told, "green")))
    parts: list[RenderableType] = [title, *_meant(plan)]
    parts += [Text(), counts_table(plan.counts()), *_named(plan), Text(), *_reached(plan)]
    if plan.reopened:
        judged = f"{many(len(plan.reopened), 'judgement')} taken back: others are asked anew"
        parts.append(indented(Text(judged)))
    if plan.affected.releases:
        parts += [Text(), _releases(plan)]
        parts += [indented(Text(one)) for one in (*_rows(plan), *_patches(plan))]
    else:
        parts += [Text(), indented(Text("No release holds any of it."))]
    if files := list(_files(plan)):
        parts += [Text(), Text("Files", "bold"), *(indented(Text(one)) for one in files)]
    if alike:
        parts += [Text(), alike_display(alike)]
    return Group(*parts)


def _meant(plan: "WithdrawalPlan") -> Iterator[RenderableType]:
    """Of a person, whose name it is that was taken, and how releases call them."""
    target = plan.request.target
    if target.sort != "identity":
        return
    named = (one for one in plan.named.values() if one.identity == target.name)
    sources = dict.fromkeys(
        one.source for one in named if one.source and target.source in (None, one.source)
    )
    yield indented(Text(f"the person whom {', '.join(sources)} calls {target.name!r}"))
    for one in plan.affected.releases:
        if one.people and one.release.manifest.dataset == target.dataset:
            ids = _list(str(id_) for id_ in one.people)
            yield indented(Text(f"published as id {ids} in {_called(one)}"))


def _named(plan: "WithdrawalPlan") -> Iterator[RenderableType]:
    """What goes by the names that people know it by, by dataset: files, else words."""
    files, texts = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for id_, one in plan.named.items():
        dataset = plan.reached[id_].dataset
        if one.file_path is not None:
            files[dataset].append(one.file_path)
        elif one.text is not None:
            texts[dataset].append(one.text)
    for dataset in sorted({*files, *texts}):
        if dataset in files:
            yield indented(Text(f"{dataset}: {_list(sorted(files[dataset]))}"))
        else:
            yield indented(Text(f"{dataset}: {_list(map(_quoted, texts[dataset]), 3)}"))


def _reached(plan: "WithdrawalPlan") -> Iterator[RenderableType]:
    """How all this was found, in the words of the graph's roles; what was withdrawn before."""
    count, already = len(plan.reached), len(plan.reached) - len(plan.new)
    if count == already:
        told = "all of it is withdrawn already; what is new is what becomes of files and releases"
        yield indented(Text(told, "yellow"))
        return
    yield Text(f"{many(count, 'thing')}, each because it …", "bold")
    table = Table.grid(padding=(0, 2))
    ways = list(plan.reasons().items())
    for way, found in ways[:_SHOWN]:
        why = _WAYS.get(way) or f"{ROLES[way].why} [dim]({way.replace('_', ' ')})[/dim]"
        table.add_row(Text(f"{found:,}", justify="right"), why)
    if (more := sum(found for _, found in ways[_SHOWN:])) > 0:
        table.add_row(Text(f"{more:,}", justify="right"), "reached in other ways; --json tells all")
    yield indented(table)
    if already:
        yield indented(Text(f"{many(already, 'of these')} withdrawn before", "dim"))


def _releases(plan: "WithdrawalPlan") -> Table:
    table = titled_table("Releases that hold some of it")
    for name, side in (
        ("release", "left"),
        ("rows gone", "right"),
        ("lose texts", "right"),
        ("use instead", "left"),
        ("its folder", "left"),
    ):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for one in plan.affected.releases:
        rows = [f"{one.rows_gone:,} of {one.release.manifest.statistics.images:,}"]
        rows.append(f"{one.rows_shortened:,}" if one.rows_shortened else "–")
        table.add_row(
            escape(_called(one)),
            *(rows if one.is_known else ["?", "?"]),
            one.superseded_by or "[yellow]nothing is left[/yellow]",
            _folder(plan, one),
        )
    return table


def _folder(plan: "WithdrawalPlan", one: "AffectedRelease") -> str:
    """What is done in the folder of a release."""
    id_ = one.release.manifest.id
    if not (one.release.folder / "manifest.json").is_file():
        return "[yellow]not there[/yellow]"
    marked = "marked before" if id_ in plan.erasure.marked else "marked"
    if files := plan.erasure.releases.get(id_):
        return f"{marked}; [red]{many(len(files), 'file')} erased[/red]"
    return marked


def _rows(plan: "WithdrawalPlan") -> Iterator[str]:
    """The first rows of every release that must not be used any more."""
    for one in plan.affected.releases:
        if one.rows:
            files = (f"{row.file_path}{'' if row.is_whole else ' (texts)'}" for row in one.rows)
            yield f"{_called(one)}: {_list(files)}"
        if count := len(one.undescribed):
            rows = "1 row goes" if count == 1 else f"{count:,} rows go"
            yield f"{_called(one)}: {rows} for want of a caption, though the image is not withdrawn"


def _patches(plan: "WithdrawalPlan") -> Iterator[str]:
    for one in plan.affected.patches:
        yield (
            f"→ {one.base.manifest.dataset} {one.version} is built from the state of "
            f"{one.base.manifest.version}: {many(one.rows, 'row')}"
        )


def _files(plan: "WithdrawalPlan") -> Iterator[str]:
    """All that is erased, and what stays."""
    erasure = plan.erasure
    if plan.erased:
        with_vectors = "with what was computed of them"
        yield f"{many(len(plan.erased), 'file')} of the blob store, erased {with_vectors}"
    for one in plan.affected.releases:
        if files := erasure.releases.get(one.release.manifest.id):
            yield f"{_called(one)}: {many(len(files), 'file')} erased: {_by_folder(files)}"
    if erasure.pages:
        yield f"{many(len(erasure.pages), 'page')} below the home erased: {_list(erasure.pages)}"
    if erasure.evaluations:
        yield f"examples of {many(erasure.evaluations, 'stored evaluation')} erased"
    kept = list(plan.kept.items())
    yield from (f"{digest[:12]} stays: {holder[:12]} needs it" for digest, holder in kept[:_SHOWN])
    if (more := len(kept) - _SHOWN) > 0:
        yield f"… and {more:,} more stay"


def _by_folder(paths: Iterable[str]) -> str:
    """Files by their folder: those at the top by name, others counted."""
    top, below = list[str](), Counter[str]()
    for path in paths:
        folder, slash, _ = path.rpartition("/")
        if slash:
            below[folder] += 1
        else:
            top.append(path)
    counted = [f"{count:,} in {folder}/" for folder, count in sorted(below.items())]
    return ", ".join([*counted, *top])


def alike_display(alike: Sequence[Mapping[str, Any]]) -> Table:
    """Pictures that may show the same as a file that was sent."""
    table = titled_table("In doubt: these look like it, and stay unless you add them with --also")
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


def _called(one: "AffectedRelease") -> str:
    return f"{one.release.manifest.dataset} {one.release.manifest.version}"


def _list(names: Iterable[str], limit: int = _SHOWN) -> str:
    """The first names, and how many more there are."""
    known = list(dict.fromkeys(names))
    more = f" and {len(known) - limit:,} more (--json lists all)" if len(known) > limit else ""
    return ", ".join(known[:limit]) + more


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    short = line if len(line) <= _TEXT_CHARACTERS else f"{line[: _TEXT_CHARACTERS - 1]}…"
    return f"“{short}”"
