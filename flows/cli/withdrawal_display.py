"""Terminal output for withdrawals: plans, confirmed withdrawals and residual copies."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from loupe.db.roles import ROLES
from loupe.db.withdrawal_graph import EMPTY, SAME, TARGET
from loupe.flows.cli.output import Line, Table, one_line
from loupe.schemas.grouping import grouped
from loupe.schemas.provenance import Role
from loupe.schemas.wording import many

if TYPE_CHECKING:
    from loupe.db.store import Store
    from loupe.db.withdrawals import StoredWithdrawal
    from loupe.flows.withdrawal.plan import ResidualCopies, WithdrawalPlan
    from loupe.flows.withdrawal.releases import AffectedRelease
    from loupe.schemas.withdrawal import WithdrawalCount

_SHOWN = 8
_TEXT_CHARACTERS = 100
_REASONS = {
    TARGET: "was requested",
    SAME: "has the bytes of a withdrawn file",
    EMPTY: "shows only what is withdrawn",
    Role.SAMPLED_FROM: "is the same thing in another dataset",
}
UNFINISHED = "not finished: loupe withdraw --resume"


def plan_lines(plan: "WithdrawalPlan", blobs: str = "") -> Iterator[Line]:
    """Describe a plan: entities withdrawn, erased and kept, affected releases, and patches.

    `blobs` is where the blob store is if it is outside the home.
    """
    request = plan.request
    files = "its files are erased" if request.erases else "its files are kept"
    yield f"To withdraw: {request.target} ({request.ground}; {files})"
    if plan.is_done:
        last = plan.earlier[-1]
        done = f"withdrawn on {last.confirmed_at:%Y-%m-%d} as {last.key[:12]}"
        yield f"  {done}; nothing is left to do"
        return
    yield from _indented(_person(plan))
    yield _counts(plan.counts())
    yield from _indented(_named(plan))
    already = len(plan.reached) - len(plan.new)
    if plan.new:
        reasons = [
            (count, _REASONS.get(why) or ROLES[why].why, why.replace("_", " "))
            for why, count in plan.reasons().items()
        ]
        yield Table("Why", ("items", "each because it …", "role"), reasons)
        if already:
            yield f"  {already:,} of these withdrawn before"
    else:
        yield "  everything is already withdrawn; only files and releases change"
    if plan.reopened:
        judged = many(len(plan.reopened), "judgement")
        yield f"  {judged} withdrawn: others are asked again"
    if plan.affected.releases:
        columns = ("release", "rows gone", "lose texts or records", "use instead", "its folder")
        releases = [
            (
                one.release.name,
                f"{one.rows_gone:,} of {one.release.manifest.statistics.images:,}",
                one.rows_shortened,
                one.superseded_by or "nothing is left",
                _folder(plan, one),
            )
            for one in plan.affected.releases
        ]
        yield Table("Affected releases", columns, releases)
        yield from _indented(_rows(plan))
    else:
        yield "  No release is affected."
    yield from _indented(_files(plan, blobs))


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _person(plan: "WithdrawalPlan") -> Iterator[str]:
    """Yield the person of an identity: the sources that use the name, and the published ids."""
    target = plan.request.target
    if target.sort != "identity":
        return
    named = (one for one in plan.named.values() if one.identity == target.name)
    sources = {one.source: None for one in named if target.source in (None, one.source)}
    yield f"the person named {target.name!r} in {_list(filter(None, sources))}"
    for one in plan.affected.releases:
        if one.people and one.release.manifest.dataset == target.dataset:
            yield f"published as id {_list(one.people)} in {one.release.name}"


def _named(plan: "WithdrawalPlan") -> Iterator[str]:
    """Yield the withdrawn files, or else the texts, by dataset."""
    by_dataset = grouped((plan.reached[id_].dataset, one) for id_, one in plan.named.items())
    for dataset, named in sorted(by_dataset.items()):
        files = sorted(one.file_path for one in named if one.file_path is not None)
        texts = [f"“{one_line(one.text, _TEXT_CHARACTERS)}”" for one in named if one.text]
        if shown := _list(files) if files else _list(texts, 3):
            yield f"{dataset}: {shown}"


def _folder(plan: "WithdrawalPlan", one: "AffectedRelease") -> str:
    """Return what the withdrawal would do in the folder of a release."""
    if not (one.release.folder / "manifest.json").is_file():
        return "not there"
    files = plan.release_files.get(one.release.manifest.id)
    return f"would be marked, and {many(len(files), 'file')} erased" if files else "would be marked"


def _rows(plan: "WithdrawalPlan") -> Iterator[str]:
    """Yield the first affected rows of every release, and the patches."""
    for one in plan.affected.releases:
        if one.rows:
            files = (f"{row.file_path}{'' if row.is_whole else ' (in part)'}" for row in one.rows)
            yield f"{one.release.name}: {_list(files)}"
        if count := len(one.undescribed):
            rows = many(count, "row")
            yield f"{one.release.name}: {rows} dropped: no caption left, the image is not withdrawn"
    for patch in plan.affected.patches:
        base = patch.base.manifest
        rows = many(patch.rows, "row")
        yield f"→ {base.dataset} {patch.version} is built from the state of {base.version}: {rows}"


def _files(plan: "WithdrawalPlan", blobs: str) -> Iterator[str]:
    """Yield the files that are erased, those that are kept, and what is outside the home."""
    for folder in plan.outside:
        yield f"outside the home, would be changed as well: {folder}"
    for one in plan.affected.releases:
        if files := plan.release_files.get(one.release.manifest.id):
            yield f"would be erased of {one.release.name}: {_list(files)}"
    if plan.erased:
        stored, where = many(len(plan.erased), "stored file"), f" in {blobs}" if blobs else ""
        whose = "its" if len(plan.erased) == 1 else "their"
        yield f"{stored}{where} and {whose} vectors would be erased"
    if plan.pages:
        pages = many(len(plan.pages), "page")
        yield f"{pages} below the home would be erased: {_list(plan.pages)}"
    if plan.evaluations:
        yield f"examples of {many(plan.evaluations, 'stored evaluation')} would be erased"
    if plan.kept:
        needed = (f"{digest[:12]} (by {holder[:12]})" for digest, holder in plan.kept.items())
        yield f"{many(len(plan.kept), 'file')} would be kept, needed by others: {_list(needed)}"


def _list(names: Iterable[object], limit: int = _SHOWN) -> str:
    """Return the first names, and how many more there are."""
    known = list(dict.fromkeys(map(str, names)))
    more = f" and {len(known) - limit:,} more (--json lists all)" if len(known) > limit else ""
    return ", ".join(known[:limit]) + more


def _counts(counts: Iterable["WithdrawalCount"]) -> Table:
    rows = []
    for dataset, own in groupby(counts, key=lambda one: one.dataset):
        kinds = (many(one.entities, one.kind.replace("_", " ")) for one in own)
        rows.append((dataset, ", ".join(kinds)))
    return Table("What is withdrawn", ("dataset", "items"), rows)


# Confirmed withdrawals.


def files_of(withdrawal: "StoredWithdrawal") -> str:
    """Describe what is done with the files of a withdrawal."""
    if not withdrawal.request.erases:
        return "kept"
    return "erased" if withdrawal.is_finished else "to be erased"


def withdrawal_lines(store: "Store", withdrawal: "StoredWithdrawal") -> Iterator[Line]:
    """Describe everything stored about a withdrawal."""
    from loupe.db.withdrawals import counts_of, notices_of, steps_of

    ended = withdrawal.finished_at
    for name, value in (
        ("withdrawal", f"{withdrawal.id}, {withdrawal.key}"),
        ("of", withdrawal.request.target),
        ("ground", withdrawal.request.ground),
        ("reason", withdrawal.reason),
        ("files", files_of(withdrawal)),
        ("confirmed", f"{withdrawal.confirmed_at:%Y-%m-%d %H:%M} UTC by {withdrawal.agent.name}"),
        ("state", f"finished {ended:%Y-%m-%d %H:%M} UTC" if ended else UNFINISHED),
    ):
        yield f"{name:<12}{value}"
    yield _counts(counts_of(store, withdrawal.id))
    if notices := notices_of(store, withdrawal.id):
        rows = []
        for one in notices:
            whole = sum(row.is_whole for row in one.rows)
            release = f"{one.dataset} {one.version}"
            rows.append((release, whole, len(one.rows) - whole, one.superseded_by or "–"))
        columns = ("release", "rows gone", "lose texts or records", "use instead")
        yield Table("Notices for holders of releases", columns, rows)
    steps = [
        (f"{one.done_at:%Y-%m-%d %H:%M:%S}", step_text(one.step, one.details))
        for one in steps_of(store, withdrawal.id)
    ]
    yield Table("Steps done", ("at", "step"), steps)


def step_text(name: str, details: Mapping[str, Any]) -> str:
    """Describe a step in a sentence, with its name and details."""
    if name == "confirmed":
        return f"confirmed: {many(details['entities'], 'item')} withdrawn"
    if reason := details.get("skipped"):
        return f"{name}: skipped, {reason}"
    parts = []
    for key, value in details.items():
        words = key.replace("_", " ")
        if value is True:
            parts.append(words)
        elif value not in (None, 0, [], False):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            parts.append(f"{words} {shown}")
    return f"{name}: {', '.join(parts)}" if parts else name


def residual_lines(left: "ResidualCopies") -> Iterator[str]:
    """Describe what people must remove or publish themselves after a withdrawal."""
    yield "\nNot reached from here"
    for server, tasks in left.on_desks.items():
        yield (
            f"  {many(tasks, 'task')} of the review server {server}, with texts and answers: "
            "deleted by loupe withdraw --resume, once it answers"
        )
    if left.notices:
        if left.made:
            yield f"  made earlier, still containing it: {_list(left.made)}"
        yield "  exports, reports and copies of these releases elsewhere: delete and replace them"
        yield f"  those who have the releases: publish {_list(left.notices)}"
    for source, files in left.originals.items():
        yield f"  the files that {source} was imported from: {_list(files)}"
    yield "  texts about it, models' answers and file names, in the database itself and its logs"
    yield "  backups and disk snapshots, and models that were trained on it"
