"""Check that a rewritten description states the same as its source, and nothing else."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from loupe.checks.rewrites import copy_defect, described_checks, judge_rewrite, load_check
from loupe.checks.text import Defect, Form
from loupe.db.decisions import decided_by_people
from loupe.db.entities import (
    LIVE,
    NewDecision,
    StoredEntity,
    WorkResult,
    fetch,
    fetch_children,
    fetch_parents,
    find_in_groups,
    new_entity,
)
from loupe.db.plugin_agents import plugin_agents
from loupe.db.quarantine import REPEATS_SIBLING
from loupe.db.store import Store
from loupe.db.work import Pending
from loupe.flows.answers import UnusableAnswerError, language_of, read_text
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.programs import Program
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, run_stage
from loupe.flows.engine.scope import EVERYTHING, Scope
from loupe.schemas.build import PEOPLE_CHECKS
from loupe.schemas.faithfulness import FaithfulnessReport, RewritePair
from loupe.schemas.profile import FaithfulnessSettings
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image, Rejection, Rewrite

VERSION = "11"
STAGE = "check_faithfulness"


def check_faithfulness(
    pair: RewritePair, settings: FaithfulnessSettings, checks: Sequence[str] = PEOPLE_CHECKS
) -> FaithfulnessReport | Rejection:
    """Return how a rewrite differs from its source, or why it cannot be used."""
    judged = judge_rewrite(pair, settings, checks)
    if isinstance(judged, Defect):
        return _rejected(judged.reason, judged.detail, pair)
    return judged


def check_written(
    pair: RewritePair,
    settings: FaithfulnessSettings,
    max_characters: int,
    checks: Sequence[str] = PEOPLE_CHECKS,
) -> FaithfulnessReport | Rejection:
    """Return how a build would judge a rewrite, as a model wrote it, or why it is not stored."""
    form = Form(language_of(pair.source))
    try:
        line = read_text(pair.rewrite, "The rewrite", max_characters, form, pair.source)
    except UnusableAnswerError as unusable:
        return _rejected(unusable.reason, unusable.detail, pair)
    return check_faithfulness(pair.model_copy(update={"rewrite": line}), settings, checks)


def _rejected(reason: str, detail: str, pair: RewritePair) -> Rejection:
    return Rejection.of(STAGE, reason, detail, source=pair.source, rewrite=pair.rewrite)


def check_rewrites(
    context: RunContext,
    dataset: str,
    settings: FaithfulnessSettings,
    authors: Sequence[str],
    checks: Sequence[str] = PEOPLE_CHECKS,
    scope: Scope = EVERYTHING,
) -> StageReport:
    """Give every proposed rewrite of `dataset` a report, or reject it if it is not a rewrite.

    Of near-identical rewrites of one image the first is kept, in the order of `authors` (the models
    of the profile), regardless of which one was returned first.
    """
    program = RewriteChecks(dataset, settings, tuple(authors), tuple(checks), scope)
    stage = checking_stage(dataset, settings, authors, checks, scope)
    pending = Pending(dataset, Rewrite.kind, ("proposed",))
    return run_stage(context, stage, pending, program)


def checking_stage(
    dataset: str,
    settings: FaithfulnessSettings,
    authors: Sequence[str],
    checks: Sequence[str],
    scope: Scope = EVERYTHING,
) -> Stage:
    """Return the stage that checks the rewrites of a dataset."""
    values = {
        "settings": settings.model_dump(mode="json"),
        "authors": list(authors),
        "checks": described_checks(checks),
    }
    configuration = scope.configuration(values)
    agents = plugin_agents("checks", *checks)
    return Stage(STAGE, VERSION, dataset, configuration, agents, label="check faithfulness")


class _CheckedSibling(NamedTuple):
    """A rewrite of the same image that was checked before one of an earlier author arrived."""

    id: str
    text: str
    is_decided: bool  # by a person


class _Rewritten(NamedTuple):
    """A rewrite, by its id, number and group, with the texts it is compared with.

    `file` is that of its image; empty if it has none.
    """

    id: str
    seq: int
    group: str | None
    pair: RewritePair
    checked: tuple[_CheckedSibling, ...] = ()
    file: str = ""


@dataclass(frozen=True)
class RewriteChecks(Program[_Rewritten]):
    """The check of the rewrites of a dataset; see `check_rewrites`."""

    stage = STAGE
    seconds = 0.003

    dataset: str
    settings: FaithfulnessSettings
    authors: tuple[str, ...]
    checks: tuple[str, ...] = PEOPLE_CHECKS
    scope: Scope = EVERYTHING

    def open(self) -> None:
        """Load the checks, which several threads would otherwise load at once."""
        for name in self.checks:
            load_check(name)

    def prepare(self, inputs: Sequence[StoredEntity], reader: Store) -> list[_Rewritten]:
        """Load the sources and siblings of these rewrites."""
        sources = fetch_parents(reader, [rewrite.id for rewrite in inputs], Role.REWRITE_OF)
        groups = sorted({str(rewrite.group) for rewrite in inputs})
        found = find_in_groups(reader, self.dataset, Rewrite.kind, groups)
        rewrites = [one for one in found if one.state != "inactive"]
        paired = self.paired(inputs, [sources[rewrite.id][0] for rewrite in inputs], rewrites)
        images = fetch(reader, groups)
        files = {
            id_: one.record(Image).file_path
            for id_, one in images.items()
            if one.kind == Image.kind
        }
        named = [one._replace(file=files.get(str(one.group), "")) for one in paired]
        return self._with_checked(named, inputs, rewrites, reader)

    def _with_checked(
        self,
        found: Sequence[_Rewritten],
        inputs: Sequence[StoredEntity],
        rewrites: Sequence[StoredEntity],
        reader: Store,
    ) -> list[_Rewritten]:
        """Add the siblings that an earlier run checked without these, which come before them.

        A rewrite that arrives late, such as after a retry, must not make its image have the same
        text twice, nor may the one that came first stay only because of that.
        """
        waiting = {rewrite.id for rewrite in inputs}
        others = [one for one in rewrites if one.id not in waiting and one.state in LIVE]
        with reader.read() as connection:
            checked = fetch_children(connection, [one.id for one in others], Role.CHECKS)
            decided = decided_by_people(connection, checked)
        siblings: dict[str | None, list[_CheckedSibling]] = defaultdict(list)
        for one in others:
            record = one.record(Rewrite)
            if one.id in checked and record.author in self.authors:
                sibling = _CheckedSibling(one.id, record.text, one.id in decided)
                siblings[one.group].append(sibling)
        return [
            item._replace(
                checked=tuple(
                    one for one in siblings[item.group] if one.text not in item.pair.siblings
                )
            )
            for item in found
        ]

    def paired(
        self,
        inputs: Sequence[StoredEntity],
        sources: Sequence[StoredEntity],
        rewrites: Iterable[StoredEntity],
    ) -> list[_Rewritten]:
        """Return each input with its source and the earlier ones of the `rewrites` of its image."""
        rank = {author: place for place, author in enumerate(self.authors)}
        texts: dict[str | None, list[tuple[tuple[int, str], str]]] = defaultdict(list)  # by image
        records: dict[str, Rewrite] = {}
        for one in rewrites:
            record = records[one.id] = one.record(Rewrite)
            if record.author in rank:
                texts[one.group].append(((rank[record.author], one.id), record.text))
        found = []
        for rewrite, caption in zip(inputs, sources, strict=True):
            record = records.get(rewrite.id) or rewrite.record(Rewrite)
            own = (rank.get(record.author, len(rank)), rewrite.id)
            earlier = tuple(text for order, text in sorted(texts[rewrite.group]) if order < own)
            source = caption.record(Caption).text
            pair = RewritePair(source=source, rewrite=record.text, siblings=earlier)
            found.append(_Rewritten(rewrite.id, rewrite.seq, rewrite.group, pair))
        return found

    def work(self, items: Sequence[_Rewritten]) -> list[WorkResult]:
        """Return a report on each rewrite, or a rejection."""
        return list(map(self._result, items))

    def _result(self, item: _Rewritten) -> WorkResult:
        alike = [one for one in item.checked if self._is_copy(item.pair, one.text)]
        decided = tuple(one.text for one in alike if one.is_decided)
        pair = item.pair.model_copy(update={"siblings": (*item.pair.siblings, *decided)})
        report = check_faithfulness(pair, self.settings, self.checks)
        if isinstance(report, Rejection):
            if item.file:
                context = {"file": item.file, **report.context}
                report = report.model_copy(update={"context": context})
            return self.refused(item, report)
        parents = [(Role.CHECKS, item.id), *self.scope.links]
        entity = new_entity(report, self.dataset, parents=parents, group=item.group)
        dropped = tuple(
            NewDecision(one.id, "reject", self.scope.agent, reason=REPEATS_SIBLING) for one in alike
        )
        return WorkResult(item.seq, entities=(entity,), decisions=dropped)

    def _is_copy(self, pair: RewritePair, text: str) -> bool:
        with_other = RewritePair(source=text, rewrite=pair.rewrite)
        return copy_defect(with_other, self.settings.near_identical_similarity) is not None

    def refused(self, input_: StoredEntity | _Rewritten, rejection: Rejection) -> WorkResult:
        """Reject the rewrite without review."""
        decision = NewDecision(input_.id, "reject", self.scope.agent, reason=rejection.reason)
        return WorkResult(input_.seq, decisions=(decision,), rejection=rejection)
