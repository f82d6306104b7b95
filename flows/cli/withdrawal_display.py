"""How withdrawals look on a terminal: plans, confirmed withdrawals, residual copies."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from db.roles import ROLES
from db.withdrawal_graph import EMPTY, SAME, TARGET
from schemas.provenance import Role

if TYPE_CHECKING:
    from db.withdrawals import DoneStep, StoredWithdrawal
    from flows.withdrawal.plan import WithdrawalPlan
    from flows.withdrawal.releases import AffectedRelease
    from flows.withdrawal.residual import ResidualCopies
    from schemas.withdrawal import WithdrawalCount, WithdrawalNotice

_SHOWN = 8
_TEXT_CHARACTERS = 100
_REASONS = {
    TARGET: "was requested",
    SAME: "has the bytes of a withdrawn file",
    EMPTY: "shows only what is withdrawn",
    Role.SAMPLED_FROM: "is the same thing in another dataset",
}


def plan_display(plan: "WithdrawalPlan") -> Group:
    """A plan: what is withdrawn and erased, what stays, the releases affected, and patches."""
    request = plan.request
    bytes_go = "and its files are erased" if request.erases else "its files are kept"
    title = Text.assemble(
        ("To withdraw: ", "bold"), str(request.target), f"  ({request.ground}; {bytes_go})"
    )
    if plan.is_done:
        last = plan.earlier[-1]
        done = f"withdrawn on {last.confirmed_at:%Y-%m-%d} as {last.key[:12]}"
        return Group(title, _indented(Text(f"{done}; nothing is left to do", "green")))
    parts: list[RenderableType] = [title, *_person(plan)]
    parts += [Text(), _counts(plan.counts()), *_named(plan), Text(), *_reached(plan)]
    if plan.reopened:
        judged = f"{_many(len(plan.reopened), 'judgement')} withdrawn: others are asked again"
        parts.append(_indented(Text(judged)))
    if plan.affected.releases:
        parts += [Text(), _releases(plan)]
        parts += [_indented(Text(one)) for one in (*_rows(plan), *_patches(plan))]
    else:
        parts += [Text(), _indented(Text("No release holds any of it."))]
    if files := list(_files(plan)):
        parts += [Text(), Text("Files", "bold"), *(_indented(Text(one)) for one in files)]
    return Group(*parts)


def _person(plan: "WithdrawalPlan") -> Iterator[RenderableType]:
    """The person of an identity: the sources that use the name, and the published ids."""
    target = plan.request.target
    if target.sort != "identity":
        return
    named = (one for one in plan.named.values() if one.identity == target.name)
    sources = dict.fromkeys(
        one.source for one in named if one.source and target.source in (None, one.source)
    )
    yield _indented(Text(f"the person named {target.name!r} in {', '.join(sources)}"))
    for one in plan.affected.releases:
        if one.people and one.release.manifest.dataset == target.dataset:
            ids = _list(str(id_) for id_ in one.people)
            yield _indented(Text(f"published as id {ids} in {one.release.name}"))


def _named(plan: "WithdrawalPlan") -> Iterator[RenderableType]:
    """The files, else the texts, that are withdrawn, by dataset."""
    files, texts = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for id_, one in plan.named.items():
        dataset = plan.reached[id_].dataset
        if one.file_path is not None:
            files[dataset].append(one.file_path)
        elif one.text is not None:
            texts[dataset].append(one.text)
    for dataset in sorted({*files, *texts}):
        if dataset in files:
            yield _indented(Text(f"{dataset}: {_list(sorted(files[dataset]))}"))
        else:
            yield _indented(Text(f"{dataset}: {_list(map(_quoted, texts[dataset]), 3)}"))


def _reached(plan: "WithdrawalPlan") -> Iterator[RenderableType]:
    """How many entities were reached, and why; how many were withdrawn before."""
    count, already = len(plan.reached), len(plan.reached) - len(plan.new)
    if count == already:
        text = "all of it is withdrawn already; only files and releases change"
        yield _indented(Text(text, "yellow"))
        return
    yield Text(f"{_many(count, 'item')}, each because it …", "bold")
    table = Table.grid(padding=(0, 2))
    reasons = list(plan.reasons().items())
    for reason, found in reasons[:_SHOWN]:
        role = reason.replace("_", " ")
        why = _REASONS.get(reason) or f"{ROLES[reason].why} [dim]({role})[/dim]"
        table.add_row(Text(f"{found:,}", justify="right"), why)
    if (more := sum(found for _, found in reasons[_SHOWN:])) > 0:
        table.add_row(Text(f"{more:,}", justify="right"), "has another reason (see --json)")
    yield _indented(table)
    if already:
        yield _indented(Text(f"{_many(already, 'of these')} withdrawn before", "dim"))


def _releases(plan: "WithdrawalPlan") -> Table:
    table = _titled_table("Releases that hold some of it")
    for name, side in (
        ("release", "left"),
        ("rows gone", "right"),
        ("lose texts", "right"),
        ("use instead", "left"),
        ("its folder", "left"),
    ):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for one in plan.affected.releases:
        table.add_row(
            escape(one.release.name),
            f"{one.rows_gone:,} of {one.release.manifest.statistics.images:,}",
            f"{one.rows_shortened:,}" if one.rows_shortened else "–",
            one.superseded_by or "[yellow]nothing is left[/yellow]",
            _folder(plan, one),
        )
    return table


def _folder(plan: "WithdrawalPlan", one: "AffectedRelease") -> str:
    """What is done in the folder of a release."""
    id_ = one.release.manifest.id
    if not (one.release.folder / "manifest.json").is_file():
        return "[yellow]not there[/yellow]"
    marked = "marked before" if id_ in plan.marked else "marked"
    if files := plan.release_files.get(id_):
        return f"{marked}; [red]{_many(len(files), 'file')} erased[/red]"
    return marked


def _rows(plan: "WithdrawalPlan") -> Iterator[str]:
    """The first rows of every release that must not be used any more."""
    for one in plan.affected.releases:
        if one.rows:
            files = (f"{row.file_path}{'' if row.is_whole else ' (texts)'}" for row in one.rows)
            yield f"{one.release.name}: {_list(files)}"
        if count := len(one.undescribed):
            rows = _many(count, "row")
            yield f"{one.release.name}: {rows} dropped: no caption left, the image is not withdrawn"


def _patches(plan: "WithdrawalPlan") -> Iterator[str]:
    for one in plan.affected.patches:
        yield (
            f"→ {one.base.manifest.dataset} {one.version} is built from the state of "
            f"{one.base.manifest.version}: {_many(one.rows, 'row')}"
        )


def _files(plan: "WithdrawalPlan") -> Iterator[str]:
    """The files that are erased, and those that stay."""
    if plan.erased:
        yield f"{_many(len(plan.erased), 'file')} of the blob store, erased with their vectors"
    for one in plan.affected.releases:
        if files := plan.release_files.get(one.release.manifest.id):
            yield f"{one.release.name}: {_many(len(files), 'file')} erased: {_by_folder(files)}"
    if plan.pages:
        yield f"{_many(len(plan.pages), 'page')} below the home erased: {_list(plan.pages)}"
    if plan.evaluations:
        yield f"examples of {_many(plan.evaluations, 'stored evaluation')} erased"
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


def _list(names: Iterable[object], limit: int = _SHOWN) -> str:
    """The first names, and how many more there are."""
    known = list(dict.fromkeys(map(str, names)))
    more = f" and {len(known) - limit:,} more (--json lists all)" if len(known) > limit else ""
    return ", ".join(known[:limit]) + more


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    short = line if len(line) <= _TEXT_CHARACTERS else f"{line[: _TEXT_CHARACTERS - 1]}…"
    return f"“{short}”"


# Confirmed withdrawals.

UNFINISHED = "not finished: loupe withdraw --resume"


def _state(withdrawal: "StoredWithdrawal") -> str:
    """The state of a withdrawal, in words."""
    if withdrawal.finished_at is None:
        return UNFINISHED
    return f"finished {withdrawal.finished_at:%Y-%m-%d %H:%M} UTC"


def files_of(withdrawal: "StoredWithdrawal") -> str:
    """What is done with the files of a withdrawal, in words."""
    if not withdrawal.request.erases:
        return "kept"
    return "erased" if withdrawal.is_finished else "to be erased"


def _counts(counts: Iterable["WithdrawalCount"]) -> Table:
    """A row a dataset, a column a kind: the kinds that people know first."""
    by_dataset: dict[str, Counter[str]] = defaultdict(Counter)
    for one in counts:
        by_dataset[one.dataset][one.kind] += one.entities
    first = ("source", "video", "image", "caption", "rewrite")
    kinds = {kind for own in by_dataset.values() for kind in own}
    shown = [kind for kind in first if kind in kinds]
    others = sorted(kinds - set(first))
    table = _titled_table("What is withdrawn")
    table.add_column("dataset")
    for kind in shown:
        table.add_column(f"{kind}s", justify="right")
    if others:
        table.add_column("other kinds")
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
    """All that is stored of a withdrawal."""
    facts = Table.grid(padding=(0, 2))
    for name, value in (
        ("withdrawal", f"{withdrawal.id}, {withdrawal.key}"),
        ("of", str(withdrawal.request.target)),
        ("ground", withdrawal.request.ground),
        ("reason", withdrawal.reason),
        ("files", files_of(withdrawal)),
        ("confirmed", f"{withdrawal.confirmed_at:%Y-%m-%d %H:%M} UTC by {withdrawal.agent.name}"),
        ("state", _state(withdrawal)),
    ):
        facts.add_row(Text(name, "bold"), Text(value))
    parts: list[RenderableType] = [facts, Text(), _counts(counts)]
    if notices:
        table = _titled_table("Notices for holders of releases")
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
        done.add_row(f"{step.done_at:%Y-%m-%d %H:%M:%S}", Text(step_text(step.step, step.details)))
    return Group(*parts, Text(), Text("Steps done", "bold"), _indented(done))


def step_text(name: str, details: Mapping[str, Any]) -> str:
    """A step in a sentence: its name and details."""
    if name == "confirmed":
        return f"confirmed: {_many(details['entities'], 'item')} withdrawn"
    if reason := details.get("skipped"):
        return f"{name}: skipped, {reason}"
    parts = [
        f"{key.replace('_', ' ')} {_value(value)}"
        for key, value in details.items()
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


def residual_display(left: "ResidualCopies") -> Text:
    """What people must remove or publish themselves after a withdrawal."""
    lines = (f"\n  {line}" for line in _residual(left))
    return Text.assemble(("Not reached from here", "bold"), *lines)


def _residual(left: "ResidualCopies") -> Iterator[str]:
    for server, tasks in left.on_desks.items():
        yield (
            f"{_many(tasks, 'task')} of the review server {server}, with texts and answers: "
            "deleted by loupe withdraw --resume, once it answers"
        )
    if left.notices:
        if left.made:
            yield f"made before, and still holding it: {_list(left.made)}"
        yield "exports, reports and copies of these releases elsewhere: delete and make them again"
        yield f"those who have the releases: publish {_list(left.notices)}"
    for source, files in left.originals.items():
        yield f"the files that {source} was imported from: {_list(files)}"
    if left.drawn:
        yield f"of these, drawn here and imported: {_list(left.drawn)}"
    yield "texts about it, models' answers and file names, in the database itself and its logs"
    yield "backups and disk snapshots, and models that were trained on it"


def _titled_table(title: str) -> Table:
    """A table with its title at the left."""
    return Table(title=title, title_justify="left", title_style="bold", header_style="bold")


def _indented(shown: RenderableType) -> Padding:
    """Two places further to the right."""
    return Padding(shown, (0, 0, 0, 2))


def _many(count: int, noun: str) -> str:
    """A number of things, in words."""
    plural = noun if count == 1 or noun.endswith("these") else f"{noun}s"
    return f"{count:,} {plural}"
